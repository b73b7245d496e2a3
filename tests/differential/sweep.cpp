// See sweep.h.
#include "tests/differential/sweep.h"

#include <algorithm>
#include <span>

#include "tests/differential/called_op.h"
#include "tests/differential/coverage.h"
#include "tests/differential/generator.h"

namespace tjit::differential {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16,
                                     at::kHalf,  at::kInt,    at::kLong,
                                     at::kBool};
static_assert(std::size(kTypes) == kSweepTypes);
constexpr std::uint64_t kRowsOfSweep = 6;

constexpr std::string_view kTypeNames[] = {"f32", "f64", "bf16", "f16",
                                           "i32", "i64", "bool"};
static_assert(std::size(kTypeNames) == kSweepTypes);

// Rows of lowered ops that are none of called_op.h, and some of these ops.
struct Other {
  std::string_view row, op, backward;
};
constexpr Other kOthers[] = {
    {"layer_norm", "native_layer_norm", "native_layer_norm_backward"},
    {"batch_norm_train", "native_batch_norm", "native_batch_norm_backward"},
    {"batch_norm_eval", "native_batch_norm", "native_batch_norm_backward"},
    {"group_norm", "native_group_norm", "native_group_norm_backward"},
    {"glu", "glu", "glu_backward"},
    {"prelu", "_prelu_kernel", "_prelu_kernel_backward"},
    {"dropout", "native_dropout", "native_dropout_backward"},
    {"cross_entropy", "_log_softmax", "_log_softmax_backward_data"},
    {"nll_loss_weighted", "nll_loss_forward", "nll_loss_backward"},
    {"nll_loss_out", "nll_loss_forward", ""},
    {"nll_loss_backward_out", "nll_loss_backward", ""},
    {"stack", "stack", ""},
    {"cat", "cat", ""},
    {"to_copy", "_to_copy", ""},
    {"max_dim", "max", ""}};

const std::vector<int>& Rows() {
  static const auto& rows = *new std::vector<int>([] {
    std::vector<int> all;
    const auto& table = OpTable();
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].call != nullptr) all.push_back(static_cast<int>(i));
    }
    for (const Other& other : kOthers) all.push_back(OpIndex(other.row));
    return all;
  }());
  return rows;
}

bool Calls(int row, std::string_view op) {
  const OpSpec& spec = OpTable()[static_cast<std::size_t>(row)];
  if (spec.call != nullptr) {
    const std::string called = RowOf(spec.call->op);
    return op == called || op == called + "_backward";
  }
  return std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](const Other& other) {
                       return other.row == spec.name &&
                              (other.op == op || other.backward == op);
                     });
}

// Does it take the class of each row?
bool IsOfClasses(int row) {
  const std::string_view name = OpTable()[static_cast<std::size_t>(row)].name;
  return name == "cross_entropy" || name.substr(0, 8) == "nll_loss";
}

bool IsExpanded(const at::Tensor& t) {
  for (std::int64_t d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.size(d) > 1) return true;
  }
  return false;
}

bool IsPart(const at::Tensor& t) {
  return t.nbytes() < t.storage().nbytes() && !IsExpanded(t);
}

bool IsDensePart(const at::Tensor& t) { return IsPart(t) && t.is_contiguous(); }

std::uint64_t Chunks() {
  return (Rows().size() + kRowsOfSweep - 1) / kRowsOfSweep;
}

// Of the sweep that begins with this one.
std::span<const int> RowsFrom(std::uint64_t first) {
  return std::span(Rows()).subspan(
      first, std::min<std::uint64_t>(kRowsOfSweep, Rows().size() - first));
}

}  // namespace

std::uint64_t SweepCount() { return Chunks() * kSweepTypes * kSweepVariants; }

bool IsAbout(std::uint64_t seed, std::string_view op, std::string_view type) {
  const std::uint64_t index = seed - kFirstSweep;
  if (kTypeNames[index % kSweepTypes] != type) return false;
  const std::uint64_t first = index / kSweepTypes % Chunks() * kRowsOfSweep;
  const std::span<const int> rows = RowsFrom(first);
  return std::any_of(rows.begin(), rows.end(),
                     [&](int row) { return Calls(row, op); });
}

SweepBuilder::SweepBuilder(Generator& generator) : g_(generator) {
  const std::uint64_t seed = g_.program_.seed;
  const auto last = static_cast<std::int64_t>(SweepCount()) - 1;
  const std::uint64_t index =
      IsSweep(seed) ? (seed - kFirstSweep) % SweepCount()
                    : static_cast<std::uint64_t>(g_.rng_.Int(0, last));
  dtype_ = kTypes[index % kSweepTypes];
  first_row_ = index / kSweepTypes % Chunks() * kRowsOfSweep;
  has_gradients_ = index / kSweepTypes / Chunks() % 2 == 0;
  is_again_ = IsSweep(seed) && seed - kFirstSweep >= SweepCount();
}

int SweepBuilder::Make(std::string_view row, std::vector<std::int64_t> ints,
                       std::vector<int> args) {
  Statement st;
  st.op = OpIndex(row);
  st.dst = {g_.program_.num_vars};
  st.args = std::move(args);
  st.ints = std::move(ints);
  st.scalars.push_back({.a = 0.5});
  g_.machine_->state().vars.resize(g_.program_.num_vars + 1);
  if (!g_.machine_->RunOne(st, -1, -1)) return -1;
  g_.program_.setup.push_back(std::move(st));
  return g_.program_.num_vars++;
}

int SweepBuilder::Input(std::vector<std::int64_t> sizes) {
  if (dtype_ == at::kBool) return Make("mask", std::move(sizes));
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(dtype_));
  return Make("typed_input", std::move(sizes));
}

// Whole ones, smaller ones, and views: flat, transposed, strided, expanded.
void SweepBuilder::Setup() {
  Rng& rng = g_.rng_;
  std::int64_t n = rng.Int(2, 6), m = 2 * rng.Int(2, 4);
  if (rng.Chance(0.15)) {  // more than vectors, and more than 4 KiB
    n = rng.Int(33, 40);
    m = 34;
  }
  const int x = Input({n, m});
  for (int i = 0; i < 2; ++i) Input({n, m});
  const int row = Input({m});
  Input({m});
  Input({n, 1});
  Input({});
  Input({2, n, m});
  Make("mask", {n, m});
  Make("mask", {m});
  for (int i = 0; i < 2; ++i) {
    Make("narrow", {1, n}, {Input({n + 2, m})});
  }
  Make("transpose", {}, {Input({m, n})});
  Make("slice", {1, 0, 2 * m, 2}, {Input({n, 2 * m})});
  Make("expand_as", {}, {x, row});
  if (has_gradients_) {
    g_.params_ = {Make("param", {n, m})};
    if (at::isFloatingType(dtype_)) {
      g_.params_.push_back(Make("leaf", {}, {x}));
      g_.params_.push_back(Make("leaf", {}, {row}));
    }
  }
  const std::span<const int> rows = RowsFrom(first_row_);
  if (std::any_of(rows.begin(), rows.end(), IsOfClasses)) {
    Make("indices", {m, n});
  }
  if (is_again_) SetupMore(n, m);
  g_.num_setup_vars_ = g_.program_.num_vars;
  g_.program_.mark_step = true;
}

// Channels of which there are as many as elements in a row, and what has
// gradients and is a part of a storage.
void SweepBuilder::SetupMore(std::int64_t n, std::int64_t m) {
  const int x = Input({2, m, n});
  if (!has_gradients_ || !at::isFloatingType(dtype_)) return;
  g_.params_.push_back(Make("leaf", {}, {x}));
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{n + 2, m}, {4, m, n}}) {
    const int leaf = Make("leaf", {}, {Input(sizes)});
    Make("narrow", {1, sizes[0] - 2}, {leaf});
    g_.params_.push_back(leaf);
  }
}

// So that there is something to fuse with.
void SweepBuilder::AddNegative(int id) {
  const at::Tensor& t = g_.V(id);
  if (!t.defined()) return;
  g_.AddNamed(
      t.scalar_type() == at::kBool ? "aten::logical_not(T)" : "aten::neg(T)",
      {id}, {}, Mode::kNoGrad);
}

void SweepBuilder::AddRow(int row) {
  for (int tries = 0; tries < 6; ++tries) {
    if (!g_.AddRow(row)) continue;
    const Statement st = g_.program_.body.back();
    if (st.dst.empty() && !st.args.empty()) AddNegative(st.args[0]);
    for (const int id : st.dst) AddNegative(id);
    if (is_again_ && has_gradients_ && !st.dst.empty()) {
      AddBackwardOf(st.dst[0]);
    }
    return;
  }
}

void SweepBuilder::AddBackwardOf(int id) {
  if (!g_.V(id).defined() || !g_.V(id).requires_grad()) return;
  g_.AddNamed("backward_mean_square", {id}, {}, Mode::kGrad);
}

// Rows choose the first argument, and the others by its type: a mask, here.
void SweepBuilder::AddWhereOfParts() {
  int mask = -1;
  for (int id = 0; id < g_.num_setup_vars_; ++id) {
    const at::Tensor& t = g_.V(id);
    if (mask < 0 && t.scalar_type() == at::kBool && t.dim() == 2) mask = id;
    const bool fits =
        mask >= 0 && IsDensePart(t) && t.sizes() == g_.V(mask).sizes();
    if (!fits) continue;
    g_.AddNamed("aten::where.self(MTT)", {mask, id, id}, {}, Mode::kNoGrad);
    return;
  }
}

void SweepBuilder::AddRowInEachWay(int row) {
  const OpSpec& spec = OpTable()[static_cast<std::size_t>(row)];
  if (is_again_ && spec.name == "aten::where.self(MTT)") AddWhereOfParts();
  AddRow(row);
  g_.taste_ = is_again_ ? IsDensePart : IsPart;
  AddRow(row);
  g_.taste_ = IsExpanded;
  AddRow(row);
  g_.taste_ = nullptr;
}

// At last of the square of a leaf, which always has a gradient.
void SweepBuilder::AddBackward() {
  const int square = g_.program_.num_vars;
  g_.AddNamed("aten::mul.Tensor(TT)", {g_.params_[0], g_.params_[0]}, {},
              Mode::kGrad);
  for (int id = square; id >= g_.num_setup_vars_; --id) {
    const bool is_first = id == square;
    if (is_first && g_.rng_.Chance(0.7)) continue;
    if (!g_.V(id).defined() || !g_.V(id).requires_grad()) continue;
    if (g_.AddNamed("backward_mean_square", {id}, {}, Mode::kGrad)) break;
  }
  g_.AddNamed("backward", {square}, {}, Mode::kGrad);
  for (const int leaf : g_.params_) {
    g_.AddNamed("reset_grad", {leaf}, {}, Mode::kNoGrad);
  }
}

void SweepBuilder::Body() {
  g_.base_mode_ = has_gradients_ ? Mode::kGrad : Mode::kNoGrad;
  for (const int row : RowsFrom(first_row_)) AddRowInEachWay(row);
  if (has_gradients_) AddBackward();
  for (int tries = 0; tries < 20 && has_gradients_; ++tries) {
    if (g_.AddRandom(Group::kRandom)) break;
  }
  for (int id = g_.num_setup_vars_; id < g_.program_.num_vars; ++id) {
    g_.program_.scoped.push_back(id);
  }
}

}  // namespace tjit::differential
