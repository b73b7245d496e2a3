#include "compiler/lower/storages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "support/planted_defect.h"

namespace tjit::lower {

using ir::Geometry;
using ir::Op;
using ir::Operand;
using ir::Size;
using ir::Sizes;
using ir::ValueId;

bool Storages::AddSlot(const GroupSlot& slot, std::string* reason) {
  if (!index_.emplace(slot.slot, contents_.size()).second) {
    *reason = absl::StrCat("s", slot.slot, " is given twice");
    return false;
  }
  Content content;
  content.slot = slot;
  contents_.push_back(std::move(content));
  return true;
}

std::string Storages::AddBirth(const Place& place) {
  const std::string why = Add(place, true, /*is_birth=*/true);
  if (!why.empty()) return why;
  Content& c = ContentOf(place);
  if (!c.slot.born_here || c.is_born) {
    return absl::StrCat("s", place.slot, " is not born where it is made");
  }
  c.is_born = true;
  return Covers(*place.geometry, c.elements)
             ? ""
             : absl::StrCat("s", place.slot,
                            " is larger than the result in it");
}

Storages::Content& Storages::ContentOf(const Place& place) {
  return contents_[index_.at(place.slot)];
}

std::string Storages::AddUse(const Place& place, bool is_written) {
  return Add(place, is_written, /*is_birth=*/false);
}

std::string Storages::Add(const Place& place, bool is_written, bool is_birth) {
  const TensorGeometry& g = *place.geometry;
  const std::string where = absl::StrCat("s", place.slot);
  if (index_.count(place.slot) == 0) return where + " is not given";
  Content& c = ContentOf(place);
  ir::DType dtype;
  if (!ir::DTypeByNumber(g.dtype, &dtype)) {
    return absl::StrCat(where, " has a dtype that the IR has not");
  }
  if ((g.key_set & (kConjugateKey | kNegativeKey)) != 0) {
    return where + " is read through a conjugate or negative view";
  }
  if (g.numel() == 0) return where + " has no elements";
  if (c.dtype == ir::DType::kCount) {
    c.dtype = dtype;
    c.elements = static_cast<std::int64_t>(c.slot.bytes / InfoOf(dtype).bytes);
    // Of a loss that eager has made in a tensor that became smaller: the rest
    // of its storage is nothing.
    if (is_birth && g.ndim == 0 && g.offset == 0) c.elements = 1;
    c.reach = ReachOf(g);
    c.first_use = &g;
  } else if (c.dtype != dtype) {
    return absl::StrCat(where, " is used as ", Name(c.dtype), " and as ",
                        Name(dtype));
  }
  const Reach reach = ReachOf(g);
  if (reach.last >= c.elements) return where + " is shorter than its use";
  c.reach.first = std::min(c.reach.first, reach.first);
  c.reach.last = std::max(c.reach.last, reach.last);
  c.has_several |= !SameElements(*c.first_use, g);
  const bool covers = Covers(g, c.elements);
  if (c.slot.born_here && !c.is_born && !is_birth) {
    if (!is_written || !covers) return where + " is used before it is born";
    c.is_born = true;  // filled
  }
  if (covers && !c.has_base) {
    c.has_base = true;
    c.base = place;
  }
  if (is_written && !covers) {
    if (!IsInjective(g))
      return where + " is written through a view that " + "meets itself";
    c.has_parts = true;
  }
  return "";
}

void Storages::MakeExternals(Lowered* lowered) {
  for (Content& c : contents_) {
    if (c.slot.born_here || c.dtype == ir::DType::kCount) continue;
    Size extent = c.elements;
    if (c.has_base) extent = Product(sizes_.Of(c.base.dims));
    c.external = c.whole = builder_.External(c.dtype, extent);
    lowered->external_slots.push_back(c.slot.slot);
  }
}

// Strides of a geometry that covers its storage, from the sizes.
Geometry Storages::Dense(const Place& place) const {
  Geometry layout = ir::Contiguous(sizes_.Of(place.dims));
  const DimOrder order = DimsByStride(*place.geometry);
  if (std::is_sorted(order.begin(), order.end())) return layout;
  layout.strides.assign(layout.sizes.size(), Size(1));
  Size stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    const auto at = static_cast<std::size_t>(*d);
    layout.strides[at] = stride;
    stride = stride * layout.sizes[at];
  }
  return layout;
}

// Which dim of the base each dim is (its size and its stride are the same), in
// the order of the base's strides; -1: none.
std::vector<int> Storages::BaseDims(const Content& c,
                                    const TensorGeometry& g) const {
  const TensorGeometry& base = *c.base.geometry;
  const DimOrder order = DimsByStride(base);
  std::vector<int> found;
  for (int d = 0; d < g.ndim; ++d) {
    const auto same = std::find_if(order.begin(), order.end(), [&](int b) {
      return base.sizes[b] == g.sizes[d] && base.strides[b] == g.strides[d];
    });
    found.push_back(same == order.end() || g.sizes[d] == 1
                        ? -1
                        : static_cast<int>(same - order.begin()));
  }
  return found;
}

// If all dims of `place` are dims of the base, from its first element on, they
// are related, whatever the sizes. Else only the outermost dim, which no stride
// and no offset inside of it depends on, may be, and the rest is fixed.
void Storages::RelateToBase(Content* c, const Place& place, Geometry* access) {
  const TensorGeometry& g = *place.geometry;
  const Geometry layout = Dense(c->base);
  const DimOrder order = DimsByStride(*c->base.geometry);
  const std::vector<int> found = BaseDims(*c, g);
  const auto base_dim = [&](int position) {
    return static_cast<std::size_t>(order[static_cast<std::size_t>(position)]);
  };
  bool all = g.offset == 0;
  for (std::size_t d = 0; d < found.size(); ++d) {
    all &= found[d] >= 0 || g.sizes[d] == 1 || g.strides[d] == 0;
  }
  const bool is_inside =
      order.empty() || g.offset < c->base.geometry->strides[order.front()];
  bool is_outermost_related = false;
  for (std::size_t d = 0; d < found.size(); ++d) {
    if (g.sizes[d] == 1 || (all && found[d] < 0)) continue;
    if (all || (found[d] == 0 && is_inside)) {
      sizes_.Relate(c->base.dims[base_dim(found[d])], place.dims[d]);
      access->strides[d] = layout.strides[base_dim(found[d])];
      is_outermost_related |= found[d] == 0;
    } else {
      sizes_.Fix(place.dims[d]);
    }
  }
  if (all) return;
  for (std::size_t i = is_outermost_related ? 1 : 0; i < order.size(); ++i) {
    sizes_.Fix(c->base.dims[static_cast<std::size_t>(order[i])]);
  }
}

Geometry Storages::AccessOf(Content* c, const Place& place) {
  const TensorGeometry& g = *place.geometry;
  Geometry access;
  for (int d = 0; d < g.ndim; ++d) {
    access.strides.push_back(g.sizes[d] == 1 ? 0 : g.strides[d]);
  }
  access.offset = g.offset - c->origin;
  if (Planted(Defect::kLostOffset)) access.offset = std::int64_t{0};
  if (c->has_base) {
    // Dims of size 1 may stand elsewhere: x[1,n] is not x[n,1].
    if (SameElements(*c->base.geometry, g) &&
        std::equal(place.dims.begin(), place.dims.end(),
                   c->base.dims.begin(), c->base.dims.end(),
                   [](const Dim& a, const Dim& b) { return a.size == b.size; })) {
      for (std::size_t d = 0; d < place.dims.size(); ++d) {
        sizes_.Relate(c->base.dims[d], place.dims[d]);
      }
      return Dense(c->base);
    }
    RelateToBase(c, place, &access);
  } else if (c->has_parts) {
    // Written parts stay apart and do not meet themselves: one part alone may
    // be longer or shorter.
    const DimOrder order = DimsByStride(g);
    for (std::size_t i = c->has_several ? 0 : 1; i < order.size(); ++i) {
      sizes_.Fix(place.dims[static_cast<std::size_t>(order[i])]);
    }
  }
  access.sizes = sizes_.Of(place.dims);
  return access;
}

Storages::Region* Storages::RegionOf(Content* c, const TensorGeometry& g) {
  for (Region& region : c->regions) {
    if (SameElements(region.geometry, g)) return &region;
  }
  return nullptr;
}

bool Storages::MeetsRegion(const Content& c, const TensorGeometry& g) const {
  return std::any_of(
      c.regions.begin(), c.regions.end(),
      [&](const Region& region) { return !AreDisjoint(region.geometry, g); });
}

void Storages::Update(Content* c, const Region& region) {
  const Place place{c->slot.slot, &region.geometry, region.dims};
  const Operand to = builder_.View(c->whole, AccessOf(c, place));
  c->whole = builder_.Emit(Op::kUpdate, {to, builder_.Use(region.value)});
  const auto same = [&](const Region& r) {
    return SameElements(r.geometry, region.geometry);
  };
  if (std::none_of(c->written.begin(), c->written.end(), same)) {
    c->written.push_back(region);
  }
}

// The stretch that the group uses becomes one value, with all parts in it.
void Storages::Merge(Content* c) {
  if (c->reach.first != 0 || c->reach.last != c->elements - 1) {
    c->origin = c->reach.first;
    Geometry stretch;
    stretch.sizes = {Size(c->reach.last - c->reach.first + 1)};
    stretch.strides = {Size(1)};
    stretch.offset = c->origin;
    ir::Value value;
    value.dtype = c->dtype;
    value.layout = ir::Contiguous(stretch.sizes);
    c->whole = builder_.EmitAs(std::move(value), Op::kTo,
                               {builder_.View(c->external, stretch)});
  }
  for (const Region& region : std::exchange(c->regions, {})) {
    Update(c, region);
  }
}

Operand Storages::Read(const Place& place) {
  Content& c = ContentOf(place);
  const TensorGeometry& g = *place.geometry;
  if (Region* region = RegionOf(&c, g); region != nullptr) {
    Operand operand = builder_.Use(region->value);
    Geometry access;
    std::size_t r = 0;
    for (const Dim& dim : place.dims) {
      access.strides.push_back(0);
      if (dim.size == 1) continue;
      while (region->dims[r].size == 1) ++r;
      sizes_.Relate(region->dims[r], dim);
      access.strides.back() = operand.access.strides[r++];
    }
    access.sizes = sizes_.Of(place.dims);
    operand.access = std::move(access);
    return operand;
  }
  if (MeetsRegion(c, g)) Merge(&c);
  return builder_.View(c.whole, AccessOf(&c, place));
}

Geometry Storages::LayoutFor(const Place& place) {
  const Content& c = ContentOf(place);
  if (Covers(*place.geometry, c.elements)) return Dense(place);
  return ir::Contiguous(sizes_.Of(place.dims));
}

void Storages::Write(const Place& place, ValueId value) {
  Content& c = ContentOf(place);
  const TensorGeometry& g = *place.geometry;
  if (Covers(g, c.elements)) {
    AccessOf(&c, place);
    c.whole = value;
    c.origin = 0;
    c.regions.clear();
    c.is_all_written = true;
    return;
  }
  const Region region{g, place.dims, value};
  if (c.whole == c.external && c.external != ir::kNoValue) {
    AccessOf(&c, place);
    if (Region* same = RegionOf(&c, g); same != nullptr) {
      // The same elements, but dims of size 1 may stand elsewhere.
      *same = region;
      return;
    }
    if (!MeetsRegion(c, g)) {
      c.regions.push_back(region);
      return;
    }
    Merge(&c);
  }
  Update(&c, region);
}

void Storages::Finish(Lowered* lowered) {
  for (Content& c : contents_) {
    if (!c.slot.needed_after) continue;
    if (c.slot.born_here) {
      builder_.Return(c.whole);
      lowered->return_slots.push_back(c.slot.slot);
      continue;
    }
    for (const Region& region : c.regions) {
      const Place place{c.slot.slot, &region.geometry, region.dims};
      builder_.Write(builder_.View(c.external, AccessOf(&c, place)),
                     builder_.Use(region.value));
    }
    if (c.is_all_written) {
      const Operand from = builder_.Use(c.whole);
      builder_.Write(builder_.View(c.external, from.access), from);
      continue;
    }
    for (const Region& region : c.written) {
      const Place place{c.slot.slot, &region.geometry, region.dims};
      const Geometry from = AccessOf(&c, place);
      Geometry to = from;
      to.offset = to.offset + Size(c.origin);
      builder_.Write(builder_.View(c.external, to),
                     builder_.View(c.whole, from));
    }
  }
}

}  // namespace tjit::lower
