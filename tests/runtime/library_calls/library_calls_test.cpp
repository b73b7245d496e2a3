// The ops outside the pointwise tables: copies, reductions, products,
// normalisation, losses, indexing; each against eager, and which of them must
// not fall back to the boxed way.
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/memory/block.h"
#include "runtime/memory/placement_scope.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

// Placement needs our allocator; all memory comes from it.
const bool kInstalled = (InstallAllocator(), true);

using Ints = std::vector<std::int64_t>;

enum class Way { kDirect, kBoxed };

struct Case {
  std::string name;
  std::string what;
  Maker maker;
  Way way = Way::kDirect;
};

const c10::IValue kNone;
const std::int64_t kMean = 1;
const std::int64_t kSum = 2;

void AddCopies(std::vector<Case>* cases) {
  const at::ScalarType dtypes[] = {
      at::kFloat, at::kDouble, at::kBFloat16,     at::kHalf,
      at::kLong,  at::kInt,    at::kShort,        at::kChar,
      at::kByte,  at::kBool,   at::kComplexFloat, at::kComplexDouble};
  for (at::ScalarType to : dtypes) {
    for (at::ScalarType from : dtypes) {
      cases->push_back(
          {"aten::copy_", std::string(at::toString(to)) + at::toString(from),
           TJIT_CALL(d.Dense({7, 9}, to), d.Dense({7, 9}, from), false)});
    }
  }
  for (const char* to : {"dense", "strided", "transposed"}) {
    for (const char* from :
         {"dense", "strided", "transposed", "expanded", "row", "scalar"}) {
      cases->push_back(
          {"aten::copy_", std::string(to) + " " + from,
           TJIT_CALL(d.Laid(to, {6, 10}), d.Laid(from, {6, 10}), false)});
    }
  }
  cases->push_back(
      {"aten::copy_", "blocked transpose",
       TJIT_CALL(d.Dense({70, 80}), d.Laid("transposed", {70, 80}), false)});
  for (std::int64_t head : {8, 16, 32, 64, 24}) {
    cases->push_back(
        {"aten::copy_", "heads of " + std::to_string(head),
         TJIT_CALL(d.Dense({2, 3, 5, head}),
                   d.Dense({2, 5, 3, head}).transpose(1, 2), false)});
    cases->push_back(
        {"aten::copy_", "into heads of " + std::to_string(head),
         TJIT_CALL(d.Dense({2, 5, 3, head}).transpose(1, 2),
                   d.Dense({2, 3, 5, head}), false)});
  }
  cases->push_back({"aten::copy_", "large",
                    TJIT_CALL(d.Dense({40000}), d.Dense({40000}), false)});
  cases->push_back({"aten::copy_", "channels last",
                    TJIT_CALL(d.Dense({2, 3, 4, 4}),
                              d.Laid("channels_last", {2, 3, 4, 4}), false)});
  for (const char* to : {"dense", "strided", "transposed", "scalar"}) {
    cases->push_back({"aten::zero_", to, TJIT_CALL(d.Laid(to, {6, 10}))});
    cases->push_back({"aten::fill_.Scalar", to,
                      TJIT_CALL(d.Laid(to, {6, 10}), d.Uniform())});
    cases->push_back({"aten::fill_.Tensor", to,
                      TJIT_CALL(d.Laid(to, {6, 10}), d.Dense({}))});
  }
  cases->push_back({"aten::zero_", "large", TJIT_CALL(d.Dense({40000}))});
}

void AddReductions(std::vector<Case>* cases) {
  for (at::ScalarType t : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const char* layout : {"dense", "transposed", "strided"}) {
      for (const char* op : {"aten::sum.dim_IntList", "aten::mean.dim"}) {
        for (const Ints& dims : {Ints{}, Ints{0}, Ints{-1}, Ints{0, 1}}) {
          for (bool keep : {false, true}) {
            // bfloat16 means go through a float32 copy.
            const std::string what =
                std::string(layout) + " " + at::toString(t) + " dims " +
                std::to_string(dims.size()) + (keep ? " keep" : "");
            cases->push_back(
                {op, what,
                 TJIT_CALL(d.Laid(layout, {9, 33}, t), dims, keep, kNone)});
          }
        }
        cases->push_back(
            {op, "large",
             TJIT_CALL(d.Laid(layout, {210, 200}, t), Ints{}, false, kNone)});
        cases->push_back(
            {op, "large rows",
             TJIT_CALL(d.Laid(layout, {210, 200}, t), Ints{0}, false, kNone)});
      }
      for (std::int64_t reduction : {std::int64_t{0}, kMean, kSum}) {
        if (t == at::kBFloat16) continue;
        cases->push_back({"aten::mse_loss", layout,
                          TJIT_CALL(d.Laid(layout, {9, 33}, t),
                                    d.Dense({9, 33}, t), reduction)});
        cases->push_back(
            {"aten::mse_loss_backward", layout,
             TJIT_CALL(reduction == 0 ? d.Dense({9, 33}, t) : d.Dense({}, t),
                       d.Laid(layout, {9, 33}, t), d.Dense({9, 33}, t),
                       reduction)});
      }
    }
    cases->push_back(
        {"aten::sum.dim_IntList", "dtype",
         TJIT_CALL(d.Dense({8, 8}, at::kBFloat16), Ints{}, false, 6)});
    cases->push_back(
        {"aten::argmax", "rows", TJIT_CALL(d.Dense({9, 33}, t), 1, false)});
    cases->push_back(
        {"aten::argmax", "all", TJIT_CALL(d.Dense({9, 33}, t), kNone, false)});
    cases->push_back(
        {"aten::amax", "rows", TJIT_CALL(d.Dense({9, 33}, t), Ints{1}, true)});
    cases->push_back(
        {"aten::cumsum", "rows", TJIT_CALL(d.Dense({9, 33}, t), 1, kNone)});
  }
  cases->push_back(
      {"aten::sum.dim_IntList", "of bools",
       TJIT_CALL(d.Dense({9, 33}, at::kBool), Ints{}, false, kNone)});
  cases->push_back(
      {"aten::sum.dim_IntList", "of integers",
       TJIT_CALL(d.Dense({9, 33}, at::kLong), Ints{1}, false, kNone)});
}

void AddProducts(std::vector<Case>* cases) {
  const Ints sizes[] = {{8, 32, 32}, {4, 8, 16},  {1, 32, 8},
                        {8, 1, 8},   {8, 32, 1},  {1, 1, 1},
                        {32, 32, 1}, {33, 17, 5}, {64, 400, 70}};
  for (at::ScalarType t : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const Ints& s : sizes) {
      // oneDNN compiles a kernel for each bfloat16 product.
      if (t == at::kBFloat16 && &s - sizes > 1) break;
      const std::int64_t m = s[0], k = s[1], n = s[2];
      for (const char* a : {"dense", "transposed", "strided"}) {
        for (const char* b : {"dense", "transposed"}) {
          const std::string what = std::string(a) + " " + b + " " +
                                   std::to_string(m) + "x" + std::to_string(k) +
                                   "x" + std::to_string(n);
          cases->push_back(
              {"aten::mm", what,
               TJIT_CALL(d.Laid(a, {m, k}, t), d.Laid(b, {k, n}, t))});
          for (double beta : {1.0, 0.0}) {
            cases->push_back(
                {"aten::addmm", what,
                 TJIT_CALL(d.Dense({n}, t), d.Laid(a, {m, k}, t),
                           d.Laid(b, {k, n}, t), beta, 1.0 + seed)});
          }
          cases->push_back(
              {"aten::addmm", what + " full bias",
               TJIT_CALL(d.Laid(a, {m, n}, t), d.Laid(a, {m, k}, t),
                         d.Laid(b, {k, n}, t), 0.5, 1.0)});
          cases->push_back({"aten::addmm", what + " column bias",
                            TJIT_CALL(d.Dense({m, 1}, t), d.Laid(a, {m, k}, t),
                                      d.Laid(b, {k, n}, t), 1.0, 1.0)});
          cases->push_back(
              {"aten::addmm_", what,
               TJIT_CALL(d.Laid(b, {m, n}, t), d.Laid(a, {m, k}, t),
                         d.Laid(b, {k, n}, t), 1.0, 0.5)});
          cases->push_back(
              {"aten::bmm", what,
               TJIT_CALL(d.Laid(a, {3, m, k}, t), d.Laid(b, {3, k, n}, t))});
          cases->push_back(
              {"aten::baddbmm", what,
               TJIT_CALL(d.Dense({3, m, n}, t), d.Laid(a, {3, m, k}, t),
                         d.Laid(b, {3, k, n}, t), 1.0, 0.5)});
        }
      }
      cases->push_back({"aten::addmv", "",
                        TJIT_CALL(d.Dense({m}, t), d.Dense({m, k}, t),
                                  d.Dense({k}, t), 1.0, 1.0)});
    }
  }
}

void AddNn(std::vector<Case>* cases) {
  const Ints two = {2, 2}, one = {1, 1}, zero = {0, 0};
  for (at::ScalarType t : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto code = static_cast<std::int64_t>(t);
    for (const char* op : {"aten::_softmax", "aten::_log_softmax"}) {
      cases->push_back({op, "", TJIT_CALL(d.Dense({16, 10}, t), 1, false)});
      cases->push_back({op, "", TJIT_CALL(d.Dense({4, 7, 5}, t), 1, false)});
      cases->push_back(
          {op, "", TJIT_CALL(d.Laid("strided", {4, 7, 5}, t), -1, false)});
    }
    for (const char* op :
         {"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"}) {
      cases->push_back(
          {op, "",
           TJIT_CALL(d.Dense({16, 10}, t), d.Dense({16, 10}, t), 1, code)});
      cases->push_back(
          {op, "",
           TJIT_CALL(d.Dense({4, 7, 5}, t), d.Dense({4, 7, 5}, t), 1, code)});
    }
    cases->push_back({"aten::log_sigmoid_backward", "",
                      TJIT_CALL(d.Dense({9, 33}, t), d.Dense({9, 33}, t),
                                d.Dense({9, 33}, t))});
    // meta of glu leaves an iterator over tensors that it has freed.
    cases->push_back(
        {"aten::glu", "", TJIT_CALL(d.Dense({16, 10}, t), -1), Way::kBoxed});
    for (std::int64_t reduction : {std::int64_t{0}, kMean, kSum}) {
      auto probability = [](Data* d, at::ScalarType t) {
        return d->Positive({16}, t).mul(0.45);
      };
      cases->push_back(
          {"aten::binary_cross_entropy", "",
           TJIT_CALL(probability(&d, t), probability(&d, t), kNone, reduction),
           reduction == 0 ? Way::kDirect : Way::kBoxed});
      cases->push_back(
          {"aten::binary_cross_entropy_backward", "",
           TJIT_CALL(reduction == 0 ? d.Dense({16}, t) : d.Dense({}, t),
                     probability(&d, t), probability(&d, t), kNone,
                     reduction)});
      cases->push_back({"aten::nll_loss_forward", "",
                        TJIT_CALL(d.Dense({16, 10}, t), d.Index({16}, 10),
                                  kNone, reduction, -100)});
      cases->push_back(
          {"aten::nll_loss_backward", "",
           TJIT_CALL(reduction == 0 ? d.Dense({16}, t) : d.Dense({}, t),
                     d.Dense({16, 10}, t), d.Index({16}, 10), kNone, reduction,
                     -100, at::scalar_tensor(16, t))});
    }
    cases->push_back({"aten::native_layer_norm", "",
                      TJIT_CALL(d.Dense({4, 6, 64}, t), Ints{64},
                                d.Dense({64}, t), d.Dense({64}, t), 1e-5)});
    cases->push_back(
        {"aten::native_layer_norm", "no weight",
         TJIT_CALL(d.Dense({4, 6, 33}, t), Ints({6, 33}), kNone, kNone, 1e-5)});
    cases->push_back(
        {"aten::native_layer_norm_backward", "",
         TJIT_CALL(d.Dense({4, 6, 64}, t), d.Dense({4, 6, 64}, t), Ints{64},
                   d.Dense({4, 6, 1}, t), d.Positive({4, 6, 1}, t),
                   d.Dense({64}, t), d.Dense({64}, t),
                   c10::List<bool>({true, true, true}))});
    cases->push_back({"aten::native_layer_norm_backward", "only the input",
                      TJIT_CALL(d.Dense({4, 6, 64}, t), d.Dense({4, 6, 64}, t),
                                Ints{64}, d.Dense({4, 6, 1}, t),
                                d.Positive({4, 6, 1}, t), d.Dense({64}, t),
                                kNone, c10::List<bool>({true, false, false}))});
    for (const char* layout : {"dense", "channels_last"}) {
      for (bool train : {true, false}) {
        cases->push_back(
            {"aten::native_batch_norm", layout,
             TJIT_CALL(d.Laid(layout, {4, 3, 6, 6}, t), d.Dense({3}, t),
                       d.Dense({3}, t), d.Dense({3}, t), d.Positive({3}, t),
                       train, 0.1, 1e-5),
             Way::kBoxed});
      }
      cases->push_back(
          {"aten::native_batch_norm_backward", layout,
           TJIT_CALL(d.Dense({4, 3, 6, 6}, t), d.Laid(layout, {4, 3, 6, 6}, t),
                     d.Dense({3}, t), d.Dense({3}, t), d.Positive({3}, t),
                     d.Dense({3}, t), d.Positive({3}, t), true, 1e-5,
                     c10::List<bool>({true, true, true})),
           Way::kBoxed});
      cases->push_back({"aten::max_pool2d_with_indices", layout,
                        TJIT_CALL(d.Laid(layout, {2, 3, 8, 8}, t), two, two,
                                  zero, one, false)});
      cases->push_back(
          {"aten::max_pool2d_with_indices_backward", layout,
           TJIT_CALL(d.Dense({2, 3, 4, 4}, t), d.Laid(layout, {2, 3, 8, 8}, t),
                     two, two, zero, one, false, d.Index({2, 3, 4, 4}, 64))});
      cases->push_back(
          {"aten::convolution", layout,
           TJIT_CALL(d.Laid(layout, {2, 3, 8, 8}, t), d.Dense({4, 3, 3, 3}, t),
                     d.Dense({4}, t), one, one, one, false, zero, 1),
           Way::kBoxed});
      cases->push_back(
          {"aten::convolution_backward", layout,
           TJIT_CALL(d.Dense({2, 4, 8, 8}, t), d.Laid(layout, {2, 3, 8, 8}, t),
                     d.Dense({4, 3, 3, 3}, t), Ints{4}, one, one, one, false,
                     zero, 1, c10::List<bool>({true, true, true})),
           Way::kBoxed});
    }
  }
}

void AddIndexing(std::vector<Case>* cases) {
  for (at::ScalarType t : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (const char* op : {"aten::index_add", "aten::index_add_"}) {
      cases->push_back({op, "",
                        TJIT_CALL(d.Dense({6, 9}, t), -2, d.Index({4}, 6),
                                  d.Dense({4, 9}, t), 1 + seed)});
    }
    cases->push_back({"aten::masked_fill_.Tensor", "",
                      TJIT_CALL(d.Dense({6, 9}, t), d.Dense({6, 1}, at::kBool),
                                d.Dense({}, t))});
    cases->push_back({"aten::where.self", "",
                      TJIT_CALL(d.Dense({6, 9}, at::kBool), d.Dense({6, 9}, t),
                                d.Dense({9}, t))});
    cases->push_back({"aten::where.self", "scalar",
                      TJIT_CALL(d.Dense({6, 9}, at::kBool), d.Dense({6, 9}, t),
                                d.Laid("wrapped", {}, t))});
    cases->push_back(
        {"aten::masked_fill_.Scalar", "",
         TJIT_CALL(d.Dense({6, 9}, t), d.Dense({6, 1}, at::kBool), 1 + seed)});
    cases->push_back({"aten::index_select", "rows",
                      TJIT_CALL(d.Dense({20, 8}, t), 0, d.Index({33}, 20))});
    cases->push_back({"aten::index_select", "columns",
                      TJIT_CALL(d.Dense({8, 20}, t), 1, d.Index({3}, 20))});
    cases->push_back(
        {"aten::gather", "",
         TJIT_CALL(d.Dense({8, 20}, t), 1, d.Index({8, 3}, 20), false)});
    cases->push_back({"aten::scatter.src", "",
                      TJIT_CALL(d.Dense({8, 20}, t), 1, d.Index({8, 1}, 20),
                                d.Dense({8, 1}, t))});
    cases->push_back(
        {"aten::scatter_.value", "",
         TJIT_CALL(d.Dense({8, 20}, t), 1, d.Index({8, 3}, 20), 1 + seed)});
    cases->push_back({"aten::tril", "", TJIT_CALL(d.Dense({9, 9}, t), 0)});
    for (std::int64_t dim : {0, 1}) {
      cases->push_back({"aten::cat", "",
                        TJIT_CALL(c10::List<at::Tensor>(
                                      {d.Dense({6, 5}, t), d.Dense({6, 5}, t),
                                       d.Laid("transposed", {6, 5}, t)}),
                                  dim)});
    }
    for (const auto& [shifts, dims] : std::vector<std::pair<Ints, Ints>>{
             {{2}, {0}}, {{-3}, {1}}, {{1, 2}, {0, 1}}, {{0, -1}, {0, -1}},
             {{4, 5}, {2, 2}}, {{20, -40, 3}, {0, 1, 2}}, {{7}, {}}}) {
      cases->push_back({"aten::roll", "",
                        TJIT_CALL(d.Dense({6, 5, 4}, t), shifts, dims)});
    }
    cases->push_back({"aten::roll", "large",
                      TJIT_CALL(d.Dense({210, 200}, t), Ints{9, -7},
                                Ints{0, 1})});
    cases->push_back({"aten::roll", "one element",
                      TJIT_CALL(d.Dense({1}, t), Ints{3}, Ints{0})});
    cases->push_back({"aten::roll", "transposed",
                      TJIT_CALL(d.Laid("transposed", {6, 5}, t), Ints{1},
                                Ints{0}),
                      Way::kBoxed});
    cases->push_back(
        {"aten::index.Tensor", "",
         TJIT_CALL(d.Dense({20, 8}, t), c10::List<std::optional<at::Tensor>>(
                                            {std::nullopt, d.Index({5}, 8)})),
         Way::kBoxed});
  }
  cases->push_back(
      {"aten::embedding_dense_backward", "",
       TJIT_CALL(d.Dense({16, 8}), d.Index({16}, 12), 12, -1, false),
       Way::kBoxed});
}

// In every type that eager takes, directly or boxed.
std::vector<Case> CasesOf(at::ScalarType t) {
  std::vector<Case> cases;
  const auto add = [&](const char* op, const char* what, const Maker& maker) {
    cases.push_back({op, absl::StrCat(at::toString(t), " ", what), maker});
  };
  const auto number = [t](int seed) {
    if (!at::isComplexType(t)) return at::Scalar(1 + seed % 2);
    return at::Scalar(c10::complex<double>(0.5 + seed, 0.25));
  };
  for (const char* layout : {"dense", "transposed", "strided"}) {
    for (const char* op : {"aten::sum.dim_IntList", "aten::mean.dim"}) {
      for (const Ints& dims : {Ints{}, Ints{0}, Ints{-1}}) {
        add(op, layout,
            TJIT_CALL(d.Laid(layout, {9, 33}, t), dims, false, kNone));
      }
    }
    for (const char* op : {"aten::prod.dim_int", "aten::argmax", "aten::argmin",
                           "aten::all.dim", "aten::any.dim"}) {
      const auto maker = [=](int seed) {
        Data d(seed);
        torch::jit::Stack call = {d.Laid(layout, {9, 4}, t), 1, false};
        if (op == std::string("aten::prod.dim_int")) call.emplace_back();
        return call;
      };
      add(op, layout, maker);
    }
    for (const char* op : {"aten::all", "aten::any", "aten::prod"}) {
      const auto maker = [=](int seed) {
        torch::jit::Stack call = {Data(seed).Laid(layout, {9, 4}, t)};
        if (op == std::string("aten::prod")) call.emplace_back();
        return call;
      };
      add(op, layout, maker);
    }
    for (const char* op : {"aten::amax", "aten::amin"}) {
      add(op, layout, TJIT_CALL(d.Laid(layout, {9, 33}, t), Ints{1}, true));
    }
    for (const char* op : {"aten::cumsum", "aten::cumprod"}) {
      add(op, layout, TJIT_CALL(d.Laid(layout, {9, 33}, t), 1, kNone));
    }
    for (const char* op : {"aten::max.dim", "aten::min.dim"}) {
      add(op, layout, TJIT_CALL(d.Laid(layout, {9, 33}, t), 1, false));
    }
    add("aten::linalg_vector_norm", layout,
        TJIT_CALL(d.Laid(layout, {9, 33}, t), 2, Ints{1}, false, kNone));
    add("aten::var.correction", layout,
        TJIT_CALL(d.Laid(layout, {9, 33}, t), Ints{1}, 1, false));
    add("aten::sort.stable", layout,
        TJIT_CALL(d.Laid(layout, {9, 33}, t), true, 1, false));
    add("aten::topk", layout,
        TJIT_CALL(d.Laid(layout, {9, 33}, t), 3, 1, true, true));
    add("aten::fill_.Scalar", layout,
        TJIT_CALL(d.Laid(layout, {6, 10}, t), number(seed)));
    add("aten::zero_", layout, TJIT_CALL(d.Laid(layout, {6, 10}, t)));
    add("aten::copy_", layout,
        TJIT_CALL(d.Laid(layout, {70, 80}, t), d.Dense({70, 80}, t), false));
    add("aten::mm", layout,
        TJIT_CALL(d.Laid(layout, {8, 5}, t), d.Laid(layout, {5, 6}, t)));
    add("aten::bmm", layout,
        TJIT_CALL(d.Laid(layout, {3, 8, 5}, t), d.Laid(layout, {3, 5, 6}, t)));
    add("aten::addmm", layout,
        TJIT_CALL(d.Laid(layout, {8, 6}, t), d.Laid(layout, {8, 5}, t),
                  d.Dense({5, 6}, t), number(seed), number(seed + 1)));
    add("aten::addmm_", layout,
        TJIT_CALL(d.Laid(layout, {8, 6}, t), d.Laid(layout, {8, 5}, t),
                  d.Dense({5, 6}, t), number(seed), number(seed + 1)));
    add("aten::addmm", "row, and no factors",
        TJIT_CALL(d.Dense({6}, t), d.Laid(layout, {8, 5}, t),
                  d.Dense({5, 6}, t), 1, 1));
    add("aten::baddbmm", layout,
        TJIT_CALL(d.Dense({3, 8, 6}, t), d.Laid(layout, {3, 8, 5}, t),
                  d.Dense({3, 5, 6}, t), number(seed), number(seed + 1)));
    add("aten::addmv", layout,
        TJIT_CALL(d.Dense({8}, t), d.Laid(layout, {8, 5}, t), d.Dense({5}, t),
                  number(seed), number(seed + 1)));
    add("aten::where.self", layout,
        TJIT_CALL(d.Dense({6, 9}, at::kBool), d.Laid(layout, {6, 9}, t),
                  d.Dense({9}, t)));
    add("aten::masked_fill_.Scalar", layout,
        TJIT_CALL(d.Laid(layout, {6, 9}, t), d.Dense({6, 1}, at::kBool),
                  number(seed)));
    add("aten::index_add_", layout,
        TJIT_CALL(d.Laid(layout, {6, 9}, t), 0, d.Index({4}, 6),
                  d.Dense({4, 9}, t), number(seed)));
    add("aten::index_select", layout,
        TJIT_CALL(d.Laid(layout, {20, 8}, t), 0, d.Index({33}, 20)));
    add("aten::gather", layout,
        TJIT_CALL(d.Laid(layout, {8, 20}, t), 1, d.Index({8, 3}, 20), false));
    add("aten::scatter_.value", layout,
        TJIT_CALL(d.Laid(layout, {8, 20}, t), 1, d.Index({8, 3}, 20),
                  number(seed)));
    add("aten::tril", layout, TJIT_CALL(d.Laid(layout, {9, 9}, t), 0));
    add("aten::roll", layout,
        TJIT_CALL(d.Laid(layout, {6, 5, 4}, t), Ints{1, 2}, Ints{0, 1}));
    add("aten::cat", layout,
        TJIT_CALL(c10::List<at::Tensor>(
                      {d.Dense({6, 5}, t), d.Laid(layout, {6, 5}, t)}),
                  1));
  }
  const auto parts =
      TJIT_CALL(d.Laid("transposed", {6, 9}, t), d.Dense({9}, t));
  add("aten::complex", "", parts);
  add("aten::polar", "", parts);
  add("aten::abs", "", TJIT_CALL(d.Laid("transposed", {6, 9}, t)));
  add("aten::angle", "", TJIT_CALL(d.Laid("strided", {6, 9}, t)));
  add("aten::conj_physical_", "", TJIT_CALL(d.Laid("strided", {6, 9}, t)));
  return cases;
}

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name + " " + c.what);
    RecordedCall call(c.name, c.maker);
    EXPECT_EQ(call.step().is_boxed(), c.way == Way::kBoxed);
    for (int seed = 1; seed < 3; ++seed) {
      ASSERT_EQ(call.Compare(&call.step(), seed), "") << "seed " << seed;
      ASSERT_EQ(call.Compare(&call.boxed(), seed), "")
          << "boxed, seed " << seed;
    }
  }
}

TEST(LibraryCalls, Copies) {
  std::vector<Case> cases;
  AddCopies(&cases);
  CheckCases(cases);
}
TEST(LibraryCalls, Reductions) {
  std::vector<Case> cases;
  AddReductions(&cases);
  CheckCases(cases);
}
TEST(LibraryCalls, Products) {
  std::vector<Case> cases;
  AddProducts(&cases);
  CheckCases(cases);
}
TEST(LibraryCalls, Nn) {
  std::vector<Case> cases;
  AddNn(&cases);
  CheckCases(cases);
}
TEST(LibraryCalls, Indexing) {
  std::vector<Case> cases;
  AddIndexing(&cases);
  CheckCases(cases);
}

// What a training step of a small network is made of runs without a single
// tensor of the executor: patched iterators, BLAS, memmove. A silent fallback
// to the next best way would still be right, but several times slower.
TEST(LibraryCalls, OtherTypes) {
  // How many of them eager has.
  const std::pair<at::ScalarType, int> kLeast[] = {
      {at::kHalf, 133},          {at::kBFloat16, 132},
      {at::kDouble, 134},        {at::kByte, 117},
      {at::kChar, 117},          {at::kShort, 117},
      {at::kInt, 117},           {at::kLong, 117},
      {at::kBool, 86},           {at::kComplexFloat, 108},
      {at::kComplexDouble, 108}, {at::kComplexHalf, 50}};
  for (const auto& [type, least] : kLeast) {
    int compared = 0;
    for (const Case& c : CasesOf(type)) {
      SCOPED_TRACE(c.name + " " + c.what);
      std::unique_ptr<RecordedCall> call;
      try {
        call = std::make_unique<RecordedCall>(c.name, c.maker);
      } catch (const std::exception&) {
        continue;  // eager has none
      }
      for (int seed = 1; seed < 3; ++seed) {
        ASSERT_EQ(call->Compare(&call->step(), seed), "") << "seed " << seed;
        ASSERT_EQ(call->Compare(&call->boxed(), seed), "")
            << "boxed, seed " << seed;
      }
      ++compared;
    }
    EXPECT_GE(compared, least) << at::toString(type);
  }
}

TEST(LibraryCalls, SmallTrainingStepUsesNoTensors) {
  const std::vector<Case> cases = {
      {"aten::add.Tensor", "bias",
       TJIT_CALL(d.Dense({8, 32}), d.Dense({32}), 1.0)},
      {"aten::add_.Tensor", "scalar",
       TJIT_CALL(d.Dense({32, 8}), d.Laid("wrapped", {}), 1.0)},
      {"aten::addcdiv_", "",
       TJIT_CALL(d.Dense({32, 8}), d.Dense({32, 8}), d.Positive({32, 8}),
                 -0.01 * seed)},
      {"aten::addcmul_", "",
       TJIT_CALL(d.Dense({32, 8}), d.Dense({32, 8}), d.Dense({32, 8}), 0.001)},
      {"aten::addmm", "",
       TJIT_CALL(d.Dense({32}), d.Dense({8, 16}),
                 d.Laid("transposed", {16, 32}), 1, 1)},
      {"aten::copy_", "", TJIT_CALL(d.Dense({32, 8}), d.Dense({32, 8}), false)},
      {"aten::div.Tensor", "",
       TJIT_CALL(d.Dense({32, 8}), d.Laid("wrapped", {}))},
      {"aten::fill_.Scalar", "", TJIT_CALL(d.Dense({}), 1.0)},
      {"aten::lerp_.Scalar", "",
       TJIT_CALL(d.Dense({32, 8}), d.Dense({32, 8}), 0.1)},
      {"aten::mm", "gradient of the weight",
       TJIT_CALL(d.Laid("transposed", {32, 8}), d.Dense({8, 16}))},
      {"aten::mm", "gradient of the input",
       TJIT_CALL(d.Dense({8, 32}), d.Dense({32, 16}))},
      {"aten::mse_loss_backward", "",
       TJIT_CALL(d.Dense({}), d.Dense({8, 1}), d.Dense({8, 1}), kMean)},
      {"aten::mul_.Tensor", "",
       TJIT_CALL(d.Dense({32, 8}), d.Laid("wrapped", {}))},
      {"aten::relu", "", TJIT_CALL(d.Dense({8, 32}))},
      {"aten::sqrt", "", TJIT_CALL(d.Positive({32, 8}))},
      {"aten::tanh", "", TJIT_CALL(d.Dense({8, 32}))},
      {"aten::tanh_backward", "",
       TJIT_CALL(d.Dense({8, 32}), d.Dense({8, 32}))},
      {"aten::threshold_backward", "",
       TJIT_CALL(d.Dense({8, 32}), d.Dense({8, 32}), 0)},
      {"aten::zero_", "", TJIT_CALL(d.Dense({32, 8}))},
  };
  for (const Case& c : cases) {
    RecordedCall call(c.name, c.maker);
    EXPECT_FALSE(call.step().uses_tensors()) << c.name << " " << c.what;
    EXPECT_EQ(call.Compare(&call.step(), 1), "") << c.name << " " << c.what;
  }
}

// A product of a size that was not tried yet is libtorch's own until it may be.
TEST(LibraryCalls, StepsGoWithoutTrialsAtFirst) {
  const Case c = {"aten::mm", "",
                  TJIT_CALL(d.Dense({11, 23}), d.Dense({23, 19}))};
  const auto expect = [&](bool are_allowed, bool is_own, bool wants) {
    RecordedCall call(c.name, c.maker);
    call.trials().are_allowed = are_allowed;
    EXPECT_EQ(call.step().uses_tensors(), !is_own);
    EXPECT_EQ(call.trials().are_wanted, wants);
    EXPECT_EQ(call.Compare(&call.step(), 1), "");
  };
  expect(/*are_allowed=*/false, /*is_own=*/false, /*wants=*/true);
  expect(/*are_allowed=*/true, /*is_own=*/true, /*wants=*/false);
  expect(/*are_allowed=*/false, /*is_own=*/true, /*wants=*/false);
}

// oneDNN asks for scratch of the result's size before the result.
TEST(LibraryCalls, ConvolutionsAreNotCopiedForLong) {
  const Ints one = {1, 1}, zero = {0, 0};
  const std::vector<Case> cases = {
      {"aten::convolution", "",
       TJIT_CALL(d.Dense({8, 8, 16, 16}), d.Dense({24, 8, 3, 3}), d.Dense({24}),
                 one, one, one, false, zero, 1)},
      {"aten::convolution_backward", "",
       TJIT_CALL(d.Dense({8, 24, 16, 16}), d.Dense({8, 8, 16, 16}),
                 d.Dense({24, 8, 3, 3}), Ints{24}, one, one, one, false, zero,
                 1, c10::List<bool>({true, true, true}))},
  };
  // For AVX2 oneDNN makes the gradient of the weights in memory of its own.
  const bool is_wide =
      at::get_cpu_capability().find("AVX512") != std::string::npos;
  const std::int64_t copied_of[] = {0, is_wide ? 0 : 24 * 8 * 3 * 3 * 4};
  constexpr int kFirst = 4, kLast = 8;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    RecordedCall call(c.name, c.maker);
    std::int64_t copied = 0;
    for (int seed = 1; seed < kLast; ++seed) {
      if (seed == kFirst) copied = CopiedResultBytes();
      EXPECT_EQ(call.Compare(&call.boxed(), seed), "") << c.name << " " << seed;
    }
    EXPECT_EQ(CopiedResultBytes() - copied, (kLast - kFirst) * copied_of[i])
        << c.name;
  }
}

// What a kernel frees itself comes from what it is lent, with the same bits.
TEST(LibraryCalls, ScratchIsOfLentMemory) {
  const Ints one = {1, 1}, zero = {0, 0};
  const std::vector<Case> cases = {
      {"aten::convolution", "",
       TJIT_CALL(d.Dense({8, 1, 32, 32}), d.Dense({24, 1, 3, 3}), d.Dense({24}),
                 one, one, one, false, zero, 1)},
      // The gradient of the weights is copied, whatever the offer.
      {"aten::convolution_backward", "",
       TJIT_CALL(d.Dense({8, 64, 14, 14}), d.Dense({8, 32, 14, 14}),
                 d.Dense({64, 32, 3, 3}), Ints{64}, one, one, one, false, zero,
                 1, c10::List<bool>({true, true, true}))},
  };
  for (const Case& c : cases) {
    RecordedCall call(c.name, c.maker);
    for (int seed = 1; seed < 6; ++seed) {
      EXPECT_EQ(call.Compare(&call.boxed(), seed), "") << c.name << " " << seed;
    }
    const std::vector<std::uint64_t> pieces = call.boxed().Scratch();
    ASSERT_FALSE(pieces.empty()) << c.name;
    std::vector<at::Tensor> memory;
    std::int64_t bytes = 0;
    for (const std::uint64_t piece : pieces) {
      const auto n = static_cast<std::int64_t>(piece);
      bytes += n;
      memory.push_back(at::full({n}, 7, at::kByte));
      call.boxed().Lend(static_cast<char*>(memory.back().data_ptr()), piece);
    }
    EXPECT_GE(bytes, 8 * 24 * 14 * 14 * 4) << c.name;
    const std::int64_t before = PlacedScratchBytes();
    EXPECT_EQ(call.Compare(&call.boxed(), 6), "") << c.name;
    const std::int64_t placed = PlacedScratchBytes() - before;
    constexpr std::int64_t kHeader = 128;  // in front of each
    EXPECT_GE(placed + kHeader * static_cast<std::int64_t>(pieces.size()),
              bytes)
        << c.name;
    call.boxed().Lend(nullptr, 0);
    EXPECT_EQ(call.Compare(&call.boxed(), 7), "") << c.name;
    EXPECT_EQ(PlacedScratchBytes() - before, placed) << "taken back";
    EXPECT_EQ(call.boxed().Scratch(), pieces) << c.name;
  }
}

// A kernel that needs scratch of its result's size; what it does once it is
// lent some.
enum class Mood {
  kUsual,
  kReturnsScratch,
  kReturnsOther,
  kThrows,
  kKeeps,
  kKeepsAndThrows
};
Mood mood = Mood::kUsual;

at::Tensor Moody(const at::Tensor& x) {
  const std::int64_t before = PlacedScratchBytes();
  const at::Tensor scratch = at::mul(x, 2);
  if (PlacedScratchBytes() != before) {
    TORCH_CHECK(mood != Mood::kThrows, "in a mood");
    if (mood == Mood::kReturnsScratch) return scratch;
    if (mood == Mood::kReturnsOther) return scratch.view({-1});
    if (mood == Mood::kKeeps || mood == Mood::kKeepsAndThrows) {
      static at::Tensor kept;
      kept = scratch;
      TORCH_CHECK(mood == Mood::kKeeps, "in a mood");
    }
  }
  return at::mul(x, 2);
}
TORCH_LIBRARY(tjit_test, library) {
  library.def("moody(Tensor x) -> Tensor", &Moody);
}

// A result that lies in lent memory is copied, and nobody holds any behind the
// call, however that ends.
TEST(LibraryCalls, ScratchOfAKernelThatChangesItsMind) {
  for (const Mood other :
       {Mood::kReturnsScratch, Mood::kReturnsOther, Mood::kThrows}) {
    RecordedCall call("tjit_test::moody", TJIT_CALL(d.Dense({200, 200})));
    // What differs, or was thrown. Sets *placed to the scratch served.
    const auto run = [&](int seed, std::int64_t* placed) -> std::string {
      at::Tensor memory = at::empty({200 * 1000}, at::kByte);
      call.boxed().Lend(static_cast<char*>(memory.data_ptr()), 200 * 1000);
      const std::int64_t before = PlacedScratchBytes();
      std::string differs;
      try {
        differs = call.Compare(&call.boxed(), seed);
      } catch (const c10::Error& e) {
        differs = e.what_without_backtrace();
      }
      call.boxed().Lend(nullptr, 0);
      memory.fill_(255);  // it is another's
      *placed = PlacedScratchBytes() - before;
      return differs;
    };
    mood = Mood::kUsual;
    std::int64_t placed = 0;
    for (int seed = 1; seed < 8; ++seed) EXPECT_EQ(run(seed, &placed), "");
    EXPECT_EQ(placed, 200 * 200 * 4);
    mood = other;
    EXPECT_EQ(run(8, &placed) == "", other == Mood::kReturnsScratch);
    EXPECT_EQ(placed, 200 * 200 * 4);
    // What has outlived a call is not served again, unless offers are made for
    // other requests since, as behind a result that was copied.
    for (int seed = 9; seed < 20; ++seed) {
      if (other != Mood::kReturnsScratch) mood = Mood::kUsual;
      EXPECT_EQ(run(seed, &placed), "");
      if (other != Mood::kReturnsScratch || seed > 16) {
        EXPECT_EQ(placed > 0, other == Mood::kThrows) << seed;
      }
    }
  }
  mood = Mood::kUsual;
}

// Whose memory is another's in a moment.
TEST(LibraryCallsDeathTest, AKernelThatKeepsScratch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RecordedCall call("tjit_test::moody", TJIT_CALL(d.Dense({200, 200})));
  at::Tensor memory = at::empty({200 * 1000}, at::kByte);
  const auto run = [&](int seed) {
    call.boxed().Lend(static_cast<char*>(memory.data_ptr()), 200 * 1000);
    EXPECT_EQ(call.Compare(&call.boxed(), seed), "");
    call.boxed().Lend(nullptr, 0);
  };
  mood = Mood::kUsual;
  for (int seed = 1; seed < 4; ++seed) run(seed);
  for (const Mood other : {Mood::kKeeps, Mood::kKeepsAndThrows}) {
    mood = other;
    EXPECT_DEATH(run(4), "moody still holds memory .*mark_opaque");
  }
  mood = Mood::kUsual;
  run(5);
}

// A result that is not as recorded is reported.
TEST(LibraryCalls, BoxedStepRefusesOtherResults) {
  const Maker small = TJIT_CALL(d.Dense({20, 8}), 0, d.Index({5}, 20));
  RecordedCall call("aten::index_select", small);
  StepRecord record = call.record();
  record.results[0].geometry.Own().sizes[0] = 6;
  EXPECT_NE(call.RunBoxed(record), "");
  EXPECT_EQ(call.RunBoxed(call.record()), "");
}

}  // namespace
}  // namespace tjit::runtime::testing
