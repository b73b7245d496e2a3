#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "support/text_cursor.h"

namespace tjit::ir {
namespace {

// Bounds what a short text can ask for.
constexpr std::size_t kMaxDims = 64;

class Parser {
 public:
  Parser(std::string_view text, Function* f) : c_(text), f_(*f) {}

  bool Run(std::string* error) {
    f_ = Function();
    if (Head()) {
      while (!c_.Try("}") && Statement()) {
      }
    }
    if (c_.ok() && !c_.AtEnd()) c_.Fail("expected the end of the text");
    *error = c_.error();
    return c_.ok();
  }

 private:
  bool Head() {
    std::string_view name;
    c_.SkipLines();
    if (!c_.Consume("func") || !c_.ConsumeName(&name) || !c_.Consume("("))
      return false;
    f_.name = std::string(name);
    while (!c_.Try(")")) {
      if (f_.symbols > 0 && !c_.Consume(",")) return false;
      if (f_.symbols == Size::kMaxSymbols) return c_.Fail("too many symbols");
      if (!c_.Consume(absl::StrCat("n", f_.symbols))) return false;
      ++f_.symbols;
    }
    return c_.Consume("{") && c_.ConsumeEndOfLine();
  }

  bool Statement() {
    const std::size_t start = c_.position();
    if (c_.Try("external")) return External(start);
    if (c_.Try("scalar")) return ScalarArgument();
    if (c_.Try("write")) return Write();
    if (c_.Try("return")) return Return();
    return Body();
  }

  bool External(std::size_t start) {
    if (!f_.body.empty()) {
      c_.set_position(start);
      return c_.Fail("an external after the first instruction");
    }
    Value value;
    if (!NextId("%", f_.values.size()) || !c_.Consume(":") || !Type(&value)) {
      return false;
    }
    f_.values.push_back(std::move(value));
    ++f_.externals;
    return c_.ConsumeEndOfLine();
  }

  bool ScalarArgument() {
    ScalarType type = ScalarType::kF64;
    if (!NextId("$", f_.scalars.size()) || !c_.Consume(":")) return false;
    if (c_.Try("i64")) {
      type = ScalarType::kI64;
    } else if (c_.Try("bool")) {
      type = ScalarType::kBool;
    } else if (!c_.Consume("f64")) {
      return false;
    }
    f_.scalars.push_back(type);
    return c_.ConsumeEndOfLine();
  }

  bool Write() {
    WriteBack write;
    if (!ParseOperand(&write.to) || !c_.Consume("=") ||
        !ParseOperand(&write.from)) {
      return false;
    }
    f_.writes.push_back(std::move(write));
    return c_.ConsumeEndOfLine();
  }

  bool Return() {
    do {
      ValueId id = kNoValue;
      if (!DefinedId(&id)) return false;
      f_.returns.push_back(id);
    } while (c_.Try(","));
    return c_.ConsumeEndOfLine();
  }

  // %2, %3 = op type, type attributes operands
  bool Body() {
    if (!f_.writes.empty() || !f_.returns.empty()) {
      return c_.Fail("an instruction after a write or return");
    }
    Instruction in;
    const std::size_t first = f_.values.size();
    if (c_.Sees("%")) {
      do {
        const std::size_t id = first + in.results.size();
        if (!NextId("%", id)) return false;
        in.results.push_back(static_cast<ValueId>(id));
      } while (c_.Try(","));
      if (!c_.Consume("=")) return false;
    }
    if (!ParseOp(&in.op)) return false;
    std::vector<Value> values(in.results.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((i > 0 && !c_.Consume(",")) || !Type(&values[i])) return false;
    }
    if (in.op == Op::kCall && !Callee(&in)) return false;
    if (!Operands(&in) || !Dims(&in) || !c_.ConsumeEndOfLine()) return false;
    for (Value& value : values) f_.values.push_back(std::move(value));
    f_.body.push_back(std::move(in));
    return true;
  }

  bool ParseOp(Op* op) {
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    std::string_view name;
    if (!c_.ConsumeName(&name)) return false;
    if (OpByName(name, op)) return true;
    c_.set_position(start);
    return c_.Fail("there is no op '" + std::string(name) + "'");
  }

  bool Callee(Instruction* in) {
    return c_.ConsumeQuoted(&in->callee) && c_.Consume("step=") &&
           c_.ConsumeInteger(&in->step);
  }

  bool Operands(Instruction* in) {
    if (c_.Sees("dims=") || c_.Sees(";") || c_.Sees("\n") || c_.Sees("\r")) {
      return true;
    }
    do {
      Operand operand;
      operand.written = c_.Try("!");
      if (!ParseOperand(&operand)) return false;
      in->operands.push_back(std::move(operand));
    } while (c_.Try(","));
    return true;
  }

  bool Dims(Instruction* in) {
    if (!c_.Try("dims=[")) return c_.ok();
    while (!c_.Try("]")) {
      std::int64_t dim = 0;
      if (!in->dims.empty() && !c_.Consume(",")) return false;
      if (!c_.ConsumeInteger(&dim)) return false;
      if (dim < 0 || dim >= kMaxIrDims) return c_.Fail("no such dim");
      if (in->dims.size() == kMaxDims) return c_.Fail("too many dims");
      in->dims.push_back(static_cast<int>(dim));
    }
    in->keepdim = c_.Try("keepdim");
    return true;
  }

  bool NextId(std::string_view mark, std::size_t id) {
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    std::int64_t number = 0;
    if (!c_.Consume(mark) || !c_.ConsumeInteger(&number)) return false;
    if (number == static_cast<std::int64_t>(id)) return true;
    c_.set_position(start);
    return c_.Fail(
        absl::StrCat("expected ", std::string(mark), id, ", the next one"));
  }

  bool DefinedId(ValueId* id) {
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    std::int64_t number = 0;
    if (!c_.Consume("%") || !c_.ConsumeInteger(&number)) return false;
    if (number < 0 || number >= static_cast<std::int64_t>(f_.values.size())) {
      c_.set_position(start);
      return c_.Fail(absl::StrCat("%", number, " is not defined"));
    }
    *id = static_cast<ValueId>(number);
    return true;
  }

  bool Type(Value* value) {
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    std::string_view name;
    if (!c_.ConsumeName(&name)) return false;
    if (!DTypeByName(name, &value->dtype)) {
      c_.set_position(start);
      return c_.Fail("there is no dtype '" + std::string(name) + "'");
    }
    return ParseGeometry(&value->layout);
  }

  bool ParseGeometry(Geometry* g) {
    if (!ParseSizes("[", "]", &g->sizes)) return false;
    g->strides = ContiguousStrides(g->sizes);
    if (c_.Sees("(") && !ParseSizes("(", ")", &g->strides)) return false;
    return !c_.Try("+") || ParseSize(&g->offset);
  }

  bool ParseSizes(std::string_view open, std::string_view close, Sizes* sizes) {
    sizes->clear();
    if (!c_.Consume(open)) return false;
    while (!c_.Try(close)) {
      Size size;
      if (!sizes->empty() && !c_.Consume(",")) return false;
      if (!ParseSize(&size)) return false;
      if (sizes->size() == kMaxDims) return c_.Fail("too many dims");
      sizes->push_back(std::move(size));
    }
    return true;
  }

  // term (+|- term)*
  bool ParseSize(Size* size) {
    *size = 0;
    bool is_negative = c_.Try("-");
    do {
      Size term = is_negative ? -1 : 1;
      do {
        Size factor;
        if (!Factor(&factor)) return false;
        term = term * factor;
      } while (c_.Try("*"));
      *size = *size + term;
      is_negative = c_.Sees("-");
    } while (c_.Try("+") || c_.Try("-"));
    return size->is_valid() || c_.Fail("a size that is too large");
  }

  bool Factor(Size* factor) {
    std::int64_t number = 0;
    c_.SkipBlanks();
    const std::size_t start = c_.position();
    const bool is_symbol = c_.Try("n");
    if (!c_.ConsumeInteger(&number)) return false;
    if (number < 0) return c_.Fail("expected a number without a sign");
    if (is_symbol && number >= f_.symbols) {
      c_.set_position(start);
      return c_.Fail(absl::StrCat("there is no symbol n", number));
    }
    *factor = is_symbol ? Size::Symbol(static_cast<int>(number)) : Size(number);
    return true;
  }

  bool ParseOperand(Operand* operand) {
    if (!c_.Sees("%")) return ParseScalar(&operand->scalar);
    ValueId id = kNoValue;
    if (!DefinedId(&id)) return false;
    operand->value = id;
    operand->access = f_.values[static_cast<std::size_t>(id)].layout;
    if (!c_.Sees("[")) return true;
    operand->access = Geometry();
    return ParseGeometry(&operand->access);
  }

  bool ParseScalar(Scalar* scalar) {
    if (c_.Try("$")) {
      std::int64_t index = 0;
      if (!c_.ConsumeInteger(&index)) return false;
      if (index < 0 || index >= static_cast<std::int64_t>(f_.scalars.size())) {
        return c_.Fail(absl::StrCat("there is no $", index));
      }
      scalar->argument = static_cast<std::int32_t>(index);
      scalar->type = f_.scalars[static_cast<std::size_t>(index)];
      return true;
    }
    if (c_.Try("true")) return Set(scalar, Constant(true));
    if (c_.Try("false")) return Set(scalar, Constant(false));
    if (c_.Try("nan")) {
      Scalar nan = Constant(0.0);
      nan.bits = 0x7ff8000000000000u;
      return (!c_.Try(":") || c_.ConsumeHex(&nan.bits)) && Set(scalar, nan);
    }
    return Number(scalar);
  }

  bool Number(Scalar* scalar) {
    c_.SkipBlanks();
    const std::string_view rest = c_.rest();
    const std::size_t end = rest.find_first_not_of("-0123456789");
    const bool is_double =
        end != std::string_view::npos && std::strchr(".ei", rest[end]);
    if (is_double) {
      double value = 0;
      return c_.ConsumeDouble(&value) && Set(scalar, Constant(value));
    }
    std::int64_t value = 0;
    return c_.ConsumeInteger(&value) && Set(scalar, Constant(value));
  }

  static bool Set(Scalar* scalar, const Scalar& value) {
    *scalar = value;
    return true;
  }

  TextCursor c_;
  Function& f_;
};

}  // namespace

bool Parse(std::string_view text, Function* function, std::string* error) {
  return Parser(text, function).Run(error);
}

}  // namespace tjit::ir
