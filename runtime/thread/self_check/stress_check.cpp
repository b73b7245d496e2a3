#include "runtime/thread/self_check/stress_check.h"

#include <ATen/CPUGeneratorImpl.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {
namespace {

// Of everything that a draw changes.
std::uint64_t GeneratorSum() {
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const at::mt19937_data_pod state = cpu->engine().data();
  const std::optional<float> next = cpu->next_float_normal_sample();
  const std::optional<double> next_double = cpu->next_double_normal_sample();
  std::uint64_t sum = XXH3_64bits(state.state_.data(), sizeof(state.state_));
  const double words[] = {static_cast<double>(state.left_),
                          static_cast<double>(state.next_),
                          next ? *next : -1.0, next_double ? *next_double : -1.0,
                          next.has_value() ? 1.0 : 0.0,
                          next_double.has_value() ? 1.0 : 0.0};
  sum ^= XXH3_64bits(words, sizeof(words));
  return sum;
}

const c10::StorageImpl* ReadableStorage(const TensorRef& ref) {
  if (ref.impl == nullptr) return nullptr;
  const c10::StorageImpl* storage = StorageOf(ref.impl);
  return storage != nullptr && storage->device() == c10::kCPU &&
                 storage->data() != nullptr
             ? storage
             : nullptr;
}

bool MayDraw(const CallFrame& frame) {
  return frame.entry.op_class == OpClass::kRandom ||
         frame.entry.op_class == OpClass::kForeign;
}

}  // namespace

bool IsWritten(const CallFrame& frame, const c10::StorageImpl* storage) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.written && ref.impl != nullptr &&
        StorageOf(ref.impl) == storage) {
      return true;
    }
  }
  return false;
}

void InputCheck::Before(const CallFrame& frame) {
  sums_.clear();
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const c10::StorageImpl* storage = ReadableStorage(frame.tensors[i]);
    if (storage == nullptr || IsWritten(frame, storage)) continue;
    sums_.push_back({i, storage->data(), storage->nbytes(),
                     XXH3_64bits(storage->data(), storage->nbytes())});
  }
  if (!MayDraw(frame)) generator_ = GeneratorSum();
}

std::string InputCheck::After(const CallFrame& frame) {
  for (const Sum& sum : sums_) {
    const TensorRef& ref = frame.tensors[sum.tensor];
    const c10::StorageImpl* storage = ReadableStorage(ref);
    // Metadata ops may have given the tensor another storage.
    if (storage == nullptr || storage->data() != sum.data ||
        storage->nbytes() != sum.bytes) {
      continue;
    }
    if (XXH3_64bits(sum.data, sum.bytes) == sum.sum) continue;
    return absl::StrCat("wrote argument ", ref.arg,
                        ", which neither its schema nor op_classes.def says");
  }
  if (!MayDraw(frame) && GeneratorSum() != generator_) {
    return "drew random numbers without the tag nondeterministic_seeded";
  }
  return {};
}

}  // namespace tjit::runtime
