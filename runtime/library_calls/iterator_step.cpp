#include "runtime/library_calls/iterator_step.h"

namespace tjit::runtime {

bool IteratorPatches::Plan(const at::TensorIteratorBase& it,
                           const Request& request, int scalar) {
  int wrapped = 0;
  for (int i = 0; i < it.ntensors(); ++i) {
    const at::OperandInfo& op = it.operand(i);
    const at::TensorBase& tensor = op.tensor_base();
    const std::int32_t slot =
        request.SlotOf(tensor.storage().unsafeGetStorageImpl());
    if (slot != kNoSlot) {
      const auto* base = static_cast<const char*>(tensor.storage().data());
      const auto* data = static_cast<const char*>(it.data_ptr(i));
      direct_.push_back({i, slot, data - base});
      continue;
    }
    const at::TensorBase& original = op.original_tensor_base();
    const std::int32_t from_slot =
        original.defined()
            ? request.SlotOf(original.storage().unsafeGetStorageImpl())
            : kNoSlot;
    if (from_slot == kNoSlot && scalar == kConstant) continue;
    if (op.is_output || tensor.numel() != 1) return false;
    Converted c{i, from_slot, 0, c10::ScalarType::Undefined, op.current_dtype};
    if (from_slot != kNoSlot) {
      c.byte_offset = original.storage_offset() *
                      static_cast<std::int64_t>(original.itemsize());
      c.from = original.scalar_type();
    } else {
      if (scalar == kNone || ++wrapped > 1) return false;
      const ScalarValue& now = request.step.scalars[scalar].value;
      if (IsNoScalar(now)) return false;
      c.byte_offset = scalar;
      c.from = static_cast<c10::ScalarType>(now.type);
    }
    // Of types that cannot be converted the number would never be there.
    std::uint64_t zero[2] = {}, ignored[2];
    if (!ConvertElement(c.from, zero, c.to, ignored)) return false;
    converted_.push_back(c);
  }
  return true;
}

void IteratorPatches::Convert(const at::TensorIteratorBase& it,
                              char* const* slots,
                              const ScalarValue* scalars) const {
  for (const Converted& c : converted_) {
    const void* source =
        c.slot == kNoSlot
            ? static_cast<const void*>(scalars[c.byte_offset].bits)
            : slots[c.slot] + c.byte_offset;
    ConvertElement(c.from, source, c.to, it.data_ptr(c.operand));
  }
}

std::string KindOf(const at::TensorIteratorBase& it, const Request& request) {
  std::string kind;
  for (int i = 0; i < it.ntensors(); ++i) {
    const at::OperandInfo& op = it.operand(i);
    kind.push_back(static_cast<char>(op.target_dtype));
    kind.push_back(static_cast<char>(op.current_dtype));
    kind.push_back(static_cast<char>(int{it.is_scalar(i)} |
                                     int{op.is_output} << 1 |
                                     int{op.is_read_write} << 2));
  }
  for (const std::uint64_t word : request.step.statics) {
    kind.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return kind;
}

IteratorShape::IteratorShape(const at::TensorIteratorBase& it) {
  Collect(it, &words_);
}

bool IteratorShape::IsUnchanged(const at::TensorIteratorBase& it) const {
  c10::SmallVector<std::int64_t, 24> now;
  Collect(it, &now);
  return now == words_;
}

void IteratorShape::Collect(const at::TensorIteratorBase& it,
                            c10::SmallVector<std::int64_t, 24>* words) {
  words->push_back(it.ntensors());
  words->append(it.shape().begin(), it.shape().end());
  for (int i = 0; i < it.ntensors(); ++i) {
    const at::OperandInfo& op = it.operand(i);
    words->append(op.stride_bytes.begin(), op.stride_bytes.end());
    words->push_back(reinterpret_cast<std::intptr_t>(op.data));
    words->push_back(reinterpret_cast<std::intptr_t>(
        op.tensor_base().unsafeGetTensorImpl()));
    words->push_back(static_cast<std::int64_t>(op.current_dtype));
  }
}

}  // namespace tjit::runtime
