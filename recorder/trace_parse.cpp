#include "recorder/trace_parse.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/geometry_pool.h"
#include "recorder/trace_text.h"
#include "support/printed_name.h"
#include "support/text_cursor.h"

namespace tjit {
namespace {

// Bytes of an element, in the order of c10::ScalarType.
constexpr std::uint8_t kItemsize[] = {1, 1, 2,  4, 8, 2, 4, 8,
                                      4, 8, 16, 1, 1, 1, 1, 2};

constexpr std::uint64_t kLong = 4, kDouble = 7, kComplexDouble = 10, kBool = 11;

std::uint64_t BitsOf(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

class Parser {
 public:
  Parser(std::string_view text, ParsedTrace* trace) : c_(text), t_(*trace) {}

  bool Run(std::string* error) {
    t_ = ParsedTrace();
    c_.SkipLines();
    bool is_right = !c_.Sees("trace") || Header();
    while (is_right && c_.Sees("s")) is_right = Slot();
    while (is_right && c_.Sees("%")) is_right = Step();
    if (is_right && !c_.AtEnd()) c_.Fail("expected a slot or a step");
    *error = c_.error();
    return c_.ok();
  }

 private:
  bool Header() {
    std::int64_t id = 0, ops = 0, slots = 0;
    t_.has_header = true;
    if (!c_.Consume("trace") || !Number(UINT32_MAX, &id) ||
        !c_.Consume("ops=") || !c_.ConsumeInteger(&ops) ||
        !c_.Consume("slots=") || !c_.ConsumeInteger(&slots) ||
        !c_.Consume("key=") || !c_.ConsumeHex(&t_.key_hash)) {
      return false;
    }
    t_.id = static_cast<std::uint32_t>(id);
    t_.starts_at_boundary = c_.Try("at_boundary");
    return c_.ConsumeEndOfLine();
  }

  // s2: born %0 512 bytes, s3: external place of s1 64 bytes
  bool Slot() {
    SlotRecord slot;
    if (!Next("s", t_.slots.size()) || !c_.Consume(":")) return false;
    if (c_.Try("external")) {
      std::int64_t first = 0;
      if (c_.Try("place of s")) {
        if (!Number(INT32_MAX, &first)) return false;
        slot.place_of = static_cast<std::int32_t>(first);
      }
    } else {
      std::int64_t step = 0;
      if (!c_.Consume("born %") || !Number(INT32_MAX, &step)) return false;
      slot.born_step = static_cast<std::int32_t>(step);
    }
    if (!c_.ConsumeUnsigned(&slot.bytes) || !c_.Consume("bytes")) return false;
    t_.slots.push_back(slot);
    std::string& name = t_.names.emplace_back();
    if (c_.Try("called") && !ConsumePrintedName(&c_, &name)) return false;
    return c_.ConsumeEndOfLine();
  }

  bool Step() {
    StepRecord step;
    std::string_view name;
    if (!Next("%", t_.steps.size())) return false;
    if (c_.Try("call ")) step.kind = StepKind::kAtCall;
    if (!c_.ConsumeName(&name) || !c_.Consume("(")) return false;
    while (!c_.Try(")")) {
      ArgRecord arg;
      if (!step.args.empty() && !c_.Consume(",")) return false;
      if (!Tensor(&arg.slot, &arg.written, &arg.geometry)) return false;
      step.args.push_back(arg);
    }
    if (!Statics(&step) || !Scalars(&step)) return false;
    if (c_.Try("@")) {
      std::uint64_t context = 0;
      if (!c_.ConsumeHex(&context)) return false;
      if (context > UINT32_MAX) return c_.Fail("a context over 32 bits");
      context_ = static_cast<std::uint32_t>(context);
    }
    step.context = context_;
    if (!Results(&step) || !c_.ConsumeEndOfLine()) return false;
    step.op = InternOp(name);
    t_.steps.push_back(std::move(step));
    return true;
  }

  // s0! f32[8,4](1,8)+16' ks=9, s0:weight f32[8,4], or -
  bool Tensor(std::int32_t* slot, bool* is_written, SharedGeometry* shared) {
    if (c_.Try("-")) return true;
    std::int64_t number = 0;
    if (!c_.Consume("s") || !Number(INT32_MAX, &number)) return false;
    *slot = static_cast<std::int32_t>(number);
    if (!SlotName(static_cast<std::size_t>(number))) return false;
    *is_written = c_.Try("!");
    return GeometryWithKeys(shared);
  }

  // That of the slot's line, if it has one.
  bool SlotName(std::size_t slot) {
    std::string name;
    if (c_.Try(":") && !ConsumePrintedName(&c_, &name)) return false;
    const std::string known = slot < t_.names.size() ? t_.names[slot] : "";
    if (name == known) return true;
    return c_.Fail(absl::StrCat(
        "slot ", slot, known.empty() ? " has no name" : " is called ",
        known.empty() ? "" : PrintedName(known), " in its line"));
  }

  bool GeometryWithKeys(SharedGeometry* shared) {
    TensorGeometry g;
    if (!Geometry(&g)) return false;
    if (c_.Try("ks=") && !c_.ConsumeHex(&key_set_)) return false;
    g.key_set = key_set_;
    *shared = geometries_.Share(g);
    return true;
  }

  bool Geometry(TensorGeometry* g) {
    std::string_view name;
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    if (!c_.ConsumeName(&name)) return false;
    if (!DtypeByName(name, &g->dtype)) {
      c_.set_position(start);
      return c_.Fail("there is no dtype '" + std::string(name) + "'");
    }
    g->itemsize =
        g->dtype < std::size(kItemsize) ? kItemsize[g->dtype] : std::uint8_t{1};
    int ndim = 0, strides = 0;
    if (!Dims("[", "]", g->sizes, &ndim)) return false;
    g->ndim = static_cast<std::uint8_t>(ndim);
    if (c_.Sees("(")) {
      if (!Dims("(", ")", g->strides, &strides)) return false;
      if (strides != ndim) {
        return c_.Fail(absl::StrCat(ndim, " sizes, ", strides, " strides"));
      }
    } else {
      std::uint64_t stride = 1;
      for (int d = ndim - 1; d >= 0; --d) {
        g->strides[d] = static_cast<std::int64_t>(stride);
        stride *= static_cast<std::uint64_t>(g->sizes[d] > 1 ? g->sizes[d] : 1);
      }
    }
    if (c_.Try("+") && !Number(INT64_MAX, &g->offset)) return false;
    g->wrapped_number = c_.Try("'");
    return true;
  }

  bool Dims(std::string_view open, std::string_view close, std::int64_t* dims,
            int* count) {
    if (!c_.Consume(open)) return false;
    while (!c_.Try(close)) {
      if (*count > 0 && !c_.Consume(",")) return false;
      if (*count == kMaxDims) return c_.Fail("too many dims");
      if (!Number(INT64_MAX, &dims[*count])) return false;
      ++*count;
    }
    return true;
  }

  bool Statics(StepRecord* step) {
    if (!c_.Try("<")) return c_.ok();
    do {
      std::uint64_t word = 0;
      if (!c_.ConsumeHex(&word)) return false;
      step->statics.push_back(word);
    } while (c_.Try(","));
    return c_.Consume(">");
  }

  bool Scalars(StepRecord* step) {
    if (!c_.Try("{")) return c_.ok();
    do {
      ScalarRecord s;
      std::int64_t value_class = 0;
      if (!Scalar(&s.value)) return false;
      s.runtime = c_.Try("*#");
      s.may_vary = s.runtime || c_.Try("~#");
      if (s.may_vary && !Number(UINT32_MAX, &value_class)) return false;
      s.value_class = static_cast<std::uint32_t>(value_class);
      step->scalars.push_back(s);
    } while (c_.Try(","));
    return c_.Consume("}");
  }

  // i:2, d:0.5, c:1-2i, b:true, t29:f,0
  bool Scalar(ScalarValue* value) {
    double real = 0, imaginary = 0;
    if (c_.Try("i:")) {
      std::int64_t number = 0;
      if (!c_.ConsumeInteger(&number)) return false;
      return Set(value, kLong, static_cast<std::uint64_t>(number), 0);
    }
    if (c_.Try("d:")) {
      return c_.ConsumeDouble(&real) && Set(value, kDouble, BitsOf(real), 0);
    }
    if (c_.Try("c:")) {
      if (!c_.ConsumeDouble(&real)) return false;
      if (!c_.Sees("-") && !c_.Consume("+")) return false;
      return c_.ConsumeDouble(&imaginary) && c_.Consume("i") &&
             Set(value, kComplexDouble, BitsOf(real), BitsOf(imaginary));
    }
    if (c_.Try("b:true")) return Set(value, kBool, 1, 0);
    if (c_.Try("b:false")) return Set(value, kBool, 0, 0);
    std::uint64_t type = 0, low = 0, high = 0;
    if (!c_.Consume("t") || !c_.ConsumeUnsigned(&type) || !c_.Consume(":") ||
        !c_.ConsumeHex(&low) || !c_.Consume(",") || !c_.ConsumeHex(&high)) {
      return false;
    }
    return Set(value, type, low, high);
  }

  static bool Set(ScalarValue* value, std::uint64_t type, std::uint64_t low,
                  std::uint64_t high) {
    *value = {type, {low, high}};
    return true;
  }

  bool Results(StepRecord* step) {
    if (!c_.Try("->")) return c_.ok();
    do {
      ResultRecord result;
      bool is_written = false;
      if (c_.Try("arg")) {
        std::int64_t arg = 0;
        if (!Number(INT32_MAX, &arg)) return false;
        result.kind = ResultRecord::Kind::kAlias;
        result.alias_arg = static_cast<std::int32_t>(arg);
      } else if (c_.Try("-")) {
        result.kind = ResultRecord::Kind::kUndefined;
      } else if (c_.Try("empty")) {
        result.kind = ResultRecord::Kind::kEmpty;
        if (!GeometryWithKeys(&result.geometry)) return false;
      } else if (!Tensor(&result.slot, &is_written, &result.geometry)) {
        return false;
      } else if (is_written) {
        return c_.Fail("a result that is written");
      }
      step->results.push_back(result);
    } while (c_.Try(","));
    return true;
  }

  // A number from 0 to `max`.
  bool Number(std::int64_t max, std::int64_t* value) {
    if (!c_.ConsumeInteger(value)) return false;
    if (*value >= 0 && *value <= max) return true;
    return c_.Fail(absl::StrCat("expected a number from 0 to ", max));
  }

  bool Next(std::string_view mark, std::size_t index) {
    std::int64_t number = 0;
    if (!c_.Consume(mark) || !Number(INT32_MAX, &number)) return false;
    if (number == static_cast<std::int64_t>(index)) return true;
    return c_.Fail(
        absl::StrCat("expected ", std::string(mark), index, ", the next one"));
  }

  TextCursor c_;
  ParsedTrace& t_;
  std::uint32_t context_ = 0;
  std::uint64_t key_set_ = 0;
  GeometryPool geometries_;
};

}  // namespace

std::vector<const StepRecord*> ParsedTrace::records() const {
  std::vector<const StepRecord*> records;
  records.reserve(steps.size());
  for (const StepRecord& step : steps) records.push_back(&step);
  return records;
}

std::string ToText(const ParsedTrace& trace) {
  std::string text;
  if (trace.has_header) {
    text =
        absl::StrFormat("trace %d ops=%d slots=%d key=%016x%s\n", trace.id,
                        trace.steps.size(), trace.slots.size(), trace.key_hash,
                        trace.starts_at_boundary ? " at_boundary" : "");
  }
  return text + ToText(trace.records(), trace.slots, trace.names);
}

bool ParseTrace(std::string_view text, ParsedTrace* trace, std::string* error) {
  return Parser(text, trace).Run(error);
}

}  // namespace tjit
