// The table of factories, and what all kinds of steps share.
#include "runtime/library_calls/library_call.h"

#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/function_schema.h>
#include <c10/core/DynamicCast.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "runtime/call/call_frame.h"
#include "runtime/library_calls/internal.h"

namespace tjit::runtime {
namespace {

constexpr std::uint64_t kAlignment = 64;

// Pages of zeros; those that are only read take no memory. Null: there are
// none.
char* MapZeros(std::uint64_t bytes) {
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

// So many bytes of zeros that nobody writes; null: there are none. Of larger
// tensors a run takes longer than to map them, and a process that locks its
// memory has all of these.
char* SharedAddresses(std::uint64_t bytes) {
  constexpr std::size_t kAll = std::size_t{4} << 20;
  static char* const all = MapZeros(kAll);
  return bytes > kAll ? nullptr : all;
}

using FactoryMap = std::unordered_map<std::string_view, Factory>;

FactoryMap MakeFactories() {
  FactoryMap map;
  for (c10::ArrayRef<FactoryRow> rows :
       {BinaryRows(), ComplexRows(), CopyRows(), FftRows(), IndexRows(),
        MatmulRows(), NnRows(), ReduceRows(), UnaryRows()}) {
    for (const FactoryRow& row : rows) {
      const bool is_new = map.emplace(row.name, row.factory).second;
      TORCH_INTERNAL_ASSERT(is_new, "two factories for ", row.name);
    }
  }
  return map;
}

Factory FactoryFor(const std::string& name) {
  // Never destroyed: objects that outlive it may run ops.
  static const auto& map = *new FactoryMap(MakeFactories());
  const auto it = map.find(name);
  return it == map.end() ? nullptr : it->second;
}

// Hands out recorded tensors and scalars in schema order.
struct Refill {
  const std::vector<at::Tensor>& tensors;
  const ScalarValue* scalars;
  std::size_t next_tensor = 0;
  std::size_t next_scalar = 0;

  void One(const c10::Type& type, c10::IValue* value);
  void List(const c10::Type& element, c10::IValue* value);
};

void Refill::One(const c10::Type& type, c10::IValue* value) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return One(*type.castRaw<c10::OptionalType>()->getElementType(), value);
    case c10::TypeKind::ListType:
      if (value->isNone()) return;
      return List(*type.castRaw<c10::ListType>()->getElementType(), value);
    case c10::TypeKind::TensorType: {
      const at::Tensor& t = tensors[next_tensor++];
      if (t.defined()) *value = t;
      return;
    }
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType: {
      const ScalarValue* now = scalars ? scalars + next_scalar : nullptr;
      ++next_scalar;
      if (now == nullptr || IsNoScalar(*now)) return;
      const at::Scalar s = DecodeScalar(*now);
      if (type.kind() == c10::TypeKind::FloatType) {
        *value = s.toDouble();
      } else {
        *value = s;
      }
      return;
    }
    default:
      return;
  }
}

void Refill::List(const c10::Type& element, c10::IValue* value) {
  if (element.kind() == c10::TypeKind::TensorType) {
    const std::size_t count = value->toListRef().size();
    c10::List<at::Tensor> list;
    list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back(tensors[next_tensor++]);
    }
    *value = std::move(list);
  } else if (element.kind() == c10::TypeKind::OptionalType) {
    const std::size_t count = value->toListRef().size();
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const at::Tensor& t = tensors[next_tensor++];
      list.push_back(t.defined() ? std::make_optional(t) : std::nullopt);
    }
    *value = std::move(list);
  } else if (element.kind() == c10::TypeKind::NumberType) {
    const std::size_t count = value->toListRef().size();
    c10::impl::GenericList list(c10::NumberType::get());
    for (std::size_t i = 0; i < count; ++i) {
      c10::IValue one = value->toListRef()[i];
      One(element, &one);
      list.push_back(std::move(one));
    }
    *value = std::move(list);
  }
}

}  // namespace

torch::jit::Stack FillArguments(const CapturedCall& call,
                                const std::vector<at::Tensor>& tensors,
                                const ScalarValue* scalars) {
  torch::jit::Stack stack = call.arguments;
  Refill refill{tensors, scalars};
  const auto& arguments = call.entry->handle.schema().arguments();
  for (std::size_t i = 0; i < stack.size(); ++i) {
    refill.One(*arguments[i].real_type(), &stack[i]);
  }
  TORCH_INTERNAL_ASSERT(refill.next_tensor == tensors.size(), call.entry->name,
                        ": tensor arguments do not match");
  return stack;
}

bool ConvertElement(c10::ScalarType from, const void* source,
                    c10::ScalarType to, void* target) {
  if (c10::isComplexType(from) || c10::isComplexType(to)) return false;
  switch (to) {
#define TJIT_CONVERT(type, name)                                           \
  case c10::ScalarType::name:                                              \
    *static_cast<type*>(target) = c10::fetch_and_cast<type>(from, source); \
    return true;
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, TJIT_CONVERT)
    TJIT_CONVERT(std::uint16_t, UInt16)
    TJIT_CONVERT(std::uint32_t, UInt32)
    TJIT_CONVERT(std::uint64_t, UInt64)
#undef TJIT_CONVERT
    default:
      return false;
  }
}

Request::Request(const StepRecord& s, const CapturedCall& c,
                 const std::vector<std::uint64_t>& bytes, ExecutorTensors* t,
                 Trials* trials)
    : step(s), call(c), slot_bytes(bytes), tensors(t), trials(trials) {
  args.reserve(step.args.size());
  for (const ArgRecord& arg : step.args) {
    args.push_back(arg.slot == kNoSlot
                       ? at::Tensor()
                       : t->Make(arg.slot, bytes[arg.slot], arg.geometry));
  }
  for (const ResultRecord& r : step.results) {
    switch (r.kind) {
      case ResultRecord::Kind::kFresh:
        results.push_back(t->Make(r.slot, bytes[r.slot], r.geometry));
        break;
      case ResultRecord::Kind::kAlias:
        results.push_back(args[r.alias_arg]);
        break;
      case ResultRecord::Kind::kUndefined:
      case ResultRecord::Kind::kEmpty:  // only boxed steps have some
        results.emplace_back();
        break;
    }
  }
}

SlotAddress Request::result_address(std::size_t i) const {
  const ResultRecord& r = step.results[i];
  if (r.kind == ResultRecord::Kind::kAlias) return arg_address(r.alias_arg);
  return AddressOf(r.slot, r.geometry);
}

std::int32_t Request::SlotOf(const c10::StorageImpl* storage) const {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].defined() &&
        args[i].storage().unsafeGetStorageImpl() == storage) {
      return step.args[i].slot;
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() &&
        results[i].storage().unsafeGetStorageImpl() == storage) {
      return result_address(i).slot;
    }
  }
  return kNoSlot;
}

std::vector<std::int32_t> Request::slots() const {
  std::vector<std::int32_t> found;
  for (const ArgRecord& a : step.args) found.push_back(a.slot);
  for (const ResultRecord& r : step.results) {
    if (r.kind == ResultRecord::Kind::kFresh) found.push_back(r.slot);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (!found.empty() && found.front() == kNoSlot) found.erase(found.begin());
  return found;
}

std::vector<ByteRange> RangesOf(const Request& request) {
  std::vector<ByteRange> ranges;
  const auto add = [&](const at::Tensor& tensor, const SlotAddress& first) {
    ranges.push_back(
        {first, at::detail::computeStorageNbytes(
                    tensor.sizes(), tensor.strides(), tensor.itemsize())});
  };
  for (std::size_t i = 0; i < request.results.size(); ++i) {
    if (request.results[i].defined()) {
      add(request.results[i], request.result_address(i));
    }
  }
  for (std::size_t i = 0; i < request.args.size(); ++i) {
    if (request.args[i].defined()) add(request.args[i], request.arg_address(i));
  }
  return ranges;
}

bool IsPlain(const StepRecord& step) {
  const auto is_plain = [](const TensorGeometry& g) {
    const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, g.key_set);
    return !keys.has(c10::DispatchKey::Conjugate) &&
           !keys.has(c10::DispatchKey::Negative);
  };
  for (const ArgRecord& a : step.args) {
    if (a.slot == kNoSlot) continue;
    if (a.geometry->numel() == 0 || !is_plain(a.geometry)) return false;
  }
  // Some results may be empty (the statistics of batch norm in evaluation).
  bool is_all_empty = true;
  for (const ResultRecord& r : step.results) {
    if (r.kind == ResultRecord::Kind::kEmpty) return false;
    if (r.kind == ResultRecord::Kind::kAlias) is_all_empty = false;
    if (r.kind != ResultRecord::Kind::kFresh) continue;
    if (!is_plain(r.geometry)) return false;
    if (r.geometry->numel() > 0) is_all_empty = false;
  }
  return !is_all_empty;
}

DummyMemory::DummyMemory(const Request& request, Use use)
    : tensors_(request.tensors) {
  const std::vector<std::int32_t> used = request.slots();
  std::vector<std::uint64_t> offsets;
  for (std::int32_t s : used) {
    offsets.push_back(bytes_);
    bytes_ +=
        (request.slot_bytes[s] + kAlignment - 1) / kAlignment * kAlignment +
        kAlignment;
  }
  if (bytes_ == 0) return;
  if (use == Use::kAddresses) memory_ = SharedAddresses(bytes_);
  is_owner_ = memory_ == nullptr;
  if (is_owner_) memory_ = NewMemory();
  slots_.assign(static_cast<std::size_t>(used.back()) + 1, nullptr);
  for (std::size_t i = 0; i < used.size(); ++i) {
    slots_[used[i]] = memory_ + offsets[i];
    former_.emplace_back(used[i], tensors_->data_of(used[i]));
    tensors_->Bind(used[i], slots_[used[i]]);
  }
}

const char* AddressesOfAll() { return SharedAddresses(1); }

char* DummyMemory::NewMemory() const {
  void* const memory =
      is_mapped() ? MapZeros(bytes_) : std::aligned_alloc(kAlignment, bytes_);
  TORCH_CHECK(memory != nullptr, "out of memory");
  if (!is_mapped()) std::memset(memory, 1, bytes_);
  return static_cast<char*>(memory);
}

void DummyMemory::FillWithOnes(const Request& request) const {
  if (!is_mapped()) return;  // it is
  for (const ByteRange& range : RangesOf(request)) {
    std::memset(range.first.In(slots()), 1, range.bytes);
  }
}

DummyMemory::~DummyMemory() {
  for (const auto& [slot, data] : former_) tensors_->Bind(slot, data);
  if (memory_ == nullptr || !is_owner_) return;
  if (!is_mapped()) {
    std::free(memory_);
  } else {
    ::munmap(memory_, bytes_);
  }
}

std::unique_ptr<PreparedStep> PrepareStep(
    const StepRecord& step, const CapturedCall& call,
    const std::vector<std::uint64_t>& slot_bytes, ExecutorTensors* tensors,
    Trials* trials) {
  TORCH_INTERNAL_ASSERT(step.kind == StepKind::kDeferred);
  const Factory factory = FactoryFor(call.entry->name);
  if (factory != nullptr && IsPlain(step)) {
    const Request request(step, call, slot_bytes, tensors, trials);
    if (std::unique_ptr<PreparedStep> prepared = factory(request)) {
      return prepared;
    }
  }
  return PrepareBoxed(step, call, slot_bytes, tensors);
}

}  // namespace tjit::runtime
