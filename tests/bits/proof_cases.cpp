#include "tests/bits/proof_cases.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "compiler/lower/op_rules.h"
#include "tests/runtime/against_eager/lower_cases.h"

namespace tjit::bits {
namespace {

using at::Tensor;
using testing::Lay;
using torch::jit::Stack;

Tensor Filled(const Form& form, std::uint64_t seed) {
  if (form.fill == Fill::kSpecial || form.type == at::kBool) {
    return testing::Numbers(form.sizes, form.type, seed);
  }
  if (form.fill == Fill::kCancelling) {
    return testing::CancellingInputs(form.sizes, form.type, seed);
  }
  std::mt19937_64 random(seed);
  if (form.fill == Fill::kTame) {
    Tensor t = at::empty(form.sizes, at::kDouble);
    double* const numbers = t.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      numbers[i] = static_cast<double>(random() % 100003) / 12345 - 4;
    }
    return t.to(form.type);
  }
  Tensor t = at::empty(form.sizes, form.type);
  auto* const bytes = static_cast<char*>(t.mutable_data_ptr());
  for (std::size_t i = 0; i < t.nbytes(); ++i) {
    bytes[i] = static_cast<char>(random());
  }
  return t;
}

Tensor Operand(const Form& form, std::uint64_t seed) {
  const Tensor t = Filled(form, seed);
  return t.dim() == 2 ? testing::Laid(t, form.lay) : t;
}

// Letters: those of lower_cases.h, and r, c, b, i, o, p the dims {-1}, {0},
// {0, 1}, {1}, {0, 2}, {1, 2}; y true, x the element type.
c10::IValue Argument(char letter, const Form& form, std::uint64_t* seed) {
  using Dims = std::vector<std::int64_t>;
  switch (letter) {
    case 'T':
      return Operand(form, ++*seed);
    case 'M':
      return testing::Numbers(form.sizes, at::kChar, ++*seed).gt(0);
    case 'S':
      if (at::isFloatingType(form.type)) return 0.3;
      return std::int64_t{3};
    case 'N':
      return {};
    case 'n':
      return "none";
    case 't':
      return "tanh";
    case 'h':
      return 0.5;
    case 'm':
      return -0.5;
    case 'd':
      return 1.25;
    case 'j':
      return -1.0;
    case 'k':
      return std::int64_t{-2};
    case 'f':
      return false;
    case 'y':
      return true;
    case 'r':
      return Dims{-1};
    case 'c':
      return Dims{0};
    case 'b':
      return Dims{0, 1};
    case 'i':
      return Dims{1};
    case 'o':
      return Dims{0, 2};
    case 'p':
      return Dims{1, 2};
    case 'x':
      return static_cast<std::int64_t>(form.type);
    default:
      return std::int64_t{letter - '0'};
  }
}

MakeArguments ByLetters(std::string letters) {
  return [letters = std::move(letters)](const Form& form) {
    Stack stack;
    std::uint64_t seed = 10 * form.seed;
    for (const char c : letters) stack.push_back(Argument(c, form, &seed));
    return stack;
  };
}

struct Reduction {
  const char* op;
  std::vector<const char*> letters;
};

const std::vector<Reduction>& Reductions() {
  static const auto* const all = new std::vector<Reduction>{
      {"aten::sum.dim_IntList", {"TrfN", "TcfN", "TbfN", "TryN", "TcyN"}},
      {"aten::mean.dim", {"TrfN", "TcfN", "TbfN", "TryN"}},
      {"aten::amax", {"Trf", "Tcf", "Tbf", "Try"}},
      {"aten::amin", {"Trf", "Tcf", "Tbf", "Try"}},
      {"aten::max", {"T"}},
      {"aten::min", {"T"}},
      {"aten::all", {"T"}},
      {"aten::any", {"T"}},
      {"aten::all.dim", {"T1f", "T0f", "T1y"}},
      {"aten::any.dim", {"T1f", "T0f", "T1y"}},
      {"aten::var.correction", {"Tr1f", "Tc1f", "Tr0y"}},
      {"aten::std.correction", {"Tr1f", "Tc1f", "Tr0y"}},
      {"aten::var_mean.correction", {"Tr1f", "Tc1f", "Tr0y"}},
      {"aten::std_mean.correction", {"Tr1f", "Tc1f", "Tr0y"}},
      {"aten::linalg_vector_norm", {"T2rfN", "T1rfN", "T2bfN", "T2cfN"}},
      {"aten::norm.ScalarOpt_dim", {"T2rf", "T1rf", "T2bf"}},
      {"aten::_softmax", {"T1f", "T0f"}},
      {"aten::_log_softmax", {"T1f", "T0f"}},
      {"aten::_softmax_backward_data", {"TT1x", "TT0x"}},
      {"aten::_log_softmax_backward_data", {"TT1x", "TT0x"}},
  };
  return *all;
}

// Of three dims.
const std::vector<Reduction>& PlaneReductions() {
  static const auto* const all = new std::vector<Reduction>{
      {"aten::sum.dim_IntList", {"TrfN", "TcfN", "TifN", "TofN", "TpfN"}},
      {"aten::mean.dim", {"TcfN", "TifN", "TofN", "TpfN"}},
      {"aten::amax", {"Tif", "Tof", "Tpf"}},
      {"aten::amin", {"Tif", "Tof", "Tpf"}},
      {"aten::any.dim", {"T1f"}},
      {"aten::var.correction", {"Ti1f", "To1f", "Tp1f"}},
      {"aten::var_mean.correction", {"Ti1f", "To1f", "Tp1f"}},
      {"aten::linalg_vector_norm", {"T2ifN", "T2ofN", "T2pfN"}},
      {"aten::_softmax", {"T1f", "T2f"}},
      {"aten::_log_softmax", {"T1f", "T2f"}},
      {"aten::_softmax_backward_data", {"TT1x", "TT2x"}},
      {"aten::_log_softmax_backward_data", {"TT1x", "TT2x"}},
  };
  return *all;
}

Stack LayerNorm(const Form& f) {
  const std::vector<std::int64_t> row = {f.sizes.back()};
  return {Operand(f, f.seed), row, testing::Numbers(row, f.type, f.seed + 1),
          testing::Numbers(row, f.type, f.seed + 2), 1e-5};
}

// Of three dims, so that there are channels and positions.
Tensor Image(const Form& f, std::uint64_t seed) {
  return at::rand({f.sizes[0], 4, f.sizes[1]}, at::kDouble)
      .add_(static_cast<double>(seed % 7))
      .to(f.type);
}
Tensor PerChannel(const Form& f, std::uint64_t seed) {
  return testing::Numbers({4}, at::kShort, seed).abs_().add_(1).to(f.type);
}

MakeArguments BatchNorm(bool trains) {
  return [trains](const Form& f) {
    return Stack{Image(f, f.seed),
                 PerChannel(f, 1),
                 PerChannel(f, 2),
                 PerChannel(f, 3),
                 PerChannel(f, 4),
                 trains,
                 0.1,
                 1e-5};
  };
}
Stack GroupNorm(const Form& f) {
  return {Image(f, f.seed), PerChannel(f, 1), PerChannel(f, 2), f.sizes[0],
          std::int64_t{4},  f.sizes[1],       std::int64_t{2},  1e-5};
}

Stack LayerNormBackward(const Form& f) {
  const std::vector<std::int64_t> row = {f.sizes.back()};
  const Tensor x = at::rand(f.sizes, at::kDouble).to(f.type);
  const Tensor w = at::rand(row, at::kDouble).to(f.type);
  const auto [out, mean, rstd] = at::native_layer_norm(x, row, w, w, 1e-5);
  return {at::rand_like(x),
          x,
          row,
          mean,
          rstd,
          w,
          w,
          std::vector<bool>{true, true, true}};
}
MakeArguments BatchNormBackward(bool trains) {
  return [trains](const Form& f) {
    const Tensor x = Image(f, f.seed), w = PerChannel(f, 1);
    const auto [out, mean, invstd] = at::native_batch_norm(
        x, w, w, PerChannel(f, 3), PerChannel(f, 4), true, 0.1, 1e-5);
    return Stack{at::rand_like(x),
                 x,
                 w,
                 PerChannel(f, 3),
                 PerChannel(f, 4),
                 mean,
                 invstd,
                 trains,
                 1e-5,
                 std::vector<bool>{true, true, true}};
  };
}
Stack GroupNormBackward(const Form& f) {
  const Tensor x = Image(f, f.seed), w = PerChannel(f, 1);
  const auto [out, mean, rstd] =
      at::native_group_norm(x, w, w, f.sizes[0], 4, f.sizes[1], 2, 1e-5);
  return {at::rand_like(x),
          x,
          mean,
          rstd,
          w,
          f.sizes[0],
          std::int64_t{4},
          f.sizes[1],
          std::int64_t{2},
          std::vector<bool>{true, true, true}};
}

// By all reductions (none, mean, sum) and with a class that is ignored, one
// after the other.
Stack NllLoss(const Form& f) {
  const std::int64_t rows = f.sizes[0], classes = f.sizes[1];
  const auto n = static_cast<std::int64_t>(f.seed);
  const bool has_weight = n % 2 == 0;
  return {Operand(f, f.seed),
          at::arange(rows, at::kLong).mul_(n).remainder_(classes),
          has_weight ? c10::IValue(testing::Numbers({classes}, f.type, f.seed))
                     : c10::IValue(),
          n % 3, n % 5 == 0 ? std::int64_t{1} : std::int64_t{-100}};
}
Stack NllLossBackward(const Form& f) {
  Stack stack = NllLoss(f);
  const bool is_each = stack[3].toInt() == 0;
  const std::vector<std::int64_t> sizes = {is_each ? f.sizes[0] : 1};
  const Tensor gradient = testing::Numbers(sizes, f.type, f.seed + 1);
  stack.insert(stack.begin(), is_each ? gradient : gradient[0]);
  stack.emplace_back(testing::Numbers({1}, f.type, f.seed + 2)[0]);
  return stack;
}

Stack Cat(const Form& f) {
  return {std::vector<Tensor>{Operand(f, f.seed), Operand(f, f.seed + 1)},
          std::int64_t{0}};
}
Stack Roll(const Form& f) {
  return {Operand(f, f.seed), std::vector<std::int64_t>{1},
          std::vector<std::int64_t>{0}};
}
Stack ToDouble(const Form& f) {
  Stack stack = {Operand(f, f.seed), static_cast<std::int64_t>(at::kDouble)};
  stack.resize(5);
  stack.push_back(false);
  stack.emplace_back();
  return stack;
}

Stack FillByTensor(const Form& f) {
  return {Operand(f, f.seed), testing::Numbers({1}, f.type, f.seed)[0]};
}
Stack GluBackward(const Form& f) {
  const Tensor x = Operand(f, f.seed);
  return {at::glu(x, 0).clone(), x, std::int64_t{0}};
}
MakeArguments NewTensor(bool has_number) {
  return [has_number](const Form& f) {
    Stack stack = {Operand(f, f.seed), f.sizes};
    if (has_number) stack.emplace_back(std::int64_t{1});
    stack.resize(stack.size() + 4);
    return stack;
  };
}

// The arguments of a list op, from its spec.
MakeArguments Lists(const lower::OpRule& rule, std::string_view name) {
  const std::string spec = rule.operand_spec;
  std::size_t lists = name.find("copy") != std::string_view::npos ? 2 : 1;
  for (const char c : spec) {
    if (c >= '0' && c <= '9') {
      lists =
          std::max<std::size_t>(lists, static_cast<std::size_t>(c - '0') + 1);
    }
  }
  return [spec, lists](const Form& f) {
    Stack stack;
    for (std::size_t l = 0; l < lists; ++l) {
      std::vector<Tensor> list;
      for (std::uint64_t i = 0; i < 3; ++i) {
        list.push_back(Operand(f, f.seed + 10 * l + i));
      }
      stack.emplace_back(list);
    }
    const bool has_tensor = absl::StrContains(spec, "T");
    if (has_tensor) stack.emplace_back(at::scalar_tensor(0.7));
    if (absl::StrContains(spec, "a"))
      stack.emplace_back(has_tensor ? 1.0 : 0.3);
    if (absl::StrContains(spec, "*")) {
      c10::impl::GenericList scalars(c10::NumberType::get());
      for (const double number : {0.3, 0.5, -2.0}) scalars.push_back(number);
      stack.emplace_back(scalars);
    }
    return stack;
  };
}

class Table {
 public:
  void Add(const std::string& op, MakeArguments make, int dims = 0) {
    const auto [at, is_new] = index_.try_emplace({op, dims}, ops_.size());
    if (is_new) ops_.push_back({op, {}, dims});
    ops_[at->second].makers.push_back(std::move(make));
  }
  std::vector<ProofOp> Take() { return std::move(ops_); }

 private:
  std::map<std::pair<std::string, int>, std::size_t> index_;
  std::vector<ProofOp> ops_;
};

std::vector<ProofOp> MakeOps() {
  Table table;
  for (const auto* cases :
       {&testing::PointwiseCases(), &testing::CompositeCases(),
        &testing::IntegerCases(), &testing::PositionDependentCases()}) {
    for (const testing::OpCase& c : *cases) {
      table.Add(c.op, ByLetters(c.arguments));
    }
  }
  for (const Reduction& r : Reductions()) {
    for (const char* letters : r.letters) {
      table.Add(r.op, ByLetters(letters), 2);
    }
  }
  for (const Reduction& r : PlaneReductions()) {
    for (const char* letters : r.letters) {
      table.Add(r.op, ByLetters(letters), 3);
    }
  }
  table.Add("aten::native_layer_norm", LayerNorm, 2);
  table.Add("aten::native_layer_norm_backward", LayerNormBackward, 2);
  for (const bool trains : {true, false}) {
    table.Add("aten::native_batch_norm", BatchNorm(trains), 2);
    table.Add("aten::native_batch_norm_backward", BatchNormBackward(trains), 2);
  }
  table.Add("aten::native_group_norm", GroupNorm, 2);
  table.Add("aten::native_group_norm_backward", GroupNormBackward, 2);
  table.Add("aten::nll_loss_forward", NllLoss, 2);
  table.Add("aten::nll_loss_backward", NllLossBackward, 2);
  table.Add("aten::cat", Cat);
  table.Add("aten::roll", Roll);
  table.Add("aten::_to_copy", ToDouble);
  table.Add("aten::copy_", ByLetters("TTf"));
  table.Add("aten::zero_", ByLetters("T"));
  table.Add("aten::fill_.Tensor", FillByTensor);
  table.Add("aten::glu", ByLetters("T0"), 2);
  table.Add("aten::glu_backward", GluBackward, 2);
  table.Add("aten::new_full", NewTensor(true));
  table.Add("aten::new_ones", NewTensor(false));
  table.Add("aten::new_zeros", NewTensor(false));
  for (const lower::OpRule& rule : lower::ForeachRules()) {
    for (const std::string_view name : {rule.functional, rule.in_place}) {
      if (!name.empty()) table.Add(std::string(name), Lists(rule, name));
    }
  }
  return table.Take();
}

}  // namespace

const std::vector<ProofOp>& ProofOps() {
  static const auto* const ops = new std::vector<ProofOp>(MakeOps());
  return *ops;
}

}  // namespace tjit::bits
