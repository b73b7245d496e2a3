// A key is a list of words, each list in it preceded by its length, so that
// no two different runs give the same words. Sizes are not in it; what depends
// on sizes and yet decides which program it is, is: layout classes, which dims
// an op broadcasts, and which accesses to a written storage meet.
#include "recorder/trace_key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tjit {
namespace {

// Note [Overlap relation]
// Per slot the distinct accesses (offset, sizes, strides, dtype) are numbered
// by first use; an operand's word holds the number. For slots that a step
// writes, each pair of distinct accesses of which one is a write adds a bit:
// do their byte ranges meet? Ranges stand for the elements, so interleaved
// columns count as meeting: that can only keep two keys apart.
// With more than kMaxViews accesses to one slot the pairs are too many; the
// exact geometry goes into the key instead, which is correct and no longer
// shared between sizes.
constexpr std::size_t kMaxViews = 1024;

struct View {
  TensorGeometry geometry;
  bool is_written = false;
  std::int64_t begin = 0, end = 0;  // bytes; empty if equal
};

struct SlotViews {
  std::vector<View> views;
  bool is_written = false;
  bool is_full = false;
};

// The key set says how a tensor is seen, not which bytes it covers.
bool SameBytes(const TensorGeometry& a, const TensorGeometry& b) {
  TensorGeometry copy = b;
  copy.key_set = a.key_set;
  copy.wrapped_number = a.wrapped_number;
  return a == copy;
}

void SetRange(View* view) {
  const TensorGeometry& g = view->geometry;
  std::int64_t low = g.offset, high = g.offset;
  for (int d = 0; d < g.ndim; ++d) {
    if (g.sizes[d] == 0) return;
    const std::int64_t reach = (g.sizes[d] - 1) * g.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  view->begin = low * g.itemsize;
  view->end = (high + 1) * g.itemsize;
}

class KeyMaker {
 public:
  TraceKey Make(const std::vector<const StepRecord*>& steps) {
    Add(steps.size());
    for (const StepRecord* step : steps) AddStep(*step);
    AddOverlaps();
    TraceKey key;
    key.words = std::move(words_);
    key.hash =
        XXH3_64bits(key.words.data(), key.words.size() * sizeof(key.words[0]));
    return key;
  }

 private:
  void Add(std::uint64_t word) { words_.push_back(word); }

  // Returns the number of this access to the slot.
  std::uint64_t ViewNumber(std::int32_t slot, const TensorGeometry& geometry,
                           bool is_written) {
    if (slot < 0) return 0;
    if (static_cast<std::size_t>(slot) >= slots_.size()) {
      slots_.resize(static_cast<std::size_t>(slot) + 1);
    }
    SlotViews& known = slots_[static_cast<std::size_t>(slot)];
    known.is_written |= is_written;
    for (std::size_t i = 0; i < known.views.size(); ++i) {
      if (!SameBytes(known.views[i].geometry, geometry)) continue;
      known.views[i].is_written |= is_written;
      return i;
    }
    if (known.views.size() == kMaxViews) {
      known.is_full = true;
      AddExact(geometry);
      return kMaxViews;
    }
    View view;
    view.geometry = geometry;
    view.is_written = is_written;
    SetRange(&view);
    known.views.push_back(view);
    return known.views.size() - 1;
  }

  void AddGeometry(const TensorGeometry& g) {
    Add(g.key_set);
    Add(std::uint64_t{g.dtype} | std::uint64_t{g.ndim} << 8 |
        std::uint64_t{g.itemsize} << 16 |
        std::uint64_t{g.wrapped_number} << 24 |
        static_cast<std::uint64_t>(LayoutOf(g)) << 32);
  }

  void AddStep(const StepRecord& step) {
    Add(std::uint64_t{step.op} << 8 | static_cast<std::uint64_t>(step.kind));
    Add(step.context);
    AddArgs(step);
    Add(step.statics.size());
    words_.insert(words_.end(), step.statics.begin(), step.statics.end());
    Add(step.scalars.size());
    for (const ScalarRecord& s : step.scalars) {
      Add(s.value.type << 33 | std::uint64_t{s.value_class} << 1 |
          std::uint64_t{s.may_vary});
      if (s.may_vary) continue;
      Add(s.value.bits[0]);
      Add(s.value.bits[1]);
    }
    Add(step.results.size());
    for (const ResultRecord& r : step.results) {
      Add(static_cast<std::uint64_t>(r.kind) |
          std::uint64_t{static_cast<std::uint32_t>(r.slot)} << 32);
      Add(static_cast<std::uint64_t>(static_cast<std::int64_t>(r.alias_arg)));
      if (r.kind == ResultRecord::Kind::kEmpty) AddGeometry(r.geometry);
      if (r.kind != ResultRecord::Kind::kFresh) continue;
      AddGeometry(r.geometry);
      // A birth is whole and comes before every other access: no write that
      // the overlap relation would have to order.
      ViewNumber(r.slot, r.geometry, /*is_written=*/false);
    }
  }

  void AddArgs(const StepRecord& step) {
    std::int64_t out[kMaxDims];
    ResultSizes(step, out);
    Add(step.args.size());
    for (const ArgRecord& a : step.args) {
      const std::uint64_t view = ViewNumber(a.slot, a.geometry, a.written);
      Add(std::uint64_t{static_cast<std::uint32_t>(a.slot)} | view << 32);
      if (a.slot == kNoSlot) continue;
      AddGeometry(a.geometry);
      std::uint64_t broadcast = 0;
      for (int i = 0; i < a.geometry->ndim; ++i) {
        const int d = a.geometry->ndim - 1 - i;
        if (a.geometry->sizes[d] == 1 && out[i] > 1) broadcast |= 1u << i;
      }
      Add(broadcast << 1 | std::uint64_t{a.written});
    }
  }

  // Sizes of what the step computes, last dim first, the largest of all
  // results. An operand of size 1 where this is larger was broadcast.
  static void ResultSizes(const StepRecord& step,
                          std::int64_t (&out)[kMaxDims]) {
    std::fill(std::begin(out), std::end(out), 0);
    for (const ResultRecord& r : step.results) {
      const TensorGeometry* g = &*r.geometry;
      if (r.kind == ResultRecord::Kind::kUndefined ||
          r.kind == ResultRecord::Kind::kEmpty) {
        continue;
      }
      if (r.kind == ResultRecord::Kind::kAlias) {
        const auto arg = static_cast<std::size_t>(r.alias_arg);
        if (arg >= step.args.size()) continue;
        g = &*step.args[arg].geometry;
      }
      for (int i = 0; i < g->ndim; ++i) {
        out[i] = std::max(out[i], g->sizes[g->ndim - 1 - i]);
      }
    }
  }

  void AddOverlaps() {
    for (const SlotViews& slot : slots_) {
      if (!slot.is_written || slot.views.size() < 2) continue;
      if (!slot.is_full) {
        AddPairs(slot);
        continue;
      }
      for (const View& view : slot.views) AddExact(view.geometry);
    }
  }

  void AddPairs(const SlotViews& slot) {
    std::uint64_t word = 0;
    int bits = 0;
    for (std::size_t i = 1; i < slot.views.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const View& a = slot.views[i];
        const View& b = slot.views[j];
        if (!a.is_written && !b.is_written) continue;
        const bool meets = a.begin < b.end && b.begin < a.end;
        word |= std::uint64_t{meets} << bits;
        if (++bits == 64) {
          Add(word);
          word = 0;
          bits = 0;
        }
      }
    }
    Add(word);
  }

  void AddExact(const TensorGeometry& g) {
    Add(static_cast<std::uint64_t>(g.offset));
    for (int d = 0; d < g.ndim; ++d) {
      Add(static_cast<std::uint64_t>(g.sizes[d]));
      Add(static_cast<std::uint64_t>(g.strides[d]));
    }
  }

  std::vector<std::uint64_t> words_;
  std::vector<SlotViews> slots_;
};

}  // namespace

TraceKey MakeTraceKey(const std::vector<const StepRecord*>& steps) {
  TraceKey key = KeyMaker().Make(steps);
  key.words.shrink_to_fit();  // it is kept
  return key;
}

}  // namespace tjit
