// Kernels by the text of their function, so that equal groups (layers of a
// net, batches of other sizes) share one; so are failures, which are not tried
// again. And what is known of groups by the steps in them (group_cache.h), for
// which not even a function is made again, and of segments in several sizes
// (shape_cache.h), for which only numbers are put into one.
//
// Thread: one at a time.
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "compiler/driver/group_cache.h"
#include "compiler/driver/kernel.h"
#include "compiler/driver/shape_cache.h"
#include "compiler/ir/ir.h"
#include "support/kept_bytes.h"

namespace tjit {

class SegmentDump;  // segment_dump.h

// What the passes made of a function.
struct SimplerFunction {
  ir::Function function;
  std::string why_not;  // "": it is one
};

class KernelCache {
 public:
  struct Entry {
    std::shared_ptr<const Kernel> kernel;
    std::string why_not;  // null kernel
    std::string dumped;   // where; "" without a dump

    // The one copy of `function` that whoever keeps it shares. REQUIRES: this
    // is its entry.
    std::shared_ptr<const KeptFunction> Share(ir::Function function);

   private:
    std::weak_ptr<const KeptFunction> function_;
  };
  // The kernel of `function`, compiled unless it was before (*was_there).
  // Valid until the next one.
  Entry& For(const ir::Function& function, Engine* engine, bool* was_there,
             SegmentDump* dump);
  // Runs the passes of a function that For() will be asked for, and has the
  // engine precompile what they give.
  void Precompile(const ir::Function& function, Engine* engine);
  void Clear();
  // Counts all of this as it is now (Kept::kCode); kernels count themselves.
  void Count() {
    kept_.Set(bytes_ + groups_.kept_bytes() + shapes_.text_bytes());
  }

  GroupCache* groups() { return &groups_; }
  ShapeCache* shapes() { return &shapes_; }

 private:
  static constexpr std::size_t kMaxEntries = 4096;

  void ForgetPrecompiled();

  absl::flat_hash_map<std::string, Entry> entries_;
  absl::flat_hash_map<std::string, SimplerFunction> precompiled_;
  std::size_t bytes_ = 0;  // of both, about
  KeptShare kept_{Kept::kCode};
  GroupCache groups_;
  ShapeCache shapes_;
};

}  // namespace tjit
