#include "runtime/thread/self_check/eager_copies.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/library_calls/call_names.h"

namespace tjit::runtime {
namespace {

// Not a number in every floating type, an index that no op accepts.
constexpr int kPoison = 0xFF;

// Results, and written arguments (by their number among the tensors), of which
// the op leaves a part as it found it: the workspace of oneDNN's RNN.
constexpr struct {
  std::string_view op;
  bool is_result;
  std::size_t number;
} kScratch[] = {
    {"aten::mkldnn_rnn_layer", true, 3},
    {"aten::mkldnn_rnn_layer_backward", false, 13},
};

bool IsScratch(OpId op, bool is_result, std::size_t number) {
  const std::string_view name = OpName(op);
  return std::any_of(std::begin(kScratch), std::end(kScratch),
                     [&](const auto& s) {
                       return s.op == name && s.is_result == is_result &&
                              s.number == number;
                     });
}

std::unique_ptr<char[]> CopyOf(const char* bytes, std::uint64_t n) {
  std::unique_ptr<char[]> copy(new char[n]);
  std::memcpy(copy.get(), bytes, n);
  return copy;
}

template <class T>
bool AreNans(const char* a, const char* b) {
  T x, y;
  std::memcpy(&x, a, sizeof(T));
  std::memcpy(&y, b, sizeof(T));
  return std::isnan(static_cast<double>(x)) &&
         std::isnan(static_cast<double>(y));
}

bool AreNans(const char* a, const char* b, std::uint8_t dtype) {
  switch (static_cast<c10::ScalarType>(dtype)) {
    case c10::ScalarType::Float:
      return AreNans<float>(a, b);
    case c10::ScalarType::Double:
      return AreNans<double>(a, b);
    case c10::ScalarType::Half:
      return AreNans<c10::Half>(a, b);
    case c10::ScalarType::BFloat16:
      return AreNans<c10::BFloat16>(a, b);
    default:  // of the others no machine code is made
      return false;
  }
}

// Walks the elements of a geometry; contiguous inner runs at once.
class FirstDifference {
 public:
  FirstDifference(const TensorGeometry& g, const char* a, const char* b,
                  bool any_nan)
      : g_(g), a_(a), b_(b), item_(g.itemsize), any_nan_(any_nan) {
    if (Visit(0, g.offset)) return;
    found_ = false;
  }
  bool found() const { return found_; }
  std::int64_t offset() const { return offset_; }  // in elements
  std::string Index() const {
    std::string text = "[";
    for (int d = 0; d < g_.ndim; ++d) {
      absl::StrAppend(&text, d != 0 ? "," : "", index_[d]);
    }
    return text + "]";
  }

 private:
  // True if a difference was found from dim `d` on.
  bool Visit(int d, std::int64_t at) {
    if (d == g_.ndim) return Differs(at, 1, -1);
    if (d + 1 == g_.ndim && g_.strides[d] == 1) {
      return Differs(at, g_.sizes[d], d);
    }
    const bool once = g_.strides[d] == 0;
    for (std::int64_t i = 0; i < g_.sizes[d]; ++i) {
      index_[d] = i;
      if (Visit(d + 1, at + i * g_.strides[d])) return true;
      if (once) break;
    }
    return false;
  }
  bool Differs(std::int64_t at, std::int64_t n, int d) {
    const char* a = a_ + at * item_;
    const char* b = b_ + at * item_;
    if (std::memcmp(a, b, static_cast<std::size_t>(n * item_)) == 0) {
      return false;
    }
    std::int64_t i = 0;
    while (i < n && IsSame(a + i * item_, b + i * item_)) ++i;
    if (i == n) return false;
    if (d >= 0) index_[d] = i;
    offset_ = at + i;
    return true;
  }

  bool IsSame(const char* a, const char* b) const {
    return std::memcmp(a, b, static_cast<std::size_t>(item_)) == 0 ||
           (any_nan_ && AreNans(a, b, g_.dtype));
  }

  const TensorGeometry& g_;
  const char* const a_;
  const char* const b_;
  const std::int64_t item_;
  const bool any_nan_;
  bool found_ = true;
  std::int64_t offset_ = 0;
  std::int64_t index_[kMaxDims] = {};
};

// "1.5 (0x3fc00000)".
std::string Value(const char* at, const TensorGeometry& g) {
  std::string hex = "0x";
  for (int i = g.itemsize - 1; i >= 0; --i) {
    absl::StrAppend(&hex, absl::Hex(static_cast<unsigned char>(at[i]),
                                    absl::kZeroPad2));
  }
  const auto with = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return absl::StrCat(value, " (", hex, ")");
  };
  switch (static_cast<c10::ScalarType>(g.dtype)) {
    case c10::ScalarType::Float:
      return with(float{});
    case c10::ScalarType::Double:
      return with(double{});
    case c10::ScalarType::Long:
      return with(std::int64_t{});
    default:
      return hex;
  }
}

// One write by a pending op.
struct Write {
  const TraceNode* node;
  std::int32_t slot;
  const TensorGeometry* geometry;
  std::string what;
};

std::vector<Write> WritesOf(const TraceNode* node) {
  std::vector<Write> writes;
  const StepRecord& step = node->step;
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const ArgRecord& arg = step.args[i];
    if (arg.slot == kNoSlot || !arg.written ||
        IsScratch(step.op, /*is_result=*/false, i)) {
      continue;
    }
    writes.push_back(
        {node, arg.slot, &*arg.geometry,
         absl::StrCat("written argument ", i,
                      RecordedNameText(", recorded as ", *node, false, i))});
  }
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    const ResultRecord& r = step.results[i];
    if (r.kind != ResultRecord::Kind::kFresh ||
        IsScratch(step.op, /*is_result=*/true, i)) {
      continue;
    }
    writes.push_back(
        {node, r.slot, &*r.geometry,
         absl::StrCat("result ", i,
                      RecordedNameText(", recorded as ", *node, true, i))});
  }
  return writes;
}

}  // namespace

EagerCopies::EagerCopy& EagerCopies::At(std::uint32_t slot) {
  if (slot >= copies_.size()) copies_.resize(slot + 1);
  return copies_[slot];
}

std::uint64_t EagerCopies::SwapIn(const StepRecord& step, const Run& run) {
  std::uint64_t bytes = 0;
  swapped_.clear();
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot) continue;
    const auto s = static_cast<std::uint32_t>(arg.slot);
    if (run.slots[s].copied) continue;
    const auto same = std::find_if(
        swapped_.begin(), swapped_.end(),
        [s](const Swapped& other) { return other.slot == s; });
    if (same != swapped_.end()) {
      same->written |= arg.written;
      continue;
    }
    Swapped swapped;
    swapped.slot = s;
    swapped.block = run.slots[s].block;
    swapped.written = arg.written;
    swapped_.push_back(std::move(swapped));
  }
  for (Swapped& s : swapped_) {
    EagerCopy& eager_copy = At(s.slot);
    const std::uint64_t n = s.block->bytes;
    if (eager_copy.bits != nullptr) {
      if (s.written) s.before = CopyOf(eager_copy.bits.get(), n);
      std::swap_ranges(s.block->data, s.block->data + n, eager_copy.bits.get());
    } else if (s.written) {
      s.fresh = true;
      eager_copy.bits = CopyOf(s.block->data, n);
      eager_copy.bytes = n;
      bytes += n;
    }
  }
  return bytes;
}

bool EagerCopies::IsAlive(const Swapped& s, const Run& run) {
  return s.slot >= run.slots.size() || run.slots[s.slot].block == s.block;
}

void EagerCopies::SwapOut(const Run& run) {
  for (const Swapped& s : swapped_) {
    const EagerCopy& eager_copy = copies_[s.slot];
    if (eager_copy.bits == nullptr || !IsAlive(s, run)) continue;
    std::swap_ranges(s.block->data, s.block->data + eager_copy.bytes,
                     eager_copy.bits.get());
  }
  swapped_.clear();
}

std::vector<EagerCopies::Written> EagerCopies::TakeBack(const Run& run) {
  std::vector<Written> written;
  for (Swapped& s : swapped_) {
    EagerCopy& eager_copy = copies_[s.slot];
    if (eager_copy.bits == nullptr || !IsAlive(s, run)) continue;
    if (!s.written) {
      std::swap_ranges(s.block->data, s.block->data + eager_copy.bytes,
                       eager_copy.bits.get());
      continue;
    }
    written.push_back({s.block, CopyOf(s.block->data, eager_copy.bytes)});
    std::memcpy(s.block->data, eager_copy.bits.get(), eager_copy.bytes);
    if (s.fresh) {
      eager_copy = EagerCopy();
    } else {
      eager_copy.bits = std::move(s.before);
    }
  }
  swapped_.clear();
  return written;
}

std::uint64_t EagerCopies::AddResult(std::uint32_t slot, Block* block) {
  EagerCopy& eager_copy = At(slot);
  eager_copy.bits = CopyOf(block->data, block->bytes);
  eager_copy.bytes = block->bytes;
  std::memset(block->data, kPoison, block->bytes);
  return eager_copy.bytes;
}

std::int64_t EagerCopies::Compare(const Run& run, bool any_nan,
                                  std::vector<Difference>* differences) {
  std::int64_t checks = 0;
  // By slot: geometries that were compared already, last writers first.
  std::vector<std::vector<const TensorGeometry*>> seen(run.slots.size());
  std::vector<bool> differs(run.slots.size());
  for (auto it = run.pending.rbegin(); it != run.pending.rend(); ++it) {
    for (const Write& w : WritesOf(*it)) {
      const auto s = static_cast<std::uint32_t>(w.slot);
      const SlotBinding& slot = run.slots[s];
      if (s >= copies_.size() || copies_[s].bits == nullptr || differs[s] ||
          slot.block == nullptr || slot.held ||
          std::any_of(
              seen[s].begin(), seen[s].end(),
              [&](const TensorGeometry* g) { return *g == *w.geometry; })) {
        continue;
      }
      if (seen[s].empty()) ++checks;
      seen[s].push_back(w.geometry);
      char* have = slot.block->data + slot.shift;
      const char* want = copies_[s].bits.get() + slot.shift;
      const FirstDifference first(*w.geometry, have, want, any_nan);
      if (!first.found()) continue;
      differs[s] = true;
      const std::int64_t at = first.offset() * w.geometry->itemsize;
      differences->push_back(
          {w.node, absl::StrCat(w.what, " at ", first.Index(), ": ",
                                Value(have + at, *w.geometry), ", eager has ",
                                Value(want + at, *w.geometry))});
    }
  }
  for (std::uint32_t s = 0; s < run.slots.size(); ++s) {
    if (differs[s]) {
      std::memcpy(run.slots[s].block->data, copies_[s].bits.get(),
                  copies_[s].bytes);
    }
  }
  copies_.clear();
  std::reverse(differences->begin(), differences->end());
  return checks;
}

}  // namespace tjit::runtime
