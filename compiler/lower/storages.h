// What the slots of a group hold while it is lowered: storage versions.
//
// A slot's content is one value (`whole`), over whose memory every argument is
// an access. A change of all of it is a new value, a change of a part an
// `update`. A slot from outside of which only parts are changed that do not
// meet keeps those parts as values of their own (regions): nothing else of the
// storage is read or written, which matters for a slice of a big tensor. When
// an access meets a part without being that part, the stretch of the storage
// that the group uses becomes the whole, by a copy unless it is all of it.
//
// Sizes: the first geometry that covers the storage is its base. A geometry
// whose dims are dims of the base is related to it; otherwise what its strides
// and its offset depend on is fixed.
// Tested by: tests/compiler/lower/lower_test.cpp
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/builder.h"
#include "compiler/lower/geometry.h"
#include "compiler/lower/size_vars.h"

namespace tjit::lower {

// A tensor of a step: the slot, how it lies there, its dims.
struct Place {
  std::int32_t slot = kNoSlot;
  const TensorGeometry* geometry = nullptr;
  Dims dims;
};

class Storages {
 public:
  Storages(ir::Builder* builder, SizeVars* sizes)
      : builder_(*builder), sizes_(*sizes) {}

  // All slots and all uses are told before the first step is lowered; say
  // what cannot be.
  bool AddSlot(const GroupSlot& slot, std::string* reason);
  std::string AddUse(const Place& place, bool is_written);
  std::string AddBirth(const Place& place);  // a fresh result
  void MakeExternals(Lowered* lowered);

  // The elements of a place, now.
  ir::Operand Read(const Place& place);
  // How a value should lie that is going to be written there.
  ir::Geometry LayoutFor(const Place& place);
  // Puts `value`, which has the sizes of `place` and lies as LayoutFor() says,
  // there. REQUIRES: the step reads nothing there that meets it otherwise.
  void Write(const Place& place, ir::ValueId value);

  // Write-backs and returned values.
  void Finish(Lowered* lowered);

 private:
  struct Region {
    TensorGeometry geometry;
    Dims dims;
    ir::ValueId value = ir::kNoValue;
  };
  struct Content {
    GroupSlot slot;
    std::int64_t elements = 0;
    ir::DType dtype = ir::DType::kCount;
    Reach reach;  // of all uses
    bool is_born = false;
    bool has_base = false;
    bool has_parts = false;    // a part is written
    bool has_several = false;  // not all uses are the same elements
    const TensorGeometry* first_use = nullptr;
    Place base;
    ir::ValueId external = ir::kNoValue;
    ir::ValueId whole = ir::kNoValue;  // elements from `origin` on
    std::int64_t origin = 0;
    std::vector<Region> regions;  // changed parts, while whole is external
    std::vector<Region> written;  // what has been changed since whole is not
    bool is_all_written = false;
  };

  std::string Add(const Place& place, bool is_written, bool is_birth);
  Content& ContentOf(const Place& place);
  // An access to the whole; relates or fixes sizes.
  ir::Geometry AccessOf(Content* c, const Place& place);
  void RelateToBase(Content* c, const Place& place, ir::Geometry* access);
  std::vector<int> BaseDims(const Content& c, const TensorGeometry& g) const;
  Region* RegionOf(Content* c, const TensorGeometry& g);
  bool MeetsRegion(const Content& c, const TensorGeometry& g) const;
  void Merge(Content* c);
  void Update(Content* c, const Region& region);
  ir::Geometry Dense(const Place& place) const;

  ir::Builder& builder_;
  SizeVars& sizes_;
  std::vector<Content> contents_;
  absl::flat_hash_map<std::int32_t, std::size_t> index_;
};

}  // namespace tjit::lower
