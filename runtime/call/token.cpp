#include "runtime/call/token.h"

#include <c10/core/StorageImpl.h>

#include "runtime/call/joined_list.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/memory/block.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;

inline std::uint64_t Mix(std::uint64_t h, std::uint64_t word) {
  h = (h ^ word) * kPrime;
  return h ^ (h >> 29);
}

// Classes of a source, told apart in the lowest bits.
constexpr std::uint64_t kForeignSource = 1;
constexpr std::uint64_t kFreshSource = 2;
constexpr std::uint64_t kWrittenSource = 3;
constexpr std::uint64_t kUsedSource = 4;
constexpr std::uint64_t kSharedSource = 5;

// Of a tensor that comes from outside the loop: which one it is may differ.
constexpr std::uint64_t kOutsideSource = 6;

// As the tokens that they are mixed into.
struct Source {
  std::uint64_t exact, loose;
};

// `elements`: of the tensor.
Source SourceOf(Block* block, std::uint16_t stream, std::uint64_t position,
                std::int64_t elements, bool* fresh) {
  // Where it stands in another thread's stream says nothing about this one.
  if (block->is_shared()) return {kSharedSource, kSharedSource};
  const std::uint64_t written =
      block->last_write.load(std::memory_order_relaxed);
  const std::uint64_t used = block->last_use.load(std::memory_order_relaxed);
  const std::uint64_t now = PositionStamp(stream, position);
  block->last_use.store(now, std::memory_order_relaxed);
  if (used != 0 && used >> 48 != stream) block->RecordSwitch();
  // The last touch, not the last write: the distance to the write of data that
  // is only read from then on grows with every step, and no period would close.
  const bool seen_written = written != 0 && written >> 48 == stream;
  const bool seen_used = used != 0 && used >> 48 == stream;
  const bool is_inside = seen_written && now - written < policy::kWrittenInLoop;
  const std::uint64_t loose =
      is_inside ? kWrittenSource | (now - written) << 3
                : kOutsideSource | static_cast<std::uint64_t>(elements) << 3;
  if (seen_written && (!seen_used || written >= used)) {
    return {kWrittenSource | (now - written) << 3, loose};
  }
  if (seen_used) return {kUsedSource | (now - used) << 3, loose};
  *fresh = true;
  return {kFreshSource, loose};
}

// A storage that was there before tjit was switched on gets its block with its
// first token. If the capture of a period gave it one, the tokens behind would
// be others, and the period would break by being captured.
inline Block* BlockForToken(const c10::TensorImpl* impl) {
  c10::StorageImpl* const storage = StorageOf(impl);
  Block* const block = BlockOf(storage);
  return block != nullptr ? block : AdoptStorage(storage);
}

// Contiguous, channels-last, transposed or other: from the flags TensorImpl
// keeps anyway.
std::uint64_t LayoutBits(const c10::TensorImpl* impl) {
  if (impl->is_contiguous()) return 0;
  if (impl->is_strides_like_channels_last()) return 1;
  const c10::IntArrayRef strides = impl->strides();
  const std::size_t n = strides.size();
  return n >= 2 && strides[n - 2] == 1 ? 2 : 3;
}

// The tensors that a long list joins may be drawn: where they were used last,
// how many they are and that they are used here repeats in no loop. Else no
// period would close around a batch that is stacked from a list of tensors.
[[gnu::cold]] std::uint64_t TokenOfJoin(const CallFrame& frame, std::uint64_t h,
                                        TokenNotes* notes) {
  for (const TensorRef& ref : frame.tensors) {
    const c10::TensorImpl* impl = ref.impl;
    if (impl == nullptr || !IsPlain(impl)) continue;
    notes->elements += impl->numel();
    const Block* const block = BlockForToken(impl);
    notes->fresh |= block != nullptr &&
                    block->last_use.load(std::memory_order_relaxed) == 0 &&
                    block->last_write.load(std::memory_order_relaxed) == 0;
  }
  const c10::TensorImpl* first = frame.tensors[0].impl;
  if (first == nullptr || !IsPlain(first)) return Mix(h, 8);
  return Mix(
      h, static_cast<std::uint64_t>(c10::typeMetaToScalarType(first->dtype())) |
             static_cast<std::uint64_t>(first->dim()) << 8);
}

}  // namespace

[[gnu::hot]] StreamToken TokenOf(const CallFrame& frame, std::uint32_t context,
                                 std::uint16_t stream, std::uint64_t position,
                                 TokenNotes* notes) {
  std::uint64_t h = Mix(kPrime, std::uint64_t{frame.entry.id} << 32 | context);
  TokenNotes seen;  // in registers: what is behind `notes` may alias
  if (JoinsMany(frame)) [[unlikely]] {
    h = TokenOfJoin(frame, h, &seen);
    *notes = seen;
    return h;
  }
  Source sources{0, 0};
  for (const TensorRef& ref : frame.tensors) {
    const c10::TensorImpl* impl = ref.impl;
    if (impl == nullptr || !IsPlain(impl)) {
      h = Mix(h, impl == nullptr ? 7 : 8);
      continue;
    }
    const std::int64_t elements = impl->numel();
    seen.elements += elements;
    std::uint64_t word =
        static_cast<std::uint64_t>(c10::typeMetaToScalarType(impl->dtype())) |
        static_cast<std::uint64_t>(impl->dim()) << 8 | LayoutBits(impl) << 16 |
        std::uint64_t{elements == 0} << 20 |
        std::uint64_t{impl->is_wrapped_number()} << 21;
    word ^= impl->key_set().raw_repr() << 24;
    h = Mix(h, word);
    Block* const block = BlockForToken(impl);
    // No data comes in by a number in a tensor's clothes, made for the call,
    // nor by empty memory that the call fills.
    bool is_new = false;
    const Source source =
        block == nullptr ? Source{kForeignSource, kForeignSource}
                         : SourceOf(block, stream, position, elements, &is_new);
    sources.exact = Mix(sources.exact, source.exact);
    sources.loose = Mix(sources.loose, source.loose);
    seen.fresh |= is_new && !ref.written && !impl->is_wrapped_number();
  }
  for (const std::uint64_t word : frame.statics) h = Mix(h, word);
  for (std::uint32_t i = 0; i < frame.scalars.size(); ++i) {
    const ScalarPolicy policy = frame.entry.PolicyOfScalar(i);
    const ScalarValue& v = frame.scalars[i];
    h = Mix(h, v.type);
    if (v.type == kNoScalar) continue;
    h = policy == ScalarPolicy::kBaked
            ? Mix(Mix(h, v.bits[0]), v.bits[1])
            : Mix(h, ValueClass(policy, v));
  }
  *notes = seen;
  return {Mix(h, sources.exact), Mix(h, sources.loose)};
}

StreamToken PeekToken(const CallFrame& frame, std::uint32_t context,
                      std::uint16_t stream, std::uint64_t position) {
  struct Use {
    Block* block;
    std::uint64_t last;
  };
  FrameArray<Use, 12> uses;
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr || !IsPlain(ref.impl)) continue;
    if (Block* block = BlockForToken(ref.impl)) {
      uses.push_back({block, block->last_use.load(std::memory_order_relaxed)});
    }
  }
  TokenNotes notes;
  const StreamToken token = TokenOf(frame, context, stream, position, &notes);
  for (const Use& use : uses) {
    use.block->last_use.store(use.last, std::memory_order_relaxed);
  }
  return token;
}

[[gnu::hot]] void RecordWrite(const c10::TensorImpl* impl,
                              std::uint64_t stamp) {
  const c10::StorageImpl* storage = StorageOf(impl);
  if (storage == nullptr) return;
  if (Block* block = BlockOf(storage)) {
    block->last_write.store(stamp, std::memory_order_relaxed);
  }
}

}  // namespace tjit::runtime
