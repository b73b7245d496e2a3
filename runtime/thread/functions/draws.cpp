#include "runtime/thread/functions/draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {
namespace {

at::Tensor MakeOne(const TensorGeometry& g, std::uint32_t context) {
  ContextScope scope;  // inference tensors are made in inference mode
  scope.Switch(context);
  return at::Tensor(at::detail::empty_strided_cpu(
      c10::IntArrayRef(g.sizes, g.ndim), c10::IntArrayRef(g.strides, g.ndim),
      static_cast<c10::ScalarType>(g.dtype)));
}

// `generator`: undefined stands for the default one.
void Draw(const FunctionDraw& draw, const at::Tensor& tensor,
          const at::Generator& generator) {
  torch::jit::Stack stack = FillArguments(*draw.call, {tensor}, nullptr);
  if (generator.defined()) stack.back() = generator;
  const at::AutoDispatchBelowADInplaceOrView below;  // as behind its own kernel
  const OpEntry& entry = *draw.call->entry;
  entry.kernel.callBoxed(entry.handle, draw.call->key_set, &stack);
}

bool IsSameDraw(const FunctionDraw& a, const FunctionDraw& b) {
  const auto same = [](const ScalarValue& x, const ScalarValue& y) {
    return x.SameBits(y);
  };
  return a.tensor == b.tensor && a.call->entry == b.call->entry &&
         a.statics == b.statics &&
         std::equal(a.scalars.begin(), a.scalars.end(), b.scalars.begin(),
                    b.scalars.end(), same);
}

// Which of the tensors that at::empty() or its like made has this storage.
std::optional<std::uint32_t> InsideOver(const FunctionSession& session,
                                        const c10::StorageImpl* storage) {
  for (std::size_t i = session.inside.size(); i-- > 0;) {
    if (session.inside[i].storage._unsafe_get_target() == storage) {
      return static_cast<std::uint32_t>(i);
    }
  }
  return std::nullopt;
}

bool IsRandom(const FunctionDraw& draw) {
  return draw.call->entry->op_class == OpClass::kRandom;
}

bool DrawsRandom(const FunctionRecord& record) {
  return std::any_of(record.draws.begin(), record.draws.end(), IsRandom);
}

}  // namespace

bool MayDraw(const CallFrame& frame) {
  const bool is_random = frame.entry.op_class == OpClass::kRandom;
  if (!is_random && frame.entry.op_class != OpClass::kPlain) return false;
  if (!frame.recordable || frame.tensors.size() != 1) return false;
  const TensorRef& to = frame.tensors[0];
  const auto& returns = frame.entry.returns;
  if (!to.written || to.impl == nullptr || returns.size() != 1 ||
      returns[0].alias_arg != static_cast<int>(to.arg)) {
    return false;
  }
  return is_random ? frame.entry.handle.schema().arguments().back().name() ==
                         "generator"
                   : to.impl->numel() == 0;
}

void RecordDraw(const CallFrame& frame, const torch::jit::Stack& arguments,
                bool is_used, FunctionSession* session) {
  const c10::TensorImpl* const impl = frame.tensors[0].impl;
  const bool is_random = frame.entry.op_class == OpClass::kRandom;
  const std::optional<std::uint32_t> number =
      IsPlain(impl) ? InsideOver(*session, StorageOf(impl)) : std::nullopt;
  if (!number || is_used || impl->storage_offset() != 0 ||
      (is_random && !SameGeometry(impl, session->inside[*number].geometry))) {
    return session->Fail(is_random ? Refusal::kRandom : Refusal::kAtCall,
                         frame.entry.id);
  }
  FunctionSession::Inside& inside = session->inside[*number];
  FunctionDraw draw;
  if (const auto known = DrawnOver(*session, StorageOf(impl))) {
    draw.tensor = *known;
  } else {
    draw.tensor = static_cast<std::uint32_t>(session->drawn.size());
    session->drawn.push_back({*number, inside.geometry});
  }
  inside.geometry = GeometryOf(impl);
  inside.block = BlockOf(StorageOf(impl));
  auto call = std::make_shared<CapturedCall>();
  call->entry = &frame.entry;
  call->key_set = frame.key_set;
  call->arguments = arguments;
  call->arguments[frame.tensors[0].arg] = at::Tensor();
  draw.call = std::move(call);
  draw.statics.assign(frame.statics.begin(), frame.statics.end());
  draw.scalars.assign(frame.scalars.begin(), frame.scalars.end());
  if (session->follows != nullptr) {
    const std::vector<FunctionDraw>& recorded = session->follows->draws;
    const std::size_t i = session->draws.size();
    if (i >= recorded.size() || !IsSameDraw(recorded[i], draw)) {
      return session->Fail(Refusal::kNotSame, frame.entry.id);
    }
  }
  session->draws.push_back(std::move(draw));
}

at::Generator CopyOfGenerator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.clone();
}

at::Generator ExchangeGenerator(const at::Generator& to) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  at::Generator before = generator.clone();
  generator.set_state(to.get_state());
  return before;
}

bool SameState(const at::Generator& a, const at::Generator& b) {
  const at::Tensor x = a.get_state(), y = b.get_state();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool AccountsForGenerator(const FunctionSession& session) {
  if (!std::any_of(session.draws.begin(), session.draws.end(), IsRandom)) {
    return true;
  }
  const KernelScope kernel;
  std::vector<at::Tensor> tensors;
  for (const FunctionSession::Drawn& drawn : session.drawn) {
    tensors.push_back(
        MakeOne(drawn.geometry, session.inside[drawn.inside].context));
  }
  for (const FunctionDraw& draw : session.draws) {
    if (IsRandom(draw)) Draw(draw, tensors[draw.tensor], session.generator);
  }
  return SameState(session.generator, CopyOfGenerator());
}

bool IsFixed(const FunctionSession& session, std::uint32_t d) {
  return std::none_of(session.draws.begin(), session.draws.end(),
                      [d](const FunctionDraw& draw) {
                        return draw.tensor == d && IsRandom(draw);
                      });
}

std::optional<std::uint32_t> DrawnOver(const FunctionSession& session,
                                       const c10::StorageImpl* storage) {
  for (std::uint32_t d = 0; d < session.drawn.size(); ++d) {
    const auto& inside = session.inside[session.drawn[d].inside];
    if (inside.storage._unsafe_get_target() == storage) return d;
  }
  return std::nullopt;
}

bool DrawsTheSame(const FunctionRecord& a, const FunctionRecord& b) {
  return std::equal(a.draws.begin(), a.draws.end(), b.draws.begin(),
                    b.draws.end(), IsSameDraw) &&
         std::equal(a.drawn.begin(), a.drawn.end(), b.drawn.begin(),
                    b.drawn.end(),
                    [](const InsideTensor& x, const InsideTensor& y) {
                      return x.geometry == y.geometry && x.context == y.context;
                    });
}

bool DrewSoFar(const FunctionSession& session, const FunctionRecord& record) {
  return session.draws.size() <= record.draws.size() &&
         std::equal(session.draws.begin(), session.draws.end(),
                    record.draws.begin(), IsSameDraw);
}

bool MakeDrawn(const FunctionRecord& record, at::Tensor* tensors) {
  if (record.draws.empty()) return true;
  const KernelScope kernel;
  for (std::size_t d = 0; d < record.drawn.size(); ++d) {
    tensors[d] = MakeOne(record.drawn[d].geometry, record.drawn[d].context);
  }
  for (const FunctionDraw& draw : record.draws) {
    if (!IsRandom(draw)) Draw(draw, tensors[draw.tensor], at::Generator());
  }
  return std::all_of(
      tensors, tensors + record.drawn.size(), [](const at::Tensor& t) {
        return BlockOf(t.storage().unsafeGetStorageImpl()) != nullptr;
      });
}

DrawScope::DrawScope(const FunctionPlan& plan, const at::Tensor* tensors,
                     GeneratorMoves* moves)
    : moves_(*moves) {
  const bool is_needed =
      (plan.gradients != nullptr || !plan.record->reads.empty()) &&
      DrawsRandom(*plan.record);
  const KernelScope kernel;
  if (is_needed) moves_.before = CopyOfGenerator();
  for (const FunctionDraw& draw : plan.record->draws) {
    if (IsRandom(draw)) Draw(draw, tensors[draw.tensor], at::Generator());
  }
  if (is_needed) moves_.after = CopyOfGenerator();
}

DrawScope::~DrawScope() {
  if (is_kept_ || !moves_.before.defined()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  if (SameState(generator, moves_.after)) {
    generator.set_state(moves_.before.get_state());
  }
}

}  // namespace tjit::runtime
