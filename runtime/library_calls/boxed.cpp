// The boxed way: the original kernel as the program called it, over executor
// tensors, its results placed where the plan wants them.
//
// A kernel that returns fresh tensors asks our allocator for their memory; the
// planned address is offered for that request (placement_scope.h). What lies
// elsewhere afterwards is copied. Then the kernel has asked for as many bytes
// before, for scratch (oneDNN's convolutions): the next run offers the address
// for the request behind it; where that is wrong too, for none. What it asks
// for and frees itself comes from what the segment lends (scratch_pool.h). A
// result that is not as recorded is an error of ours: the caller has checked
// that the call is the recorded one.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "runtime/library_calls/internal.h"
#include "runtime/memory/placement_scope.h"
#include "runtime/memory/scratch_pool.h"

namespace tjit::runtime {
namespace {

constexpr int kMostPasses = 2;

thread_local std::int64_t copied_bytes
    __attribute__((tls_model("initial-exec"))) = 0;

class BoxedStep final : public PreparedStep {
 public:
  BoxedStep(const Request& request);

  void Run(char* const* slots, const ScalarValue* scalars) override;
  bool is_boxed() const override { return true; }
  std::vector<std::uint64_t> Scratch() const override { return room_.Need(); }
  void Lend(char* data, std::uint64_t bytes) override {
    room_.Lend(data, bytes);
  }

 private:
  struct Fresh {
    std::size_t result;  // flattened
    std::int32_t slot;
    std::uint64_t bytes;
    TensorGeometry geometry;
    int offer = -1;  // -1: its size is not unique among the results
    int passes = 0;  // requests of its size that are not for it
  };
  void CheckAndPlace(const at::Tensor& result, char* const* slots,
                     Fresh* place);
  [[noreturn]] void Fail(const Fresh& fresh, const char* what) const;
  [[noreturn]] void EndHolder() const;

  CapturedCall call_;
  std::vector<at::Tensor> tensors_;
  std::vector<Fresh> fresh_;
  std::vector<PlacementOffer> offers_;
  ScratchPool room_;
  torch::jit::Stack stack_;
};

BoxedStep::BoxedStep(const Request& request)
    : call_(request.call), tensors_(request.args) {
  for (std::size_t i = 0; i < request.step.results.size(); ++i) {
    const ResultRecord& r = request.step.results[i];
    if (r.kind != ResultRecord::Kind::kFresh) continue;
    fresh_.push_back({i, r.slot, request.slot_bytes[r.slot], r.geometry});
  }
  for (Fresh& f : fresh_) {
    const bool is_unique =
        std::count_if(fresh_.begin(), fresh_.end(),
                      [&](const Fresh& o) { return o.bytes == f.bytes; }) == 1;
    if (!is_unique || f.bytes == 0) continue;
    f.offer = static_cast<int>(offers_.size());
    offers_.push_back({});
  }
}

void BoxedStep::Fail(const Fresh& fresh, const char* what) const {
  TORCH_INTERNAL_ASSERT(false, "tjit: ", call_.entry->name, ": result ",
                        fresh.result, " differs from the recorded one: ", what);
}

// What the kernel kept is about to be written over, and its release would come
// to memory that is no longer there: no error that anybody could go on from.
void BoxedStep::EndHolder() const {
  std::fprintf(stderr,
               "tjit: %s still holds memory that it has always freed before it "
               "returned; tjit::mark_opaque(\"%s\") runs it at the call\n",
               call_.entry->name.c_str(), call_.entry->name.c_str());
  std::abort();
}

void BoxedStep::CheckAndPlace(const at::Tensor& result, char* const* slots,
                              Fresh* place) {
  const Fresh& fresh = *place;
  const TensorGeometry& g = fresh.geometry;
  if (!result.defined()) Fail(fresh, "undefined");
  if (result.sizes() != c10::IntArrayRef(g.sizes, g.ndim)) {
    Fail(fresh, "sizes");
  }
  if (result.strides() != c10::IntArrayRef(g.strides, g.ndim)) {
    Fail(fresh, "strides");
  }
  if (result.storage_offset() != g.offset) Fail(fresh, "offset");
  if (static_cast<std::uint8_t>(result.scalar_type()) != g.dtype) {
    Fail(fresh, "dtype");
  }
  const c10::StorageImpl* storage = result.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < fresh.bytes) Fail(fresh, "storage size");
  if (fresh.bytes == 0 || storage->data() == slots[fresh.slot]) return;
  std::memcpy(slots[fresh.slot], storage->data(), fresh.bytes);
  copied_bytes += static_cast<std::int64_t>(fresh.bytes);
  if (fresh.offer < 0 || fresh.passes == kMostPasses) return;
  ++place->passes;
  room_.Forget();  // a request that an offer served is now one to the room
}

void BoxedStep::Run(char* const* slots, const ScalarValue* scalars) {
  for (const Fresh& f : fresh_) {
    if (f.offer < 0) continue;
    char* const data = f.passes < kMostPasses ? slots[f.slot] : nullptr;
    offers_[f.offer] = {f.bytes, data, false, false, f.passes};
  }
  stack_ = FillArguments(call_, tensors_, scalars);
  room_.Begin();
  // Until the results are dropped: only then is a release noted. That is here,
  // whatever throws: what is lent or offered is another's behind this step.
  const PlacementScope scope(offers_.data(), offers_.size(), &room_);
  const absl::Cleanup drop = [this] {
    stack_.clear();
    if (room_.IsHeld()) [[unlikely]] EndHolder();
  };
  call_.entry->kernel.callBoxed(call_.entry->handle, call_.key_set, &stack_);
  room_.End();
  std::size_t flat = 0;
  auto next = fresh_.begin();
  auto place = [&](const at::Tensor& result) {
    if (next != fresh_.end() && next->result == flat) {
      CheckAndPlace(result, slots, &*next++);
    }
    ++flat;
  };
  for (const c10::IValue& value : stack_) {
    if (value.isTensor()) {
      place(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) place(t);
    } else if (value.isNone()) {
      place(at::Tensor());
    }
  }
  if (next != fresh_.end()) Fail(*next, "missing");
  stack_.clear();
  for (const Fresh& f : fresh_) {
    if (f.offer < 0 || !offers_[f.offer].taken) continue;
    if (!offers_[f.offer].released) Fail(f, "its memory is still held");
  }
}

}  // namespace

std::int64_t CopiedResultBytes() { return copied_bytes; }

std::unique_ptr<PreparedStep> PrepareBoxed(
    const StepRecord& step, const CapturedCall& call,
    const std::vector<std::uint64_t>& slot_bytes, ExecutorTensors* tensors) {
  return std::make_unique<BoxedStep>(Request(step, call, slot_bytes, tensors));
}

}  // namespace tjit::runtime
