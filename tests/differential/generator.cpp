// See generator.h.
#include "tests/differential/generator.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>

#include "tests/differential/setup_builder.h"
#include "tests/differential/sweep.h"

namespace tjit::differential {
namespace {

constexpr std::int64_t kMaxElements = 4096;
constexpr std::int64_t kMaxElementsOfLongRows = 500'000;
constexpr double kMaxMagnitude = 1e4;
// Of programs whose iterations differ in length: some come late.
constexpr int kIterationsOfLengths = 192;

bool IsTame(const at::Tensor& t) {
  const bool is_whole = !at::isFloatingType(t.scalar_type()) && !t.is_complex();
  if (is_whole || t.numel() == 0) return true;
  at::NoGradGuard guard;
  return t.detach().abs().max().to(at::kDouble).item<double>() <
         kMaxMagnitude;  // false for NaN
}

bool SameMeta(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         a.requires_grad() == b.requires_grad() &&
         a.is_inference() == b.is_inference();
}

ScalarExpr Const(double a) { return {.a = a}; }

// Elements of one tensor in the same place, as of unfold().
bool MayOverlap(const at::Tensor& t) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::int64_t i = 0; i < t.dim(); ++i) {
    if (t.size(i) > 1) dims.emplace_back(t.stride(i), t.size(i));
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t end = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < end) return true;
    end += (size - 1) * stride;
  }
  return false;
}

bool HoldsTame(const std::vector<at::Tensor>& vars) {
  int wild = 0;
  int defined = 0;
  for (const at::Tensor& t : vars) {
    if (!t.defined()) continue;
    ++defined;
    if (!IsTame(t)) ++wild;
  }
  return wild * 5 <= defined;
}

}  // namespace

Generator::Generator(std::uint64_t seed)
    : rng_(seed), family_(&Families()[FamilyOf(seed)]) {
  program_.seed = seed;
  program_.family = FamilyOf(seed);
}

Program Generator::Generate() {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Begin();
    // Even to look at a view can throw, once its base has been written.
    try {
      if (family_->sweeps) {
        SweepBuilder sweep(*this);
        sweep.Setup();
        sweep.Body();
      } else {
        SetupBuilder(*this).Build();
        AddBody();
      }
      SetIterations();
      for (int i = 0; i < 6 && !Clean(); ++i) {
      }
      if (IsUsable()) break;
    } catch (const c10::Error&) {
      continue;
    }
  }
  machine_.reset();
  return program_;
}

void Generator::Begin() {
  Program fresh;
  fresh.seed = program_.seed;
  fresh.family = program_.family;
  program_ = fresh;
  program_.concurrent = family_->concurrent;
  program_.mark_step = rng_.Chance(0.95);  // without, it is a long run
  program_.mark_in_scope = rng_.Chance(0.5);
  if (rng_.Chance(0.06) && program_.mark_step && !program_.concurrent) {
    program_.snapshot_every = static_cast<int>(rng_.Int(5, 9));
  }
  program_.read_mode = static_cast<ReadMode>(rng_.Int(0, 2));
  params_.clear();
  batches_.clear();
  lengths_.clear();
  loop_ = -1;  // an attempt before may have thrown in one
  has_many_lengths_ = !family_->sweeps &&  // what these mean is to stay
                      rng_.Chance(family_->has_lengths ? 0.5 : 0.2);
  base_mode_ = Mode::kGrad;
  if (!family_->trains && rng_.Chance(0.65)) {
    base_mode_ = rng_.Chance(0.75) ? Mode::kNoGrad : Mode::kInference;
  }
  at::set_num_threads(1);
  beat_ = 1;
  if (family_->branches) {
    beat_ = rng_.Of<std::int64_t>({2, 3, 4, 7});
  } else if (rng_.Chance(0.25)) {
    beat_ = rng_.Int(2, 3);
  }
  varying_share_ = rng_.Of<double>({0, 0.2, 0.2, 0.5});
  scoped_share_ = rng_.Of<double>({1, 1, 0.7, 0});
  at::manual_seed(program_.seed);
  machine_ = std::make_unique<Machine>(program_, nullptr, 0);
}

int Generator::Choose(const std::vector<int>& ids) {
  if (taste_) {
    std::vector<int> liked;
    for (const int id : ids) {
      if (taste_(V(id))) liked.push_back(id);
    }
    if (!liked.empty()) return rng_.Of(liked);
  }
  int size = static_cast<int>(ids.size());
  if (rng_.Chance(0.5)) {
    return ids[size - 1 - rng_.Int(0, std::min(size, 4) - 1)];
  }
  return ids[rng_.Int(0, size - 1)];
}

bool Generator::IsWritable(int id) {
  for (int i = 0; i < program_.shared_vars; ++i) {
    if (V(i).is_alias_of(V(id))) return false;
  }
  // Eager's threads would write to the same place, in any order.
  return !family_->has_long_rows || !MayOverlap(V(id));
}

bool Generator::IsRebindable(int id) {
  auto& state = machine_->state();
  return V(id).defined() && !V(id).requires_grad() &&
         id >= program_.shared_vars && !state.blobs.count(id) &&
         !state.pointers.count(id);
}

bool Generator::ArgOf(Statement& st, const std::vector<int>& ids) {
  if (ids.empty()) return false;
  st.args.push_back(Choose(ids));
  return true;
}

bool Generator::ArgWithPointer(Statement& st) {
  std::vector<int> ids;
  for (const auto& [id, p] : machine_->state().pointers) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ArgOf(st, ids);
}

bool Generator::ArgWithBlob(Statement& st) {
  std::vector<int> ids;
  for (const auto& [id, b] : machine_->state().blobs) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ArgOf(st, ids);
}

bool Generator::ArgTemporary(Statement& st) {
  std::vector<int> ids;
  for (int id = num_setup_vars_; id < program_.num_vars; ++id) {
    if (V(id).defined()) ids.push_back(id);
  }
  return ArgOf(st, ids);
}

bool Generator::AreTwins(const Statement& st) {
  int a = st.args[0];
  int b = st.args[1];
  return a != b && IsRebindable(a) && IsRebindable(b) &&
         SameMeta(V(a), V(b)) && V(a).strides() == V(b).strides() &&
         IsWritable(b);
}

void Generator::Vary(ScalarExpr& e) {
  using Kind = ScalarExpr::Kind;
  int choice = static_cast<int>(rng_.Int(0, program_.num_regs > 0 ? 5 : 4));
  double base = e.a;
  if (choice == 0) {
    e.kind = Kind::kLinear;
    e.b = base * 0.01;
  } else if (choice == 1) {
    e.kind = Kind::kInverse;
  } else if (choice == 2) {
    e.kind = Kind::kDecay;
    e.b = 0.95;
  } else if (choice == 3) {
    e.kind = Kind::kCycle;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(beat_, 2); ++i) {
      e.cycle.push_back(base * (1 - 0.1 * static_cast<double>(i)));
    }
  } else if (choice == 4) {
    e.kind = Kind::kStep;
    e.period = rng_.Int(3, 20);
    e.b = base * 0.5;
  } else {
    e.kind = Kind::kReg;
    e.period = rng_.Int(0, program_.num_regs - 1);
    e.b = 1e-3;
  }
}

void Generator::Scalar(Statement& st, Use use) {
  static const std::vector<double> kExponents = {2,  2,    3,  0.5, -1,
                                                 -2, -0.5, 1,  0,   1.7};
  ScalarExpr e;
  bool varies = rng_.Chance(varying_share_);
  if (use == Use::kExponent || use == Use::kInteger) {
    auto value = [&] {
      return use == Use::kExponent ? rng_.Of(kExponents)
                                   : static_cast<double>(rng_.Int(1, 3));
    };
    e.is_int = use == Use::kInteger;
    e.a = value();
    if (varies && beat_ > 1) {
      e.kind = ScalarExpr::Kind::kCycle;
      e.cycle.resize(static_cast<std::size_t>(beat_));
      for (double& x : e.cycle) x = value();
    } else if (varies) {
      e.kind = ScalarExpr::Kind::kStep;
      e.period = rng_.Int(3, 20);
      e.b = value();
    }
    st.scalars.push_back(e);
    return;
  }
  double unit = 0.05 * static_cast<double>(rng_.Int(1, 19));
  e.a = use == Use::kFactor     ? 0.5 + unit
        : use == Use::kAlpha    ? (unit - 0.5) * 0.3
        : use == Use::kPositive ? 2 * unit
                                : unit;
  if (varies) Vary(e);
  st.scalars.push_back(e);
}

// One length is behind most of what differs in a step: that of its sequence.
const ScalarExpr& Generator::Length() {
  if (lengths_.empty() || (lengths_.size() == 1 && rng_.Chance(0.08))) {
    lengths_.push_back(NewLength());
  }
  return lengths_[rng_.Chance(0.9) ? 0 : lengths_.size() - 1];
}

ScalarExpr Generator::NewLength() {
  using Kind = ScalarExpr::Kind;
  ScalarExpr e = {.is_int = true, .a = static_cast<double>(rng_.Int(0, 1))};
  const std::int64_t most = rng_.Int(6, 20);
  if (!has_many_lengths_ && rng_.Chance(0.7)) {  // two or three, in one order
    e.kind = Kind::kCycle;
    const auto count = static_cast<std::size_t>(rng_.Chance(0.7) ? 2 : 3);
    std::set<std::int64_t> values;
    while (values.size() < count) values.insert(rng_.Int(0, 6));
    e.cycle.assign(values.begin(), values.end());
    if (rng_.Chance(0.5)) std::swap(e.cycle.front(), e.cycle.back());
  } else if (!has_many_lengths_) {
    e.kind = Kind::kDrawn;
    e.b = static_cast<double>(rng_.Int(2, 3));
  } else if (rng_.Chance(0.25)) {  // grows, and begins anew
    e.kind = Kind::kCycle;
    for (std::int64_t n = 0; n <= most; ++n) {
      e.cycle.push_back(static_cast<double>(n));
    }
  } else if (rng_.Chance(0.3)) {  // grows
    e.kind = Kind::kLinear;
    e.b = static_cast<double>(most) / kIterationsOfLengths;
  } else {
    e.kind = Kind::kDrawn;
    e.b = static_cast<double>(most);
  }
  if (e.kind == Kind::kDrawn) e.period = rng_.Int(0, 99);
  return e;
}

void Generator::BindResults(Statement& st, int count) {
  if (count == 1 && rng_.Chance(0.12)) {
    std::vector<int> ids;
    for (int id = 0; id < program_.num_vars; ++id) {
      if (IsRebindable(id)) ids.push_back(id);
    }
    if (!ids.empty()) {
      st.dst.push_back(Choose(ids));
      return;
    }
  }
  for (int i = 0; i < count; ++i) st.dst.push_back(program_.num_vars++);
  machine_->state().vars.resize(program_.num_vars);
}

// In-place writes build no graph through variables that outlive an iteration.
void Generator::ChooseMode(Statement& st) {
  const OpSpec& spec = OpTable()[st.op];
  if (spec.group == Group::kAutograd || spec.group == Group::kError) {
    st.mode = Mode::kGrad;
    return;
  }
  if (!spec.writes || st.mode != Mode::kGrad || st.args.empty()) return;
  const at::Tensor& target = A(st, 0);
  bool is_fresh = st.args[0] >= num_setup_vars_ && !target.is_view();
  if (is_fresh && !(target.is_leaf() && target.requires_grad())) return;
  for (int id : st.args) {
    if (V(id).defined() && V(id).requires_grad()) st.mode = Mode::kNoGrad;
  }
}

void Generator::Decorate(Statement& st) {
  const OpSpec& spec = OpTable()[st.op];
  st.mode = base_mode_;
  if (rng_.Chance(0.04)) st.mode = static_cast<Mode>(rng_.Int(0, 2));
  ChooseMode(st);
  if (family_->hands_over && rng_.Chance(0.08)) {
    st.worker_every = rng_.Chance(0.3) ? 1 : 13;
  }
  if (spec.throws) {  // in few iterations: each ends what was followed
    st.guard = {Guard::Kind::kMod, 13, rng_.Int(0, 12)};
    return;
  }
  bool is_effect = spec.num_dst == 0;
  if (!is_effect || !rng_.Chance(family_->branches ? 0.4 : 0.04)) return;
  if (program_.num_regs > 0 && rng_.Chance(0.2)) {
    st.guard = {Guard::Kind::kReg, 1, rng_.Int(0, program_.num_regs - 1)};
  } else if (rng_.Chance(0.15)) {
    st.guard = {Guard::Kind::kFrom, 1, rng_.Int(4, 20)};
  } else if (beat_ > 1) {
    st.guard = {Guard::Kind::kMod, beat_, rng_.Int(0, beat_ - 1)};
  }
}

bool Generator::IsAcceptable(const Statement& st,
                             const std::vector<at::Tensor>& old) {
  for (std::size_t i = 0; i < st.dst.size(); ++i) {
    const at::Tensor& result = V(st.dst[i]);
    if (!result.defined() || result.numel() > MaxElements()) return false;
    if (result.dim() > 5 || !MayHold(result)) return false;
    if (st.dst[i] >= num_setup_vars_) continue;
    if (!SameMeta(result, old[i]) || result.strides() != old[i].strides()) {
      return false;
    }
  }
  return !OpTable()[st.op].writes || !V(st.args[0]).defined() ||
         MayHold(V(st.args[0]));
}

std::int64_t Generator::MaxElements() const {
  return family_->has_long_rows ? kMaxElementsOfLongRows : kMaxElements;
}

// Even to see that [m, 1] and [m] make too much of long rows takes gigabytes.
bool Generator::IsSmallBroadcast(const Statement& st) {
  std::vector<std::int64_t> sizes;
  for (const int id : st.args) {
    if (!V(id).defined()) continue;
    for (std::int64_t i = 1; i <= V(id).dim(); ++i) {
      if (std::ssize(sizes) < i) sizes.push_back(1);
      sizes[i - 1] = std::max(sizes[i - 1], V(id).size(-i));
    }
  }
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count <= 4 * static_cast<double>(MaxElements());
}

// Sweeps are short; what becomes of their numbers does not matter.
bool Generator::MayHold(const at::Tensor& t) const {
  return family_->sweeps || IsTame(t);
}

// What it writes is one of its operands too: given another size first, as
// `out` is, the operand is memory that nobody has written.
bool Generator::WritesOperand(const Statement& st) {
  return OpTable()[st.op].writes && !st.args.empty() &&
         std::count(st.args.begin(), st.args.end(), st.args[0]) > 1;
}

bool Generator::TryAdd(Statement st) {
  const OpSpec& spec = OpTable()[st.op];
  const bool keeps_size = WritesOperand(st) && V(st.args[0]).defined();
  const std::int64_t size = keeps_size ? V(st.args[0]).numel() : 0;
  std::vector<at::Tensor> old;
  for (int id : st.dst) old.push_back(V(id));
  Statement now = st;
  now.guard = {};
  now.worker_every = 0;
  bool ran = machine_->RunOne(now, -1, 0);
  bool accepted = ran ? IsAcceptable(st, old) : spec.throws;
  if (keeps_size && V(st.args[0]).numel() != size) accepted = false;
  if (!accepted) {
    for (std::size_t i = st.dst.size(); i-- > 0;) {
      machine_->state().vars[st.dst[i]] = old[i];
      if (st.dst[i] == program_.num_vars - 1 && !old[i].defined()) {
        program_.num_vars--;
        machine_->state().vars.pop_back();
      }
    }
    return false;
  }
  st.loop = loop_;
  program_.body.push_back(st);
  if (family_->branches && st.dst.size() == 1 && rng_.Chance(0.25)) {
    TryOtherwise(st);
  }
  return true;
}

// Makes the last statement conditional, with another for the other iterations.
void Generator::TryOtherwise(const Statement& st) {
  if (st.args.size() != 2) return;
  Statement other = st;
  std::swap(other.args[0], other.args[1]);
  at::Tensor result = V(st.dst[0]);
  bool ran = machine_->RunOne(other, -1, 0);
  bool fits = ran && SameMeta(result, V(st.dst[0])) && IsTame(V(st.dst[0]));
  machine_->state().vars[st.dst[0]] = result;
  if (!fits) return;
  std::int64_t rem = rng_.Int(0, beat_ - 1);
  program_.body.back().guard = {Guard::Kind::kNotMod, beat_, rem};
  other.guard = {Guard::Kind::kMod, beat_, rem};
  program_.body.push_back(other);
}

bool Generator::AddRandom(Group group) {
  const auto& table = OpTable();
  std::vector<int> ops;
  for (std::size_t i = 0; i < table.size(); ++i) {
    bool fits = table[i].group == group &&
                !(table[i].random && program_.concurrent);
    if (fits) ops.push_back(static_cast<int>(i));
  }
  return AddRow(rng_.Of(ops));
}

bool Generator::AddRow(int row) {
  const auto& table = OpTable();
  Statement st;
  st.op = row;
  int regs = program_.num_regs;
  if (table[st.op].propose(*this, st) &&
      (!family_->has_long_rows || IsSmallBroadcast(st))) {
    BindResults(st, table[st.op].num_dst);
    Decorate(st);
    if (TryAdd(std::move(st))) return true;
  }
  program_.num_regs = regs;
  return false;
}

void Generator::AddPhase(const Phase& phase, int count) {
  int total = 0;
  for (const auto& [group, weight] : phase) total += weight;
  for (int tries = 0; count > 0 && tries < 400; ++tries) {
    std::int64_t at = rng_.Int(0, total - 1);
    for (const auto& [group, weight] : phase) {
      at -= weight;
      if (at >= 0) continue;
      if (AddRandom(group)) --count;
      break;
    }
  }
}

bool Generator::AddNamed(std::string_view name, std::vector<int> args,
                         std::vector<ScalarExpr> scalars, Mode mode,
                         int dst) {
  Statement st;
  st.op = OpIndex(name);
  st.args = std::move(args);
  st.scalars = std::move(scalars);
  st.mode = mode;
  if (dst >= 0) {
    st.dst.push_back(dst);
  } else {
    int count = OpTable()[st.op].num_dst;
    for (int i = 0; i < count; ++i) st.dst.push_back(program_.num_vars++);
    machine_->state().vars.resize(program_.num_vars);
  }
  return TryAdd(std::move(st));
}

void Generator::AddUpdate(int param, int style) {
  int grad = program_.num_vars;
  if (!AddNamed("get_grad", {param}, {}, Mode::kNoGrad)) return;
  ScalarExpr lr = Const(-0.05);
  if (rng_.Chance(0.5)) Vary(lr);
  if (style == 0) {
    AddNamed("add_alpha_", {param, grad}, {lr}, Mode::kNoGrad);
    return;
  }
  // As Adam: two moments that live in set-up variables of the same size.
  std::vector<int> moments;
  for (int id = 0; id < num_setup_vars_; ++id) {
    if (IsRebindable(id) && V(id).sizes() == V(param).sizes() &&
        V(id).scalar_type() == V(param).scalar_type() && IsWritable(id)) {
      moments.push_back(id);
    }
  }
  if (moments.size() < 2) return;
  int m = moments[0];
  int v = moments[1];
  AddNamed("mul_scalar_", {m}, {Const(0.9)}, Mode::kNoGrad);
  AddNamed("add_alpha_", {m, grad}, {Const(0.1)}, Mode::kNoGrad);
  AddNamed("mul_scalar_", {v}, {Const(0.99)}, Mode::kNoGrad);
  AddNamed("addcmul_", {v, grad, grad}, {Const(0.01)}, Mode::kNoGrad);
  AddNamed("addcdiv_", {param, m, v}, {lr}, Mode::kNoGrad);
}

void Generator::AddTraining() {
  static const std::vector<std::string_view> kLosses = {
      "backward", "backward_mean_square", "backward_mean_square",
      "backward_retain"};
  AddPhase(family_->phase, static_cast<int>(rng_.Int(4, 12)));
  AddPhase({{Group::kMatmul, 1}, {Group::kNn, 2}}, 1);
  if (rng_.Chance(0.12)) AddLoop();
  if (rng_.Chance(0.2)) AddRandom(Group::kAutograd);
  int losses = rng_.Chance(0.25) ? 2 : 1;
  for (int tries = 0; losses > 0 && tries < 12; ++tries) {
    std::vector<int> ids;
    for (int id = num_setup_vars_; id < program_.num_vars; ++id) {
      if (V(id).defined() && V(id).requires_grad() && !V(id).is_leaf()) {
        ids.push_back(id);
      }
    }
    if (ids.empty()) break;
    if (AddNamed(rng_.Of(kLosses), {Choose(ids)}, {}, Mode::kGrad)) --losses;
  }
  if (rng_.Chance(0.25)) AddRandom(Group::kAutograd);
  int style = static_cast<int>(rng_.Int(0, 1));
  for (int param : params_) AddUpdate(param, style);
  std::string_view zero = rng_.Chance(0.5) ? "zero_grad" : "reset_grad";
  for (int param : params_) {
    if (rng_.Chance(0.85)) AddNamed(zero, {param}, {}, Mode::kNoGrad);
  }
  AddPhase({{Group::kBinary, 1}, {Group::kInplace, 1}, {Group::kUnary, 1}},
           static_cast<int>(rng_.Int(0, 3)));
}

void Generator::AddCarry(int state, int loop_vars) {
  const at::Tensor& h = V(state);
  std::vector<int> ids, fresh;
  for (int id = 0; id < program_.num_vars; ++id) {
    if (!V(id).defined() || V(id).sizes() != h.sizes() || id == state ||
        V(id).scalar_type() != h.scalar_type()) {
      continue;
    }
    (id < loop_vars ? ids : fresh).push_back(id);
  }
  const auto& from = fresh.empty() ? ids : fresh;
  const int other = from.empty() ? state : rng_.Of(from);
  if (rng_.Chance(0.25)) {
    AddNamed("carry_", {state, other}, {}, base_mode_);
  } else {
    AddNamed("carry", {state, other}, {}, base_mode_, state);
  }
}

void Generator::AddLoop() {
  std::vector<int> ids;
  for (int id = 0; id < program_.num_vars; ++id) {
    const at::Tensor& t = V(id);
    if (t.defined() && at::isFloatingType(t.scalar_type()) && t.dim() > 0 &&
        t.numel() > 0) {
      ids.push_back(id);
    }
  }
  if (ids.empty() || !AddNamed("start", {Choose(ids)}, {}, base_mode_)) return;
  const int state = program_.num_vars - 1;
  loop_ = static_cast<int>(program_.loops.size());
  program_.loops.push_back(Length());
  const int loop_vars = program_.num_vars;
  const std::int64_t count =
      has_many_lengths_ ? rng_.Int(5, 9) : rng_.Int(1, 6);
  AddPhase(family_->phase, static_cast<int>(count));
  AddCarry(state, loop_vars);
  loop_ = -1;
  // What only the loop binds is not there where it went round no time.
  for (int id = loop_vars; id < program_.num_vars; ++id) {
    machine_->state().vars[id] = at::Tensor();
  }
}

// Each iteration sees other values, as it would of a data loader.
void Generator::AddFreshData() {
  int input = program_.shared_vars;
  if (!batches_.empty() && IsRebindable(input)) {
    AddNamed(batches_.size() == 1 ? "moving_batch" : "next_batch", batches_, {},
             base_mode_, input);
  } else if (rng_.Chance(0.7)) {
    ScalarExpr step = {.kind = ScalarExpr::Kind::kLinear, .a = 0.1, .b = 0.01};
    AddNamed("mul_scalar_", {input}, {Const(0.9)}, Mode::kNoGrad);
    AddNamed("add_scalar_", {input}, {step}, Mode::kNoGrad);
  } else if (family_->name == "random") {
    AddNamed("normal_", {input}, {}, Mode::kNoGrad);
  }
}

void Generator::AddBody() {
  AddFreshData();
  if (rng_.Chance(0.3)) AddRandom(Group::kSync);  // a value to depend on
  if (family_->trains) {
    AddTraining();
  } else {
    // Where the loop goes round often, most of the ops are its.
    const bool has_long_loop = family_->has_lengths && has_many_lengths_;
    int count = static_cast<int>(rng_.Int(8, has_long_loop ? 12 : 26));
    AddPhase(family_->phase, count / 2);
    if (rng_.Chance(0.07)) AddRandom(Group::kDynamic);
    if (rng_.Chance(family_->has_lengths ? 1 : 0.03)) AddLoop();
    AddPhase(family_->phase, count - count / 2);
    if (family_->has_lengths && !has_long_loop && rng_.Chance(0.3)) AddLoop();
  }
  if (rng_.Chance(0.25)) AddRandom(Group::kSync);
  if (rng_.Chance(0.1)) AddRandom(Group::kState);
  for (int id = num_setup_vars_; id < program_.num_vars; ++id) {
    if (rng_.Chance(scoped_share_)) program_.scoped.push_back(id);
  }
}

// Enough for tjit to find the loop and to run it for a while. Branches make
// the period long; a loop without mark_step() must repeat 4,096 ops or so.
void Generator::SetIterations() {
  program_.iterations = family_->branches ? 72 : family_->sweeps ? 20 : 32;
  if (family_->has_lengths || !program_.loops.empty()) {
    program_.iterations = kIterationsOfLengths;
  }
  if (program_.mark_step) return;
  int ops = 0;
  for (const Statement& st : program_.body) {
    Group group = OpTable()[st.op].group;
    if (group == Group::kView || group == Group::kState) continue;
    ops += st.loop < 0 ? 1 : 4;
  }
  program_.iterations = 6500 / std::max(ops, 6);
}

bool Generator::Clean() {
  // One thread shows the values of both, but not all that they throw.
  Log log = program_.concurrent ? RunProgram(program_) : Log();
  at::manual_seed(program_.seed);
  Machine machine(program_, nullptr, 0);
  machine.Setup(0, program_.setup.size());
  for (std::int64_t it = 0; it < program_.iterations; ++it) machine.Iterate(it);
  is_tame_ = HoldsTame(machine.state().vars);
  const Log& own = machine.state().log;
  log.insert(log.end(), own.begin(), own.end());
  std::set<int> bad;
  for (const LogEntry& entry : log) {
    if (entry.what != "exception" || entry.statement < 0) continue;
    if (!OpTable()[program_.body[entry.statement].op].throws) {
      bad.insert(entry.statement);
    }
  }
  for (auto at = bad.rbegin(); at != bad.rend(); ++at) {
    program_.body.erase(program_.body.begin() + *at);
  }
  return bad.empty();
}

bool Generator::IsUsable() const {
  return program_.body.size() >= 6 && (family_->sweeps || is_tame_);
}

Program GenerateProgram(std::uint64_t seed) {
  return Generator(seed).Generate();
}

}  // namespace tjit::differential
