#include "recorder/trace_text.h"

#include <cstring>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/assert.h"
#include "support/printed_name.h"

namespace tjit {
namespace {

// In the order of c10::ScalarType; null: not a type of dense CPU tensors.
constexpr const char* kDtypes[] = {
    "u8",  "i8",  "i16",  "i32",   "i64",   "f16",   "f32",  "f64",
    "c32", "c64", "c128", "bool",  nullptr, nullptr, nullptr, "bf16"};

// c10::ScalarType of the kinds a c10::Scalar holds.
constexpr std::uint64_t kLong = 4, kDouble = 7, kComplexDouble = 10,
                        kBool = 11;

bool IsContiguous(const TensorGeometry& g) {
  std::int64_t expected = 1;
  for (int d = g.ndim - 1; d >= 0; --d) {
    if (g.strides[d] != expected) return false;
    expected *= g.sizes[d] > 1 ? g.sizes[d] : 1;
  }
  return true;
}

std::string Dims(const std::int64_t* dims, int count) {
  std::string text;
  for (int d = 0; d < count; ++d) {
    absl::StrAppend(&text, d == 0 ? "" : ",", dims[d]);
  }
  return text;
}

double AsDouble(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::string ValueText(const ScalarValue& value) {
  switch (value.type) {
    case kLong:
      return absl::StrCat("i:", static_cast<std::int64_t>(value.bits[0]));
    case kDouble: return absl::StrFormat("d:%.17g", AsDouble(value.bits[0]));
    case kComplexDouble:
      return absl::StrFormat("c:%.17g%+.17gi", AsDouble(value.bits[0]),
                             AsDouble(value.bits[1]));
    case kBool: return value.bits[0] != 0 ? "b:true" : "b:false";
    default:
      return absl::StrFormat("t%d:%x,%x", value.type, value.bits[0],
                             value.bits[1]);
  }
}

class Printer {
 public:
  explicit Printer(const std::vector<std::string>& names) : names_(names) {}

  std::string Print(const std::vector<const StepRecord*>& steps,
                    const std::vector<SlotRecord>& slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      absl::StrAppend(&text_, "  s", i, ": ");
      if (slots[i].born_step < 0) {
        absl::StrAppend(&text_, "external ");
        if (slots[i].is_place()) {
          absl::StrAppend(&text_, "place of s", slots[i].place_of, " ");
        }
      } else {
        absl::StrAppend(&text_, "born %", slots[i].born_step, " ");
      }
      absl::StrAppend(&text_, slots[i].bytes, " bytes", NameOf(i, " called "),
                      "\n");
    }
    for (std::size_t i = 0; i < steps.size(); ++i) AddStep(i, *steps[i]);
    return std::move(text_);
  }

 private:
  // With `before` in front; "" of a slot without one.
  std::string NameOf(std::size_t slot, const char* before) const {
    if (slot >= names_.size() || names_[slot].empty()) return "";
    return absl::StrCat(before, PrintedName(names_[slot]));
  }

  void AddStep(std::size_t index, const StepRecord& step) {
    absl::StrAppend(&text_, "  %", index, " ",
                    step.kind == StepKind::kAtCall ? "call " : "",
                    std::string(OpName(step.op)), "(");
    for (std::size_t i = 0; i < step.args.size(); ++i) {
      if (i != 0) absl::StrAppend(&text_, ", ");
      AddTensor(step.args[i].slot, step.args[i].written,
                step.args[i].geometry);
    }
    absl::StrAppend(&text_, ")");
    AddStatics(step);
    AddScalars(step);
    if (step.context != context_) {
      absl::StrAppend(&text_, " @", absl::Hex(step.context));
      context_ = step.context;
    }
    AddResults(step);
    absl::StrAppend(&text_, "\n");
  }

  void AddTensor(std::int32_t slot, bool is_written,
                 const TensorGeometry& geometry) {
    if (slot == kNoSlot) {
      absl::StrAppend(&text_, "-");
      return;
    }
    absl::StrAppend(&text_, "s", slot,
                    NameOf(static_cast<std::size_t>(slot), ":"),
                    is_written ? "! " : " ");
    AddGeometry(geometry);
  }

  void AddGeometry(const TensorGeometry& geometry) {
    absl::StrAppend(&text_, ToText(geometry));
    if (geometry.key_set != key_set_) {
      absl::StrAppend(&text_, " ks=", absl::Hex(geometry.key_set));
      key_set_ = geometry.key_set;
    }
  }

  void AddStatics(const StepRecord& step) {
    if (step.statics.empty()) return;
    const char* before = " <";
    for (const std::uint64_t word : step.statics) {
      absl::StrAppend(&text_, before, absl::Hex(word));
      before = ",";
    }
    absl::StrAppend(&text_, ">");
  }

  void AddScalars(const StepRecord& step) {
    if (step.scalars.empty()) return;
    const char* before = " {";
    for (const ScalarRecord& s : step.scalars) {
      absl::StrAppend(&text_, before, ValueText(s.value));
      if (s.may_vary) {
        absl::StrAppend(&text_, s.IsRuntime() ? "*#" : "~#", s.value_class);
      }
      before = ", ";
    }
    absl::StrAppend(&text_, "}");
  }

  void AddResults(const StepRecord& step) {
    const char* before = " -> ";
    for (const ResultRecord& r : step.results) {
      absl::StrAppend(&text_, before);
      before = ", ";
      switch (r.kind) {
        case ResultRecord::Kind::kFresh:
          AddTensor(r.slot, false, r.geometry);
          break;
        case ResultRecord::Kind::kAlias:
          absl::StrAppend(&text_, "arg ", r.alias_arg);
          break;
        case ResultRecord::Kind::kUndefined:
          absl::StrAppend(&text_, "-");
          break;
        case ResultRecord::Kind::kEmpty:
          absl::StrAppend(&text_, "empty ");
          AddGeometry(r.geometry);
          break;
      }
    }
  }

  const std::vector<std::string>& names_;
  std::string text_;
  std::uint32_t context_ = 0;
  std::uint64_t key_set_ = 0;
};

}  // namespace

std::string DtypeName(std::uint8_t dtype) {
  if (dtype < std::size(kDtypes) && kDtypes[dtype] != nullptr) {
    return kDtypes[dtype];
  }
  return absl::StrCat("t", dtype);
}

bool DtypeByName(std::string_view name, std::uint8_t* dtype) {
  for (std::size_t i = 0; i < std::size(kDtypes); ++i) {
    if (kDtypes[i] == nullptr || name != kDtypes[i]) continue;
    *dtype = static_cast<std::uint8_t>(i);
    return true;
  }
  int number = -1;
  if (name.substr(0, 1) != "t" ||
      !absl::SimpleAtoi(std::string(name.substr(1)), &number) || number < 0 ||
      number > 255 || DtypeName(static_cast<std::uint8_t>(number)) != name) {
    return false;
  }
  *dtype = static_cast<std::uint8_t>(number);
  return true;
}

std::string PlainText(const ScalarValue& value) {
  if (value.type == kDouble) return absl::StrCat(AsDouble(value.bits[0]));
  const std::string text = ValueText(value);
  return text.substr(text.find(':') + 1);
}

std::string ToText(const TensorGeometry& g) {
  std::string text =
      absl::StrCat(DtypeName(g.dtype), "[", Dims(g.sizes, g.ndim), "]");
  if (!IsContiguous(g)) {
    absl::StrAppend(&text, "(", Dims(g.strides, g.ndim), ")");
  }
  if (g.offset != 0) absl::StrAppend(&text, "+", g.offset);
  if (g.wrapped_number) absl::StrAppend(&text, "'");
  return text;
}

std::string ToText(const std::vector<const StepRecord*>& steps,
                   const std::vector<SlotRecord>& slots,
                   const std::vector<std::string>& names) {
  return Printer(names).Print(steps, slots);
}

std::string ToText(const Trace& trace,
                   const std::vector<const TraceNode*>& path) {
  TJIT_ASSERT(!path.empty() && path.back()->ends.load() == &trace);
  const std::vector<SlotRecord> slots = SlotsOf(path);
  return absl::StrFormat("trace %d ops=%d slots=%d key=%016x%s\n", trace.id,
                         path.size(), slots.size(), trace.key.hash,
                         trace.starts_at_boundary ? " at_boundary" : "") +
         ToText(StepsOf(path), slots);
}

std::vector<const StepRecord*> StepsOf(
    const std::vector<const TraceNode*>& path) {
  std::vector<const StepRecord*> steps;
  steps.reserve(path.size());
  for (const TraceNode* node : path) steps.push_back(&node->step);
  return steps;
}

std::vector<SlotRecord> SlotsOf(const std::vector<const TraceNode*>& path) {
  std::vector<SlotRecord> slots;
  for (const TraceNode* node : path) {
    slots.insert(slots.end(), node->new_slots.begin(), node->new_slots.end());
  }
  return slots;
}

}  // namespace tjit
