#include "runtime/thread/functions/jit_node.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "runtime/call/node_kinds.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/run_again.h"
#include "runtime/thread/materialize.h"

namespace tjit::internal {

using runtime::AliasOf;
using runtime::FunctionGradients;
using runtime::FunctionPlan;
using runtime::FunctionRecord;
using runtime::FunctionResult;
using runtime::FunctionSession;
using runtime::GradientUse;
using runtime::MadeOf;
using runtime::Refusal;
using runtime::ResultOf;
using runtime::VersionOf;
using runtime::Writes;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

// Backward passes of replayed calls that ran the function again, before it is
// replayed no more; and calls in a row whose backward pass could not be
// replayed.
constexpr int kMostAgain = 4;
constexpr int kMostMissed = 12;

// Without the graphs that they have: who needs these has their edges.
std::vector<at::Tensor> AliasesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> aliases;
  for (const at::Tensor& t : tensors) {
    aliases.push_back(t.defined() && t.requires_grad() ? AliasOf(t) : t);
  }
  return aliases;
}

bool IsReplayed(const JitCore& core, const FunctionRecord& record) {
  const MutexLock lock(core.mutex);
  return std::any_of(core.plans.begin(), core.plans.end(),
                     [&](const auto& plan) {
                       return plan->record.get() == &record &&
                              !plan->is_dropped.load();
                     });
}

// Where the edges that leave the graph go in a call with these arguments.
edge_list EdgesOf(const FunctionGradients& gradients,
                  const std::vector<at::Tensor>& arguments) {
  edge_list edges;
  for (const GradientUse& use : gradients.uses) {
    edges.push_back(torch::autograd::impl::gradient_edge(
        use.argument >= 0 ? arguments[static_cast<std::size_t>(use.argument)]
                          : runtime::Locked(*use.leaf)));
  }
  return edges;
}

// What an edge that leaves the graph is of; nullopt: a tensor that is no
// argument and has a graph of its own.
std::optional<GradientUse> UseOf(const Edge& edge,
                                 const std::vector<at::Tensor>& arguments) {
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    if (!arguments[a].defined() || !arguments[a].requires_grad()) continue;
    if (torch::autograd::impl::gradient_edge(arguments[a]) == edge) {
      return GradientUse{static_cast<std::int32_t>(a), std::nullopt};
    }
  }
  const auto* const leaf =
      dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
  if (leaf == nullptr) return std::nullopt;
  return GradientUse{-1, c10::weak_intrusive_ptr<c10::TensorImpl>(
                             c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
                                 leaf->variable.unsafeGetTensorImpl()))};
}

}  // namespace

GradientWays::GradientWays(const JitOptions& options)
    : backward({.name = options.name + " (backward)", .verify_every = 0}) {
  backward.is_backward = true;
}

CallValues::CallValues(const FunctionPlan& plan, std::vector<at::Tensor> a,
                       std::vector<double> n, std::vector<at::Tensor> l)
    : arguments(std::move(a)), numbers(std::move(n)), living(std::move(l)) {
  for (const at::Tensor& t : arguments) versions.push_back(VersionOf(t));
  for (const at::Tensor& t : living) versions.push_back(VersionOf(t));
  for (const runtime::CapturedStorage& c : plan.captured) {
    versions.push_back(c.version.enabled() ? c.version.current_version() : 0);
  }
}

void JitNode::SetGraph(InnerGraph graph, WaitingPlan waiting) {
  graph_ = std::move(graph);
  waiting_ = std::move(waiting);
}

variable_list JitNode::apply(variable_list&& gradients) {
  if (is_open_) return std::move(gradients);
  TORCH_CHECK(!is_released_, torch::autograd::ERR_BACKWARD_TWICE);
  const bool creates_graph = c10::GradMode::is_enabled();
  variable_list flows;
  NoteComponents(gradients);
  if (!creates_graph && RunByPlan(gradients, &flows)) return flows;
  if (graph_.empty()) RunAgain();
  return graph_.Run(gradients, creates_graph);
}

// Notes which components of the graph the pass comes through. Each releases its
// own: a pass through others may follow, behind a step of an optimizer. No plan
// can know that one will, so functions where it does are left alone. THROWS:
// what eager throws where a component is released.
void JitNode::NoteComponents(const variable_list& gradients) {
  const std::vector<std::size_t>& components = plan_->gradients->components;
  if (std::count(components.begin(), components.end(), 0) ==
      static_cast<std::ptrdiff_t>(components.size())) {
    return;
  }
  released_.resize(components.size());
  passed_.assign(components.size(), false);
  for (std::size_t r = 0; r < components.size(); ++r) {
    if (!gradients[r].defined()) continue;
    TORCH_CHECK(!released_[components[r]], torch::autograd::ERR_BACKWARD_TWICE);
    passed_[components[r]] = true;
  }
  const bool is_first =
      std::find(released_.begin(), released_.end(), true) == released_.end();
  if (is_first) return;
  ways_->are_separate.store(true);
  if (waiting_.plan == nullptr) return;
  const MutexLock lock(core_->mutex);
  core_->failures[waiting_.form] += kMostMissed;
  core_->why = runtime::DescribeRefusal(Refusal::kGraphParts, kNoOp);
}

// The components of the last pass are released. True if all are.
bool JitNode::ReleasesAll() {
  for (std::size_t p = 0; p < passed_.size(); ++p) {
    if (passed_[p]) released_[p] = true;
  }
  const std::vector<std::size_t>& components = plan_->gradients->components;
  return passed_.empty() ||
         std::all_of(components.begin(), components.end(),
                     [&](std::size_t p) { return released_[p]; });
}

JitNode::~JitNode() {
  alive_.fetch_sub(1, std::memory_order_relaxed);
  if (is_open_) opened_.fetch_sub(1, std::memory_order_relaxed);
  // No pass came through the other components.
  const bool is_begun =
      std::find(released_.begin(), released_.end(), true) != released_.end();
  if (!is_begun || is_released_ || is_open_) return;
  try {
    Release();
  } catch (const std::exception&) {  // no memory: it decides another time
  }
}

std::atomic<std::int64_t> JitNode::alive_{0}, JitNode::opened_{0};

void JitNode::AddResult(const at::Tensor& t) {
  const std::uint32_t at = add_input_metadata(t);
  torch::autograd::impl::set_gradient_edge(t, {getptr(), at});
  results_.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
      t.unsafeGetTensorImpl()));
}

void JitNode::OpenBehind(bool creates_graph, edge_list* roots,
                         edge_list* outputs) {
  std::vector<Node*> nodes;
  absl::flat_hash_set<const Node*> known;
  const auto follow = [&](edge_list* edges) {
    for (Edge& edge : *edges) {
      Follow(creates_graph, &edge);
      if (edge.function != nullptr &&
          known.insert(edge.function.get()).second) {
        nodes.push_back(edge.function.get());
      }
    }
  };
  follow(roots);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    follow(&nodes[i]->next_edges());
  }
  for (Edge& edge : *outputs) Follow(/*opens=*/false, &edge);
}

// To what takes the place of the node.
void JitNode::Follow(bool opens, Edge* edge) {
  while (auto* const node = dynamic_cast<JitNode*>(edge->function.get())) {
    if (opens) node->Open();
    if (!node->is_open_ || node->HasHooks()) return;
    const Edge within = node->next_edge(edge->input_nr);
    *edge = within;
  }
}

bool JitNode::HasHooks() {
  return runtime::HasHooks(this) || !retains_grad_hooks().empty();
}

void JitNode::Open() {
  if (is_open_ || is_released_) return;
  if (graph_.empty()) RunAgain();
  is_open_ = true;
  opened_.fetch_add(1, std::memory_order_relaxed);
  next_edges() = graph_.Open();
  if (HasHooks()) return;  // they are called here
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const at::Tensor result = runtime::Locked(results_[i]);
    // It may have been changed in place, or detached.
    if (result.defined() && result.grad_fn().get() == this) {
      torch::autograd::impl::set_gradient_edge(result, next_edge(i));
    }
  }
  waiting_ = {};
  values_ = {};
  moves_ = {};
  run_again_ = nullptr;
}

// False: it is no call that can be replayed, and its graph is to be run.
bool JitNode::RunByPlan(const variable_list& gradients, variable_list* flows) {
  JitCall call(&ways_->backward);
  const auto add = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& t : tensors) call.Tensor(t);
  };
  add(values_.arguments);
  call.graph().own_begin = values_.arguments.size();
  add(values_.living);
  call.graph().own_end = call.graph().own_begin + values_.living.size();
  add(gradients);
  for (const double n : values_.numbers) call.Number(n);
  call.graph().only_replays = graph_.empty();
  call.graph().numbers = &waiting_.numbers;
  if (call.Begin()) {
    CheckVersions(call.graph().replayed);
    is_served_ = true;
    for (std::size_t u = 0; u < plan_->gradients->uses.size(); ++u) {
      flows->push_back(call.TakeResult());
    }
    return true;
  }
  if (!call.wants_results()) return false;
  *flows = graph_.Run(gradients, /*creates_graph=*/false);
  for (const at::Tensor& t : *flows) call.AddResult(t);
  call.End(nullptr);
  return true;
}

// What a backward pass by plan `backward` reads has to be as the call has left
// it, and all that the function takes if it is null. THROWS: what eager throws
// then. (A graph checks its tensors by itself.)
void JitNode::CheckVersions(const FunctionPlan* backward) const {
  const std::size_t arguments = values_.arguments.size();
  const std::size_t captured = arguments + values_.living.size();
  const bool all = backward == nullptr;
  std::vector<bool> reads(values_.versions.size(), all);
  if (!all) {
    for (const runtime::FunctionSlot& slot : backward->record->slots) {
      if (slot.kind == runtime::FunctionSlot::Kind::kArgument) {
        if (slot.index < captured) reads[slot.index] = true;
      } else if (slot.kind == runtime::FunctionSlot::Kind::kCaptured) {
        const auto* const storage =
            backward->captured[slot.index].storage._unsafe_get_target();
        for (std::size_t c = 0; c < plan_->captured.size(); ++c) {
          if (plan_->captured[c].storage._unsafe_get_target() == storage) {
            reads[captured + c] = true;
          }
        }
      }
    }
  }
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i] || (all && i >= arguments && i < captured)) continue;
    // What it writes, it does not read.
    if (all && i >= captured && Writes(*plan_->record, i - captured)) continue;
    std::uint32_t now = values_.versions[i];
    if (i < arguments) {
      now = VersionOf(values_.arguments[i]);
    } else if (i < captured) {
      now = VersionOf(values_.living[i - arguments]);
    } else if (const auto& version = plan_->captured[i - captured].version;
               version.enabled()) {
      now = version.current_version();
    }
    TORCH_CHECK(now == values_.versions[i],
                "one of the variables needed for gradient computation has been "
                "modified by an inplace operation: ",
                i < arguments  ? "an argument"
                : i < captured ? "a result"
                               : "a tensor from outside",
                " of \"", core_->options.name,
                "\", a function of tjit::jit(), is at "
                "version ",
                now, "; expected version ", values_.versions[i], " instead.");
  }
}

// Its elements in a row, with their bytes: an untyped pointer waits for nobody.
at::Tensor Ready(const at::Tensor& t) {
  at::Tensor dense = t.contiguous();
  runtime::MaterializeForRead(dense.unsafeGetTensorImpl(),
                              FlushReason::kConstRead);
  return dense;
}

// True if the program may have changed living tensor `l` since the call.
bool JitNode::IsWrittenSince(std::size_t l) const {
  return VersionOf(values_.living[l]) !=
         values_.versions[values_.arguments.size() + l];
}

// False if a result has other bits than the call has returned: what it takes
// has changed in a way that no version tells, as by NumPy.
bool JitNode::HasSameResults(c10::ArrayRef<at::Tensor> results) const {
  const at::NoGradGuard no_grad;
  const std::vector<std::uint32_t>& living = plan_->gradients->living;
  for (std::size_t l = 0; l < living.size(); ++l) {
    for (std::size_t i = 0; i < plan_->results.size(); ++i) {
      const FunctionResult& result = plan_->results[i];
      if (MadeOf(*plan_, result) != living[l] || IsWrittenSince(l)) continue;
      // What was made may be the base of the result.
      const at::Tensor then =
          Ready(runtime::TensorOver(values_.living[l].storage(),
                                    result.geometry, result.geometry.offset));
      const at::Tensor now = Ready(results[i]);
      if (then.nbytes() != now.nbytes() ||
          std::memcmp(then.const_data_ptr(), now.const_data_ptr(),
                      now.nbytes()) != 0) {
        return false;
      }
    }
  }
  return true;
}

// What the program has written into since the call is not what the new graph
// has saved: it says so, as eager's does.
void JitNode::BumpWritten(c10::ArrayRef<at::Tensor> results) const {
  const std::vector<std::uint32_t>& living = plan_->gradients->living;
  for (std::size_t l = 0; l < living.size(); ++l) {
    const std::optional<std::size_t> i = runtime::ResultOf(*plan_, living[l]);
    if (i && IsWrittenSince(l)) {
      results[*i].unsafeGetTensorImpl()->bump_version();
    }
  }
}

// THROWS: what the function throws; c10::Error where it may not run again.
void JitNode::RunAgain() {
  const std::string who =
      "tjit::jit: a backward pass through \"" + core_->options.name +
      "\" is another one than those that were seen (create_graph, or other "
      "results), so the function has to run again, ";
  const char* const advice =
      "; call it without tjit::jit() where such passes are made";
  if (!plan_->is_dropped.exchange(true)) {  // the first of its calls
    const MutexLock lock(core_->mutex);
    if (++ways_->again >= kMostAgain) core_->mismatches += kMostAgain;
    if (std::find(core_->records.begin(), core_->records.end(),
                  plan_->record) == core_->records.end()) {
      core_->records.push_back(plan_->record);
    }
  }
  TORCH_CHECK(run_again_ != nullptr, who, "which nothing keeps", advice);
  TORCH_CHECK(runtime::HoldsCaptured(*plan_), who,
              "and a tensor that it takes from outside is another one", advice);
  const runtime::FunctionKey& key = plan_->key;
  for (std::size_t r = 0; r < key.refs.size(); ++r) {
    const std::size_t n = key.numbers.size() - key.refs.size() + r;
    TORCH_CHECK(runtime::SameBits(*key.refs[r], values_.numbers[n]), who,
                "and a number that it reads by tjit::ref() is ", *key.refs[r],
                " and was ", values_.numbers[n], advice);
  }
  CheckVersions(nullptr);
  const std::uint64_t first = at::sequence_number::peek();
  const std::vector<at::Tensor> results =
      runtime::RunAgain(*plan_, moves_, who, run_again_);
  bool is_same = results.size() == plan_->results.size();
  TORCH_CHECK(!is_same || HasSameResults(results), who,
              "and it returns other values than before: what it takes has been "
              "changed without autograd, or a number that it finds by itself",
              advice);
  if (is_same) BumpWritten(results);
  std::vector<at::Tensor> roots;
  for (std::size_t i = 0; is_same && i < results.size(); ++i) {
    const FunctionResult& result = plan_->results[i];
    if (!result.has_graph) continue;
    is_same = results[i].requires_grad();
    roots.push_back(results[i]);
  }
  is_same = is_same && graph_.Read(roots, first) &&
            graph_.size() == plan_->gradients->nodes &&
            graph_.Outside() == next_edges();
  if (!is_same) graph_.Clear();
  TORCH_CHECK(is_same, who, "and it makes another graph than before", advice);
  graph_.Renumber(first_);
}

void JitNode::release_variables() {
  if (!is_released_ && !is_open_ && ReleasesAll()) Release();
}

void JitNode::Release() {
  is_released_ = true;
  // What held the results' storages when the call was over: the results
  // themselves and the graph, which go now.
  std::vector<std::pair<c10::weak_intrusive_ptr<c10::TensorImpl>, std::size_t>>
      made;
  std::vector<c10::Storage> storages;
  for (WaitingPlan::Made& one : waiting_.made) {
    storages.push_back(one.tensor.storage());
    made.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
                          one.tensor.unsafeGetTensorImpl()),
                      storages.back().use_count() - one.owners);
    one.tensor.reset();
  }
  graph_.Clear();
  bool is_all_gone = true;
  for (std::size_t i = 0; i < made.size(); ++i) {
    is_all_gone = is_all_gone && made[i].first.use_count() == 0 &&
                  storages[i].use_count() == made[i].second;
  }
  for (std::size_t l = 0; l < values_.living.size(); ++l) {
    if (waiting_.plan != nullptr &&
        ResultOf(*waiting_.plan, waiting_.plan->gradients->living[l])) {
      continue;
    }
    is_all_gone = is_all_gone && values_.living[l].storage().use_count() == 1;
  }
  for (const auto& number : waiting_.numbers) {
    is_all_gone = is_all_gone && number.use_count() == 0;
  }
  if (waiting_.plan != nullptr) Decide(is_all_gone);
  values_ = {};
  moves_ = {};
  run_again_ = nullptr;
}

// Whether calls are replayed by the plan.
void JitNode::Decide(bool is_all_gone) {
  const std::shared_ptr<const FunctionRecord> record = waiting_.plan->record;
  if (ways_->are_separate.load()) return;
  if (is_all_gone && is_served_) {
    ways_->missed.store(0);
    // A pass of another kind may come once in so many, as that of the last call
    // of a cell in a loop does.
    const int needed = 1 << (2 * ways_->again.load());
    if (++ways_->served < needed) return;
    // Another call that the pass came through was there before.
    if (waiting_.before == nullptr && IsReplayed(*core_, *record)) return;
    ways_->served.store(0);
    return PublishPlan(core_.get(), waiting_.before, waiting_.form,
                       std::move(waiting_.plan));
  }
  ways_->served.store(0);
  const std::string backward = StatsOfJitCore(ways_->backward).why;
  const MutexLock lock(core_->mutex);
  int& failures = core_->failures[waiting_.form];
  if (!is_all_gone) {
    record->failures.fetch_add(1);
    ++failures;
    core_->why = runtime::DescribeRefusal(Refusal::kEscapes, kNoOp);
    return;
  }
  core_->why = backward.empty()
                   ? runtime::DescribeRefusal(Refusal::kGraphUnseen, kNoOp)
                   : "in its backward pass: " + backward;
  if (++ways_->missed >= kMostMissed) failures += kMostMissed;
}

std::vector<at::Tensor> GraphCalls::Arguments() const {
  std::vector<at::Tensor> arguments;
  for (const at::Tensor* t : call_.tensors_) arguments.push_back(*t);
  return arguments;
}

std::vector<double> GraphCalls::Numbers(const FunctionPlan& plan) const {
  std::vector<double> numbers;
  for (std::size_t n = 0; n < plan.key.numbers.size(); ++n) {
    numbers.push_back(plan.key.NumberAt(n, call_.numbers_));
  }
  return numbers;
}

// Each result that asks for gradients is one that the node has made.
void GraphCalls::GiveNode(const FunctionPlan& plan,
                          const c10::intrusive_ptr<JitNode>& node) {
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    const FunctionResult& result = plan.results[i];
    if (result.has_graph) node->AddResult(call_.results_[i]);
  }
}

void GraphCalls::Keep(const FunctionPlan& plan, c10::ArrayRef<at::Tensor> made,
                      runtime::GeneratorMoves moves) {
  std::vector<at::Tensor> living;
  for (const std::uint32_t m : plan.gradients->living) {
    // A result would own the node that owns it.
    living.push_back(ResultOf(plan, m) ? AliasOf(made[m]) : made[m]);
  }
  const std::vector<at::Tensor> arguments = Arguments();
  edge_list edges = EdgesOf(*plan.gradients, arguments);
  const std::uint64_t first = at::sequence_number::peek();
  for (std::size_t n = 0; n < plan.gradients->nodes; ++n) {
    at::sequence_number::get_and_increment();
  }
  auto node = c10::make_intrusive<JitNode>(
      call_.core_->shared_from_this(), plan.record->gradients, &plan,
      CallValues(plan, AliasesOf(arguments), Numbers(plan), std::move(living)));
  node->SetFirst(first, std::move(moves));
  node->set_next_edges(std::move(edges));
  SetDepth(plan.gradients->nodes, node.get());
  GiveNode(plan, node);
  call_.graph_.node = node.get();
}

namespace {

// Tensors over what the call has made and that lives.
std::vector<at::Tensor> LivingOf(const FunctionPlan& plan,
                                 const FunctionSession& session,
                                 c10::ArrayRef<at::Tensor> results) {
  std::vector<at::Tensor> living;
  const FunctionRecord& record = *plan.record;
  for (const std::uint32_t m : plan.gradients->living) {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    const TensorGeometry* geometry = nullptr;
    const std::size_t called = plan.fresh.size() + session.drawn.size();
    if (m >= called) {
      storage = session.called[m - called].storage.lock();
      geometry = &session.called[m - called].geometry;
    } else if (m >= plan.fresh.size()) {
      const std::size_t d = m - plan.fresh.size();
      storage = session.inside[session.drawn[d].inside].storage.lock();
      geometry = &session.inside[session.drawn[d].inside].geometry;
    } else {
      const std::uint32_t s = plan.fresh[m].slot;
      geometry = &plan.fresh[m].form->geometry;
      if (record.slots[s].kind == runtime::FunctionSlot::Kind::kInside) {
        storage = session.inside[record.slots[s].index].storage.lock();
      } else if (s < session.born.size() && session.born[s]) {
        storage = session.born[s]->lock();
      }
    }
    if (!storage.defined()) return {};
    at::Tensor tensor = runtime::TensorOver(c10::Storage(std::move(storage)),
                                            *geometry, geometry->offset);
    if (const auto r = ResultOf(plan, m); r && !results[*r].is_inference()) {
      tensor.unsafeGetTensorImpl()->set_version_counter(
          results[*r].unsafeGetTensorImpl()->version_counter());
    }
    living.push_back(std::move(tensor));
  }
  return living;
}

}  // namespace

// Null: the edges that leave the graph are others than before.
std::shared_ptr<GradientWays> GraphCalls::WaysOf(const FunctionPlan& plan) {
  const MutexLock lock(call_.core_->mutex);
  std::shared_ptr<GradientWays>& ways = plan.record->gradients;
  if (ways == nullptr) {
    ways = std::make_shared<GradientWays>(call_.core_->options);
    ways->uses = plan.gradients->uses;
  }
  return ways->uses == plan.gradients->uses ? ways : nullptr;
}

Refusal GraphCalls::ReadGraph(const JitSession& session,
                              const FunctionPlan& plan, InnerGraph* graph) {
  const FunctionSession& seen = session.seen;
  if (!runtime::MayRunAgain(plan)) return Refusal::kGraphOnce;
  std::vector<at::Tensor> roots;
  std::vector<bool> are_kept;
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    if (!plan.results[i].has_graph) continue;
    roots.push_back(call_.results_[i]);
    are_kept.push_back(seen.is_kept[i]);
  }
  if (!graph->Read(roots, session.first_node)) return Refusal::kGraphNode;
  // Where the graph cannot be who keeps a result, the function is.
  for (std::size_t r = 0; r < roots.size(); ++r) {
    if (are_kept[r] && !graph->Uses(r)) return Refusal::kEscapes;
  }
  plan.gradients->nodes = graph->size();
  plan.gradients->components = graph->Components();
  std::vector<GradientUse>& uses = plan.gradients->uses;
  const std::vector<bool> are_of_all = graph->AreOfAll();
  for (const Edge& edge : graph->Outside()) {
    std::optional<GradientUse> use = UseOf(edge, seen.arguments);
    if (!use) return Refusal::kGraphOutside;
    use->is_of_all = are_of_all[uses.size()];
    uses.push_back(std::move(*use));
  }
  // A pass through some results comes to all that the node leads to, with no
  // gradient for what the others lead to: only a leaf does not care.
  const bool is_seen_by_others =
      std::any_of(uses.begin(), uses.end(), [](const GradientUse& use) {
        return !use.is_of_all && use.argument >= 0;
      });
  return is_seen_by_others || !runtime::HoldsUses(*plan.gradients)
             ? Refusal::kGraphParts
             : Refusal::kNone;
}

bool GraphCalls::Keep(JitSession* session, std::unique_ptr<FunctionPlan> plan) {
  FunctionSession& seen = session->seen;
  InnerGraph graph;
  if (const Refusal why = ReadGraph(*session, *plan, &graph);
      why != Refusal::kNone) {
    graph.Open();
    seen.Fail(why);
    return false;
  }
  edge_list edges = graph.Outside();
  std::shared_ptr<GradientWays> ways = WaysOf(*plan);
  if (ways == nullptr) {
    graph.Open();
    seen.Fail(Refusal::kNotSame);
    return false;
  }
  WaitingPlan waiting;
  waiting.before = session->plan;
  waiting.form = session->form;
  for (std::size_t i = 0; i < plan->results.size(); ++i) {
    const FunctionResult& result = plan->results[i];
    if (!result.is_made() || result.same_as >= 0) continue;
    const at::Tensor& tensor = call_.results_[i];
    waiting.made.push_back({tensor, tensor.storage().use_count()});
  }
  for (std::size_t s = 0; s < seen.born.size(); ++s) {
    const bool is_number =
        plan->record->slots[s].kind == runtime::FunctionSlot::Kind::kConstant;
    if (is_number && seen.born[s] && seen.born[s]->use_count() != 0) {
      waiting.numbers.push_back(*seen.born[s]);
    }
  }
  std::vector<at::Tensor> living = LivingOf(*plan, seen, call_.results_);
  if (living.size() != plan->gradients->living.size()) {
    graph.Open();
    seen.Fail(Refusal::kEscapes);
    return false;
  }
  for (std::size_t i = 0; i < plan->results.size(); ++i) {
    const FunctionResult& result = plan->results[i];
    if (result.same_as >= 0) {
      const at::Tensor same =
          call_.results_[static_cast<std::size_t>(result.same_as)];
      call_.results_[i] = same;
    } else if (result.is_made()) {
      const at::Tensor made = std::move(call_.results_[i]);
      call_.results_[i] = AliasOf(made);
    }
  }
  call_.graph_.has_new_results = true;
  const FunctionPlan* known = session->plan;
  CallValues values(*plan, AliasesOf(seen.arguments), Numbers(*plan),
                    std::move(living));
  if (session->is_verified) {
    call_.Publish(*session, std::move(plan));
  } else {
    known = plan.get();
    waiting.plan = std::move(plan);
  }
  auto node =
      c10::make_intrusive<JitNode>(call_.core_->shared_from_this(),
                                   std::move(ways), known, std::move(values));
  node->set_next_edges(std::move(edges));
  SetDepth(known->gradients->nodes, node.get());
  GiveNode(*known, node);
  node->SetGraph(std::move(graph), std::move(waiting));
  return true;
}

void KeepRun(JitNode* node, std::function<std::vector<at::Tensor>()> run) {
  node->SetRunAgain(std::move(run));
}

}  // namespace tjit::internal
