#include "compiler/ir/run_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::ir {
namespace {

std::uint8_t NumberOf(ScalarType type) {
  switch (type) {
    case ScalarType::kI64:
      return InfoOf(DType::kI64).number;
    case ScalarType::kF64:
      return InfoOf(DType::kF64).number;
    case ScalarType::kBool:
      return InfoOf(DType::kBool).number;
  }
  return 0;
}

}  // namespace

// Where the elements of a geometry lie, in row-major order.
std::vector<std::int64_t> OffsetsOf(const Extents& e) {
  const std::size_t ndim = e.sizes.size();
  std::vector<std::int64_t> offsets;
  const std::int64_t n = e.numel();
  offsets.reserve(static_cast<std::size_t>(n));
  std::vector<std::int64_t> index(ndim, 0);
  std::int64_t offset = e.offset;
  for (std::int64_t i = 0; i < n; ++i) {
    offsets.push_back(offset);
    for (std::size_t d = ndim; d-- > 0;) {
      offset += e.strides[d];
      if (++index[d] < e.sizes[d]) break;
      offset -= e.strides[d] * e.sizes[d];
      index[d] = 0;
    }
  }
  return offsets;
}

std::int64_t Extents::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) {
    if (size == 0) return 0;
    n *= size;
  }
  return n;
}

bool RunMemory::Fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
  return false;
}

bool RunMemory::Fail(ValueId id, const std::string& what) {
  return Fail(absl::StrCat("%", id, ": ", what));
}

ScalarValue RunMemory::ScalarOf(const Scalar& scalar) const {
  if (!scalar.is_constant()) {
    return arguments_.scalars[static_cast<std::size_t>(scalar.argument)];
  }
  ScalarValue value;
  value.bits[0] = scalar.bits;
  value.type = NumberOf(scalar.type);
  return value;
}

bool RunMemory::Bind() {
  if (arguments_.symbols.size() != static_cast<std::size_t>(f_.symbols) ||
      arguments_.externals.size() != static_cast<std::size_t>(f_.externals) ||
      arguments_.scalars.size() != f_.scalars.size() ||
      arguments_.returns.size() != f_.returns.size()) {
    return Fail("not the arguments of this function");
  }
  for (const std::int64_t symbol : arguments_.symbols) {
    if (symbol < 0) return Fail("a symbol is negative");
  }
  for (std::size_t i = 0; i < f_.scalars.size(); ++i) {
    if (arguments_.scalars[i].type == NumberOf(f_.scalars[i])) continue;
    return Fail(absl::StrCat("$", i, " is not ", Name(f_.scalars[i])));
  }
  memory_.resize(f_.values.size());
  for (ValueId id = 0; id < f_.externals; ++id) {
    const Buffer& buffer = arguments_.externals[static_cast<std::size_t>(id)];
    Extents extents;
    if (!Evaluate(id, ValueOf(id).layout, &extents)) return false;
    if (buffer.elements != extents.numel()) {
      return Fail(id, absl::StrCat("has ", buffer.elements, " elements, not ",
                                   extents.numel()));
    }
    MemoryOf(id).data = buffer.data;
    MemoryOf(id).elements = buffer.elements;
  }
  return true;
}

bool RunMemory::Evaluate(ValueId id, const Geometry& g, Extents* extents) {
  const auto number = [&](const Size& size, std::int64_t* value) {
    const std::optional<std::int64_t> n = size.Evaluate(arguments_.symbols);
    if (!n || *n < 0) {
      return Fail(id, absl::StrCat(size.ToText(),
                                   " is negative or too "
                                   "large"));
    }
    *value = *n;
    return true;
  };
  const std::size_t ndim = g.sizes.size();
  extents->sizes.resize(ndim);
  extents->strides.resize(ndim);
  if (!number(g.offset, &extents->offset)) return false;
  std::int64_t n = 1;
  for (std::size_t d = 0; d < ndim; ++d) {
    if (!number(g.sizes[d], &extents->sizes[d]) ||
        !number(g.strides[d], &extents->strides[d])) {
      return false;
    }
    // A size of 0 counts as 1: parts of an empty tensor are walked too.
    const std::int64_t size = std::max<std::int64_t>(1, extents->sizes[d]);
    if (__builtin_mul_overflow(n, size, &n) || n > hooks_.max_elements) {
      return Fail(id, "has too many elements");
    }
  }
  return true;
}

bool RunMemory::Access(const Operand& operand, Extents* extents) {
  if (!Evaluate(operand.value, operand.access, extents)) return false;
  if (extents->numel() == 0) return true;
  std::int64_t last = extents->offset;
  for (std::size_t d = 0; d < extents->sizes.size(); ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(extents->sizes[d] - 1, extents->strides[d],
                               &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return Fail(operand.value, "an access reaches too far");
    }
  }
  if (last < MemoryOf(operand.value).elements) return true;
  return Fail(operand.value,
              absl::StrCat("an access reaches element ", last, " of ",
                           MemoryOf(operand.value).elements));
}

bool RunMemory::Allocate(ValueId id, Extents* extents) {
  if (!Evaluate(id, ValueOf(id).layout, extents)) return false;
  Memory& memory = MemoryOf(id);
  memory.elements = extents->numel();
  memory.own.resize(static_cast<std::size_t>(memory.elements) *
                    InfoOf(ValueOf(id).dtype).bytes);
  memory.data = memory.own.data();
  return true;
}

bool RunMemory::GatherBytes(const Operand& operand, std::vector<char>* bytes) {
  Extents extents;
  if (!Access(operand, &extents)) return false;
  const int item = InfoOf(ValueOf(operand.value).dtype).bytes;
  for (const std::int64_t at : OffsetsOf(extents)) {
    const char* from = MemoryOf(operand.value).data + at * item;
    bytes->insert(bytes->end(), from, from + item);
  }
  return true;
}

bool RunMemory::Scatter(const Operand& to, const std::vector<char>& bytes,
                        char* data) {
  Extents extents;
  if (!Access(to, &extents)) return false;
  const auto item =
      static_cast<std::size_t>(InfoOf(ValueOf(to.value).dtype).bytes);
  const std::vector<std::int64_t> offsets = OffsetsOf(extents);
  if (offsets.size() * item != bytes.size()) {
    return Fail(to.value, "is written with another number of elements");
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    std::memcpy(data + offsets[i] * static_cast<std::int64_t>(item),
                bytes.data() + i * item, item);
  }
  return true;
}

void RunMemory::Finish() {
  std::vector<std::vector<char>> writes(f_.writes.size());
  std::vector<std::vector<char>> returns;
  Extents unused;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (!GatherBytes(f_.writes[i].from, &writes[i]) ||
        !Access(f_.writes[i].to, &unused)) {
      return;
    }
  }
  for (std::size_t i = 0; i < f_.returns.size(); ++i) {
    const Memory& memory = MemoryOf(f_.returns[i]);
    if (arguments_.returns[i].elements != memory.elements) {
      Fail(f_.returns[i], "is returned into another number of elements");
      return;
    }
    const int item = InfoOf(ValueOf(f_.returns[i]).dtype).bytes;
    returns.emplace_back(memory.data, memory.data + memory.elements * item);
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    Scatter(f_.writes[i].to, writes[i], MemoryOf(f_.writes[i].to.value).data);
  }
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (returns[i].empty()) continue;
    std::memcpy(arguments_.returns[i].data, returns[i].data(),
                returns[i].size());
  }
}

}  // namespace tjit::ir
