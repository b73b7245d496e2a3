#include "compiler/ir/verifier.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/rules.h"

namespace tjit::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Function& f) : f_(f) {}

  std::vector<std::string> Run() {
    if (f_.body.size() > kMaxInstructions) {
      Report("function", 13,
             absl::StrCat("has ", f_.body.size(), " instructions"));
      return std::move(violations_);
    }
    CheckExternals();
    for (const Instruction& in : f_.body) CheckInstruction(in);
    if (defined_ != f_.values.size()) {
      Report("function", 1,
             absl::StrCat("defines ", defined_, " of ", f_.values.size(),
                          " values"));
    }
    for (std::size_t i = 0; i < f_.writes.size(); ++i) {
      CheckWrite(absl::StrCat("write ", i), f_.writes[i]);
    }
    for (const ValueId id : f_.returns) {
      if (!IsDefined(id)) {
        Report("return", 2, absl::StrCat("%", id, " is not defined"));
      }
    }
    return std::move(violations_);
  }

 private:
  void Report(const std::string& where, int rule, const std::string& what) {
    violations_.push_back(absl::StrCat(where, " (rule ", rule, "): ", what));
  }

  bool IsDefined(ValueId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < defined_;
  }
  const Value& ValueOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }

  void CheckExternals() {
    const bool is_possible =
        f_.externals >= 0 &&
        static_cast<std::size_t>(f_.externals) <= f_.values.size() &&
        f_.symbols >= 0 && f_.symbols <= Size::kMaxSymbols;
    if (!is_possible) {
      Report("function", 1,
             absl::StrCat("has ", f_.externals, " externals and ", f_.symbols,
                          " symbols"));
      return;
    }
    for (ValueId id = 0; id < f_.externals; ++id) {
      const std::string where = absl::StrCat("%", id);
      CheckValue(where, ValueOf(id));
      const Geometry& layout = ValueOf(id).layout;
      if (layout.sizes.size() != 1 || layout != Contiguous(layout.sizes)) {
        Report(where, 3, "an external is not flat");
      }
    }
    defined_ = static_cast<std::size_t>(f_.externals);
  }

  // Rules 3 to 5 for the value itself.
  void CheckValue(const std::string& where, const Value& value) {
    if (value.dtype >= DType::kCount) Report(where, 8, "has no dtype");
    if (!CheckGeometry(where, value.layout)) return;
    if (value.layout.offset != Size(0) || !IsDense(value.layout)) {
      Report(where, 3,
             absl::StrCat("does not lie densely: [", ToText(value.layout.sizes),
                          "](", ToText(value.layout.strides), ")"));
    }
  }

  // True if the strides are those of row-major order after some permutation
  // of the dims. Dims of size 1 may have any place.
  static bool IsDense(const Geometry& layout) {
    if (layout.strides == ContiguousStrides(layout.sizes)) return true;
    std::vector<std::size_t> left;
    for (std::size_t d = 0; d < layout.sizes.size(); ++d) left.push_back(d);
    Size expected = 1;
    while (!left.empty()) {
      auto next = left.end();
      for (auto d = left.begin(); d != left.end(); ++d) {
        if (layout.strides[*d] != expected) continue;
        if (next == left.end() || layout.sizes[*d] == Size(1)) next = d;
      }
      if (next == left.end()) return false;
      const Size& size = layout.sizes[*next];
      if (size != Size(0)) expected = expected * size;
      left.erase(next);
    }
    return true;
  }

  bool CheckSize(const std::string& where, const char* what, const Size& size) {
    if (!size.is_valid() || size.max_symbol() >= f_.symbols) {
      Report(where, 4,
             absl::StrCat(what, " ", size.ToText(),
                          " is not over the symbols of the "
                          "function"));
      return false;
    }
    if (size.is_constant() && size.constant() < 0) {
      Report(where, 4, absl::StrCat(what, " ", size.ToText(), " is negative"));
      return false;
    }
    return true;
  }

  bool CheckGeometry(const std::string& where, const Geometry& g) {
    if (g.sizes.size() != g.strides.size() || g.sizes.size() > kMaxIrDims) {
      Report(where, 5,
             absl::StrCat("has ", g.sizes.size(), " sizes and ",
                          g.strides.size(), " strides"));
      return false;
    }
    bool is_right = CheckSize(where, "offset", g.offset);
    for (std::size_t d = 0; d < g.sizes.size(); ++d) {
      is_right &= CheckSize(where, "size", g.sizes[d]);
      is_right &= CheckSize(where, "stride", g.strides[d]);
    }
    return is_right;
  }

  // Rules 2, 4, 5, 6 and 11. False if rules about types cannot be asked.
  bool CheckOperand(const std::string& where, const Operand& operand) {
    if (!operand.is_tensor()) return CheckScalar(where, operand.scalar);
    if (!IsDefined(operand.value)) {
      Report(where, 2, absl::StrCat("%", operand.value, " is not defined"));
      return false;
    }
    if (!CheckGeometry(where, operand.access)) return false;
    CheckReach(where, operand);
    return true;
  }

  bool CheckScalar(const std::string& where, const Scalar& scalar) {
    if (scalar.is_constant()) return true;
    const auto index = static_cast<std::size_t>(scalar.argument);
    if (index >= f_.scalars.size()) {
      Report(where, 11, absl::StrCat("there is no $", scalar.argument));
      return false;
    }
    if (f_.scalars[index] != scalar.type) {
      Report(where, 11,
             absl::StrCat("$", scalar.argument, " is ", Name(f_.scalars[index]),
                          ", not ", Name(scalar.type)));
      return false;
    }
    return true;
  }

  void CheckReach(const std::string& where, const Operand& operand) {
    const Size extent = ExtentOf(ValueOf(operand.value));
    const Geometry& g = operand.access;
    if (!extent.is_constant() || !g.offset.is_constant()) return;
    Size last = g.offset;
    for (std::size_t d = 0; d < g.sizes.size(); ++d) {
      if (!g.sizes[d].is_constant() || !g.strides[d].is_constant()) return;
      if (g.sizes[d] == Size(0)) return;
      last = last + (g.sizes[d] + Size(-1)) * g.strides[d];
    }
    if (last.is_constant() && last.constant() < extent.constant()) return;
    Report(where, 6,
           absl::StrCat("reaches element ", last.ToText(), " of ",
                        extent.ToText()));
  }

  void CheckInstruction(const Instruction& in) {
    std::string where = absl::StrCat("%", defined_);
    bool is_right = true;
    if (in.op >= Op::kCount) {
      Report(where, 7, "is no op");
      is_right = false;
    }
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      is_right &=
          CheckOperand(absl::StrCat(where, " operand ", i), in.operands[i]);
    }
    if (!CheckResults(where, in) || !is_right) return;
    const std::string name = InfoOf(in.op).name;
    CheckCall(where, in);
    std::string error = CheckOperandKinds(in);
    if (error.empty()) error = CheckDims(in);
    if (!error.empty()) {
      Report(where, 7, absl::StrCat(name, " ", error));
    } else if (in.results.size() == 1) {
      CheckType(where, in);
    }
  }

  // Rule 1, and the results' own rules. Defines them.
  bool CheckResults(const std::string& where, const Instruction& in) {
    bool is_right = true;
    for (const ValueId id : in.results) {
      if (static_cast<std::size_t>(id) != defined_ ||
          defined_ >= f_.values.size()) {
        Report(where, 1, absl::StrCat("defines %", id, " as value ", defined_));
        is_right = false;
        continue;
      }
      const std::size_t before = violations_.size();
      CheckValue(absl::StrCat("%", id), ValueOf(id));
      is_right &= violations_.size() == before;
      ++defined_;
    }
    return is_right;
  }

  void CheckCall(const std::string& where, const Instruction& in) {
    std::vector<std::size_t> written;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      if (in.operands[i].written) written.push_back(i);
    }
    if (in.op != Op::kCall) {
      if (in.results.size() != 1 || !in.callee.empty() || in.step != 0 ||
          !written.empty()) {
        Report(
            where, 10,
            absl::StrCat(InfoOf(in.op).name, " has what only a call may have"));
      }
      return;
    }
    if (in.callee.empty() || in.step < 0) {
      Report(where, 10,
             absl::StrCat("calls '", in.callee, "' of step ", in.step));
    }
    if (written.size() > in.results.size()) {
      Report(where, 10,
             absl::StrCat("writes ", written.size(), " operands, has ",
                          in.results.size(), " results"));
      return;
    }
    const std::size_t fresh = in.results.size() - written.size();
    for (std::size_t i = 0; i < written.size(); ++i) {
      CheckNewContent(in.operands[written[i]], in.results[fresh + i]);
    }
  }

  void CheckNewContent(const Operand& operand, ValueId result) {
    const std::string where = absl::StrCat("%", result);
    if (!operand.is_tensor()) {
      Report(where, 10, "is the new content of a scalar");
      return;
    }
    const Value& was = ValueOf(operand.value);
    const Value& is = ValueOf(result);
    if (was.dtype != is.dtype || was.layout != is.layout) {
      Report(where, 10,
             absl::StrCat("is the new content of %", operand.value,
                          " but has another type"));
    }
  }

  // Rules 8 and 9.
  void CheckType(const std::string& where, const Instruction& in) {
    const std::string name = InfoOf(in.op).name;
    const Value& result = ValueOf(in.results[0]);
    const DTypeVerdict dtype = ResultDType(f_, in);
    if (!dtype.error.empty()) {
      Report(where, 8, absl::StrCat(name, " ", dtype.error));
    } else if (!dtype.is_given && dtype.dtype != result.dtype) {
      Report(where, 8,
             absl::StrCat(name, " is ", Name(result.dtype), ", by its rule ",
                          Name(dtype.dtype)));
    }
    const SizesVerdict sizes = ResultSizes(f_, in);
    if (!sizes.error.empty()) {
      Report(where, 9, absl::StrCat(name, " ", sizes.error));
    } else if (!sizes.is_given && sizes.sizes != result.layout.sizes) {
      Report(where, 9,
             absl::StrCat(name, " has sizes [", ToText(result.layout.sizes),
                          "], by its rule [", ToText(sizes.sizes), "]"));
    } else if (in.op == Op::kUpdate &&
               result.layout != ValueOf(in.operands[0].value).layout) {
      Report(where, 9, "update lies otherwise than what it updates");
    }
  }

  void CheckWrite(const std::string& where, const WriteBack& write) {
    const bool is_to_right = CheckOperand(where + " to", write.to);
    const bool is_from_right = CheckOperand(where + " from", write.from);
    if (!is_to_right || !is_from_right) return;
    if (!write.to.is_tensor() || !write.from.is_tensor()) {
      Report(where, 12, "of or to a scalar");
      return;
    }
    if (!f_.IsExternal(write.to.value)) {
      Report(where, 12, absl::StrCat("%", write.to.value, " is not external"));
    }
    const DType to = ValueOf(write.to.value).dtype;
    const DType from = ValueOf(write.from.value).dtype;
    if (to != from) {
      Report(where, 12, absl::StrCat("of ", Name(from), " to ", Name(to)));
    }
    if (write.to.access.sizes != write.from.access.sizes) {
      Report(where, 12,
             absl::StrCat("of [", ToText(write.from.access.sizes), "] to [",
                          ToText(write.to.access.sizes), "]"));
    }
  }

  const Function& f_;
  std::size_t defined_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> Verify(const Function& function) {
  return Verifier(function).Run();
}

}  // namespace tjit::ir
