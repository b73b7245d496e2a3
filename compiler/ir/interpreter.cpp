#include "compiler/ir/interpreter.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/interpreter_ops.h"
#include "compiler/ir/run_memory.h"

namespace tjit::ir {
namespace {

class Machine : public RunMemory {
 public:
  Machine(const Function& f, const RunArguments& arguments, const Hooks& hooks)
      : RunMemory(f, arguments, hooks), f_(f), hooks_(hooks) {}

  std::string Run() {
    if (Bind()) {
      for (const Instruction& in : f_.body) {
        if (!Execute(in)) break;
      }
    }
    if (error().empty()) Finish();
    return error();
  }

 private:
  bool Execute(const Instruction& in) {
    switch (InfoOf(in.op).family) {
      case Family::kPointwise:
        return Pointwise(in);
      case Family::kReduce:
        if (HasRowsHook(in)) return Rows(in);
        return InfoOf(ValueOf(in.operands[0].value).dtype).kind ==
                       DTypeKind::kFloat
                   ? Reduce<double>(in)
                   : Reduce<std::int64_t>(in);
      case Family::kRow:
        return HasRowsHook(in) ? Rows(in) : Row(in);
      case Family::kData:
        return Data(in);
      case Family::kCall:
        return Call(in);
    }
    return false;
  }

  // The element type that a pointwise op computes for.
  DType ElementType(const Instruction& in) const {
    if (InfoOf(in.op).type_rule == TypeRule::kCompare) {
      for (const Operand& operand : in.operands) {
        if (operand.is_tensor()) return ValueOf(operand.value).dtype;
      }
    }
    return ValueOf(in.results[0]).dtype;
  }

  bool Pointwise(const Instruction& in) {
    const DType dtype = ElementType(in);
    switch (InfoOf(dtype).compute) {
      case Compute::kInt:
        return PointwiseAs<std::int64_t>(in, dtype);
      case Compute::kFloat:
        return PointwiseAs<float>(in, dtype);
      case Compute::kDouble:
        return PointwiseAs<double>(in, dtype);
    }
    return false;
  }

  template <class T>
  bool PointwiseAs(const Instruction& in, DType dtype) {
    Extents extents;
    if (!Evaluate(in.results[0], ValueOf(in.results[0]).layout, &extents)) {
      return false;
    }
    const auto n = static_cast<std::size_t>(extents.numel());
    std::vector<T> arrays[5], result(n);
    const T* pointers[5] = {};
    double scalars[5] = {};
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const Operand& operand = in.operands[i];
      if (!operand.is_tensor()) {
        T value = ScalarAs<T>(ScalarOf(operand.scalar));
        scalars[i] = ScalarAs<double>(ScalarOf(operand.scalar));
        if (InfoOf(in.op).operands[i] == 'r') {
          char rounded[8];
          Store(dtype, value, rounded);
          value = Load<T>(dtype, rounded);
        }
        arrays[i].assign(n, value);
      } else if (!Gather(operand, &arrays[i])) {
        return false;
      }
      pointers[i] = arrays[i].data();
    }
    EvalPointwise<T>(in.op, dtype, pointers, scalars,
                     static_cast<int>(in.operands.size()), result.data(),
                     extents.numel(), hooks_);
    return Define(in.results[0], result);
  }

  // Where the groups of an operand begin that are reduced, and the elements of
  // a group from there.
  bool GroupsOf(const Instruction& in, const Operand& operand,
                std::vector<std::int64_t>* starts,
                std::vector<std::int64_t>* group) {
    Extents all, kept, reduced;
    if (!Access(operand, &all)) return false;
    kept.offset = all.offset;
    for (std::size_t d = 0; d < all.sizes.size(); ++d) {
      const bool is_reduced = std::find(in.dims.begin(), in.dims.end(),
                                        static_cast<int>(d)) != in.dims.end();
      Extents& part = is_reduced ? reduced : kept;
      part.sizes.push_back(all.sizes[d]);
      part.strides.push_back(all.strides[d]);
    }
    *starts = OffsetsOf(kept);
    *group = OffsetsOf(reduced);
    return true;
  }

  // The second operand of a reduction of two, group by group.
  template <class A>
  bool Factors(const Instruction& in, std::vector<A>* factors) {
    if (in.operands.size() < 2 || !in.operands[1].is_tensor()) return true;
    std::vector<std::int64_t> starts, group;
    const ValueId id = in.operands[1].value;
    if (!GroupsOf(in, in.operands[1], &starts, &group)) return false;
    const DType dtype = ValueOf(id).dtype;
    for (const std::int64_t start : starts) {
      for (const std::int64_t at : group) {
        factors->push_back(Load<A>(
            dtype, MemoryOf(id).data + (start + at) * InfoOf(dtype).bytes));
      }
    }
    return true;
  }

  template <class A>
  bool Reduce(const Instruction& in) {
    const Operand& operand = in.operands[0];
    std::vector<std::int64_t> starts, group;
    if (!GroupsOf(in, operand, &starts, &group)) return false;
    if (group.empty() && !starts.empty() && NeedsElements(in.op)) {
      return Fail(in.results[0],
                  absl::StrCat(InfoOf(in.op).name, " of nothing"));
    }
    const Operand& last = in.operands.back();
    double parameter =
        last.is_tensor() ? 0 : ScalarAs<double>(ScalarOf(last.scalar));
    std::vector<A> factors;
    if (!Factors(in, &factors)) return false;
    const bool picks = in.op == Op::kPick && !factors.empty();
    const DType dtype = ValueOf(operand.value).dtype;
    const char* data = MemoryOf(operand.value).data;
    std::vector<A> row(group.size()), result;
    for (const std::int64_t start : starts) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        row[i] =
            Load<A>(dtype, data + (start + group[i]) * InfoOf(dtype).bytes);
        if (picks || factors.empty()) continue;
        row[i] *= factors[result.size() * row.size() + i];
      }
      if (picks) {
        parameter = static_cast<double>(factors[result.size() * row.size()]);
      }
      result.push_back(EvalReduce<A>(
          in.op, row.data(), static_cast<std::int64_t>(row.size()), parameter));
    }
    return Define(in.results[0], result);
  }

  // Nothing of reductions over other dims.
  static std::optional<Axis> AxisOf(const Instruction& in) {
    const auto ndim = static_cast<int>(in.operands[0].access.sizes.size());
    const auto count = static_cast<int>(in.dims.size());
    if (InfoOf(in.op).family == Family::kRow) {
      return in.dims[0] + 1 == ndim ? Axis::kInner : Axis::kStrided;
    }
    if (count == 0) return std::nullopt;
    if (count == ndim) return Axis::kAll;
    if (count == 1 && in.dims[0] + 1 == ndim) return Axis::kInner;
    if (count + 1 == ndim && in.dims.back() + 2 == ndim) return Axis::kOuter;
    return std::nullopt;
  }

  // With a hook for the axis that it goes along.
  bool HasRowsHook(const Instruction& in) const {
    const DType dtype = ValueOf(in.operands[0].value).dtype;
    return hooks_.rows && (dtype == DType::kF32 || dtype == DType::kF64) &&
           AxisOf(in).has_value();
  }

  bool Rows(const Instruction& in) {
    const DType dtype = ValueOf(in.operands[0].value).dtype;
    return dtype == DType::kF32 ? RowsAs<float>(in, dtype)
                                : RowsAs<double>(in, dtype);
  }

  template <class T>
  bool RowsAs(const Instruction& in, DType dtype) {
    Extents extents;
    std::vector<T> operands[2];
    if (!Access(in.operands[0], &extents)) return false;
    for (std::size_t k = 0; k < in.operands.size() && k < 2; ++k) {
      const bool is_tensor = in.operands[k].is_tensor();
      if (is_tensor && !Gather(in.operands[k], &operands[k])) return false;
    }
    const Axis axis = *AxisOf(in);
    if (axis == Axis::kStrided) {
      return SlabsAs<T>(in, dtype, extents, operands);
    }
    const std::int64_t n =
        axis == Axis::kAll ? extents.numel() : extents.sizes.back();
    const std::int64_t rows = n == 0 ? 0 : extents.numel() / n;
    const bool is_reduction = InfoOf(in.op).family == Family::kReduce;
    std::vector<T> result(static_cast<std::size_t>(axis == Axis::kOuter ? n
                                                   : is_reduction       ? rows
                                                                  : rows * n));
    const void* second = operands[1].empty() ? nullptr : operands[1].data();
    const Operand& last = in.operands.back();
    const double number =
        last.is_tensor() ? 0 : ScalarAs<double>(ScalarOf(last.scalar));
    if (rows == 0 ||
        !hooks_.rows({in.op, dtype, axis, rows, n, operands[0].data(), second,
                      number, result.data()})) {
      return is_reduction ? Reduce<double>(in) : Row(in);
    }
    return Define(in.results[0], result);
  }

  // operands: with the extents, gathered.
  template <class T>
  bool SlabsAs(const Instruction& in, DType dtype, const Extents& extents,
               const std::vector<T>* operands) {
    const auto dim = static_cast<std::size_t>(in.dims[0]);
    const std::int64_t rows = extents.sizes[dim];
    std::int64_t n = 1;
    for (std::size_t d = dim + 1; d < extents.sizes.size(); ++d) {
      n *= extents.sizes[d];
    }
    std::vector<T> result(operands[0].size());
    const auto slab = static_cast<std::size_t>(rows * n);
    for (std::size_t at = 0; at < result.size(); at += slab) {
      const T* second = operands[1].empty() ? nullptr : &operands[1][at];
      if (!hooks_.rows({in.op, dtype, Axis::kStrided, rows, n, &operands[0][at],
                        second, 0, &result[at]})) {
        return Row(in);
      }
    }
    return Define(in.results[0], result);
  }

  bool Row(const Instruction& in) {
    Extents extents;
    if (!Evaluate(in.results[0], ValueOf(in.results[0]).layout, &extents)) {
      return false;
    }
    const auto dim = static_cast<std::size_t>(in.dims[0]);
    const auto n = static_cast<std::size_t>(extents.sizes[dim]);
    std::size_t inner = 1;
    for (std::size_t d = dim + 1; d < extents.sizes.size(); ++d) {
      inner *= static_cast<std::size_t>(extents.sizes[d]);
    }
    std::vector<double> operands[2];
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      if (!Gather(in.operands[k], &operands[k])) return false;
    }
    std::vector<double> result(operands[0].size()), rows[2], out(n);
    const double* pointers[2] = {};
    for (std::size_t start = 0; start < result.size(); ++start) {
      if (start / inner % n != 0) continue;
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        rows[k].resize(n);
        for (std::size_t i = 0; i < n; ++i) {
          rows[k][i] = operands[k][start + i * inner];
        }
        pointers[k] = rows[k].data();
      }
      EvalRow(in.op, pointers, out.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < n; ++i) result[start + i * inner] = out[i];
    }
    return Define(in.results[0], result);
  }

  bool Data(const Instruction& in) {
    const ValueId id = in.results[0];
    if (in.op == Op::kUpdate) return Update(in);
    if (in.op == Op::kTo) {
      switch (InfoOf(ValueOf(in.operands[0].value).dtype).compute) {
        case Compute::kInt:
          return Convert<std::int64_t>(in);
        case Compute::kFloat:
          return Convert<float>(in);
        case Compute::kDouble:
          return Convert<double>(in);
      }
    }
    Extents extents;
    if (!Evaluate(id, ValueOf(id).layout, &extents)) return false;
    const auto n = static_cast<std::size_t>(extents.numel());
    const ScalarValue value = ScalarOf(in.operands[0].scalar);
    if (value.type == InfoOf(DType::kF64).number) {
      return Define(id, std::vector<double>(n, ScalarAs<double>(value)));
    }
    return Define(id,
                  std::vector<std::int64_t>(n, ScalarAs<std::int64_t>(value)));
  }

  template <class T>
  bool Convert(const Instruction& in) {
    std::vector<T> elements;
    return Gather(in.operands[0], &elements) && Define(in.results[0], elements);
  }

  bool Update(const Instruction& in) {
    const Operand& base = in.operands[0];
    Extents extents;
    std::vector<char> bytes;
    if (!GatherBytes(in.operands[1], &bytes) ||
        !Allocate(in.results[0], &extents)) {
      return false;
    }
    Memory& memory = MemoryOf(in.results[0]);
    if (!memory.own.empty()) {
      std::memcpy(memory.data, MemoryOf(base.value).data, memory.own.size());
    }
    return Scatter(base, bytes, memory.data);
  }

  bool Call(const Instruction& in) {
    CallSite site;
    site.instruction = &in;
    std::size_t written = 0;
    for (const Operand& operand : in.operands) written += operand.written;
    const std::size_t fresh = in.results.size() - written;
    for (std::size_t i = 0; i < fresh; ++i) {
      CallArgument result;
      if (!Allocate(in.results[i], &result.extents)) return false;
      result.is_tensor = true;
      result.dtype = ValueOf(in.results[i]).dtype;
      result.data = MemoryOf(in.results[i]).data;
      site.results.push_back(std::move(result));
    }
    std::size_t next = fresh;
    for (const Operand& operand : in.operands) {
      CallArgument argument;
      argument.is_tensor = operand.is_tensor();
      if (!argument.is_tensor) {
        argument.scalar = ScalarOf(operand.scalar);
      } else if (!CallTensor(operand,
                             operand.written ? in.results[next++] : kNoValue,
                             &argument)) {
        return false;
      }
      site.operands.push_back(std::move(argument));
    }
    if (!hooks_.call) return Fail(absl::StrCat("nobody runs ", in.callee));
    const std::string wrong = hooks_.call(site);
    return wrong.empty() || Fail(absl::StrCat(in.callee, ": ", wrong));
  }

  bool CallTensor(const Operand& operand, ValueId result,
                  CallArgument* argument) {
    if (!Access(operand, &argument->extents)) return false;
    argument->dtype = ValueOf(operand.value).dtype;
    argument->data = MemoryOf(operand.value).data;
    if (result == kNoValue) return true;
    Extents extents;
    if (!Allocate(result, &extents)) return false;
    Memory& memory = MemoryOf(result);
    if (!memory.own.empty()) {
      std::memcpy(memory.data, argument->data, memory.own.size());
    }
    argument->data = memory.data;
    return true;
  }

  const Function& f_;
  const Hooks& hooks_;
};

}  // namespace

std::string Interpret(const Function& function, const RunArguments& arguments,
                      const Hooks& hooks) {
  return Machine(function, arguments, hooks).Run();
}

}  // namespace tjit::ir
