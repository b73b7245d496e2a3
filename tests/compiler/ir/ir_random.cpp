#include "tests/compiler/ir/ir_random.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/loops/fuse.h"

namespace tjit::ir {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomOptions& options)
      : random_(seed), options_(options) {}

  Function Run() {
    for (int i = 0; i < 4; ++i) {
      const DType dtype = AnyDType();
      b_.External(dtype, options_.parts > 0
                             ? Product(part_) * Size(2) + Size(2)
                             : Product(AnySizes()) + Size(Below(3)));
    }
    number_ = b_.ScalarArgument(ScalarType::kF64);
    integer_ = b_.ScalarArgument(ScalarType::kI64);
    for (int i = 0; i < options_.instructions; ++i) Step();
    const Function& f = b_.function();
    for (ValueId id = f.externals; id < static_cast<int>(f.values.size());
         ++id) {
      if (options_.returned == 100 || Chance(options_.returned)) b_.Return(id);
    }
    for (int i = Below(options_.writes + 1); i > 0; --i) {
      const ValueId external = Below(f.externals);
      const Operand to = options_.parts > 0 && Chance(80)
                             ? b_.View(external, AnyPart())
                             : b_.Use(external);
      b_.Write(to, Tensor(TypeOf(to.value), to.access.sizes));
    }
    Function function = b_.Finish();
    if (options_.parts > 0) Transpose(&function);
    return function;
  }

 private:
  // Some results lie column by column; who read them as they lay still does.
  void Transpose(Function* f) {
    std::vector<char> is_base(f->values.size(), 0);
    for (const Instruction& in : f->body) {
      if (in.op == Op::kUpdate) is_base[Index(in.operands[0].value)] = 1;
    }
    for (const Instruction& in : f->body) {
      if (InfoOf(in.op).family != Family::kPointwise || !Chance(30)) continue;
      const ValueId id = in.results[0];
      Geometry& layout = f->values[Index(id)].layout;
      if (layout.sizes.size() != 2 || is_base[Index(id)] != 0) continue;
      const Geometry old = layout;
      layout.strides = {1, layout.sizes[0]};
      const auto move = [&](Operand* operand) {
        if (operand->value == id && operand->access == old) {
          operand->access = layout;
        }
      };
      for (Instruction& reader : f->body) {
        for (Operand& operand : reader.operands) move(&operand);
      }
      for (WriteBack& write : f->writes) move(&write.from);
    }
  }
  static std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

  int Below(int n) { return static_cast<int>(random_() % std::uint64_t(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

  DType AnyDType() {
    if (options_.parts > 0 && Chance(options_.parts)) return DType::kF32;
    return Chance(50) ? DType::kF32 : static_cast<DType>(Below(kDTypeCount));
  }
  DType DTypeOf(DTypeSet set) {
    DType dtype = AnyDType();
    while (!Contains(set, dtype)) dtype = AnyDType();
    return dtype;
  }
  DType TypeOf(ValueId id) const {
    return b_.function().values[static_cast<std::size_t>(id)].dtype;
  }

  // Ways to see a part of an external that has 2 * 3 * n0 + 2 elements.
  std::vector<Geometry> Parts() const {
    const Size n = part_[0];
    return {
        {part_, {3, 1}, 0},           {part_, {3, 1}, 1}, {part_, {3, 1}, 2},
        {part_, {3, 1}, n * Size(3)}, {part_, {6, 2}, 0}, {part_, {6, 2}, 1},
        {part_, {6, 1}, 3},           {part_, {1, n}, 0}, {part_, {0, 1}, 0}};
  }

  Geometry AnyPart() { return Parts()[static_cast<std::size_t>(Below(9))]; }

  Sizes AnySizes() {
    if (options_.parts > 0 && Chance(20)) return wide_;
    if (options_.parts > 0 && Chance(options_.parts)) return part_;
    const Size choice[] = {Size::Symbol(0), Size::Symbol(1), 1, 3,
                           Size::Symbol(0) + Size(1)};
    Sizes sizes;
    for (int d = Below(4); d > 0; --d) sizes.push_back(choice[Below(5)]);
    return sizes;
  }

  Operand ScalarFor(DType dtype) {
    switch (InfoOf(dtype).kind) {
      case DTypeKind::kBool:
        return Builder::Use(Constant(Chance(50)));
      case DTypeKind::kInt:
        return Chance(30) ? Builder::Use(integer_)
                          : Builder::Use(Constant(std::int64_t{Below(7)} - 3));
      case DTypeKind::kFloat:
        break;
    }
    if (Chance(30)) return Builder::Use(number_);
    return Builder::Use(Constant(Below(17) / 4.0 - 2));
  }

  // An operand of this type and these sizes, over some value.
  Operand Tensor(DType dtype, const Sizes& sizes) {
    std::vector<Operand> fits;
    const Function& f = b_.function();
    for (ValueId id = 0; id < static_cast<int>(f.values.size()); ++id) {
      if (TypeOf(id) != dtype) continue;
      AddFits(id, sizes, &fits);
    }
    if (fits.empty() || Chance(5)) {
      return b_.Use(
          b_.EmitAs({dtype, Contiguous(sizes)}, Op::kFull, {ScalarFor(dtype)}));
    }
    return fits[static_cast<std::size_t>(Below(static_cast<int>(fits.size())))];
  }

  // The ways to see value `id` with these sizes.
  void AddFits(ValueId id, const Sizes& sizes, std::vector<Operand>* fits) {
    const Operand whole = b_.Use(id);
    const Geometry& own = whole.access;
    const bool is_external = b_.function().IsExternal(id);
    if (options_.parts > 0 && is_external && sizes == part_ && Chance(30)) {
      for (Geometry& part : Parts()) fits->push_back(b_.View(id, part));
    }
    if (own.sizes == sizes) fits->push_back(whole);
    if (own.sizes == wide_ && sizes == part_) {
      for (const int first : {0, 3, 0, 3, 1}) {
        fits->push_back(b_.View(id, {part_, {6, 1}, first}));
      }
    }
    if (own.sizes.size() == 2 && sizes.size() == 2) {
      Geometry swapped = own;
      std::swap(swapped.sizes[0], swapped.sizes[1]);
      std::swap(swapped.strides[0], swapped.strides[1]);
      if (swapped.sizes == sizes) fits->push_back(b_.View(id, swapped));
    }
    const Size extent = Product(own.sizes), wanted = Product(sizes);
    if (extent == wanted) fits->push_back(b_.View(id, sizes));
    if (extent == wanted + Size(1)) {  // all but the first
      Geometry rest = Contiguous(sizes);
      rest.offset = 1;
      fits->push_back(b_.View(id, rest));
    }
    const bool is_suffix =
        own.sizes.size() < sizes.size() &&
        std::equal(own.sizes.begin(), own.sizes.end(),
                   sizes.end() - static_cast<std::ptrdiff_t>(own.sizes.size()));
    if (is_suffix) fits->push_back(Builder::Broadcast(whole, sizes));
    if (AreRowsOf(own.sizes, sizes)) {
      Geometry row = own;
      row.sizes = sizes;
      row.strides.emplace_back(0);
      fits->push_back(b_.View(id, row));
    }
    // Its first element everywhere.
    if (Chance(10) && !(id < b_.function().externals)) {
      Geometry first = Contiguous(sizes);
      first.strides.assign(sizes.size(), Size(0));
      fits->push_back(b_.View(id, first));
    }
  }

  void Step() {
    if (options_.repeats > 0 && Chance(options_.repeats)) return Repeat();
    if (options_.rows > 0 && Chance(options_.rows)) return AlongRows();
    const Op op = static_cast<Op>(Below(kOpCount));
    switch (InfoOf(op).family) {
      case Family::kPointwise:
        return Pointwise(op);
      case Family::kReduce:
        if (options_.reductions) Reduce(op);
        return;
      case Family::kRow:
        if (options_.reductions) Row(op);
        return;
      case Family::kData:
        return Data(op);
      case Family::kCall:
        return Call();
    }
  }

  // Along the last dim, with the functions that kernels have for rows, and now
  // and then along the first, with those that they have for slabs.
  void AlongRows() {
    constexpr int kReductions = 4;
    constexpr Op kOps[] = {Op::kSum,
                           Op::kMean,
                           Op::kAmax,
                           Op::kAmin,
                           Op::kSoftmax,
                           Op::kLogSoftmax,
                           Op::kSoftmaxBackward,
                           Op::kLogSoftmaxBackward};
    const int of = Below(8);
    const Op op = kOps[of];
    const bool is_along_first = of >= kReductions && Chance(30);
    const DType dtype = Chance(70) ? DType::kF32 : DType::kF64;
    const Sizes sizes = {Size::Symbol(0), Size::Symbol(1)};
    std::vector<Operand> operands;
    for (const char* kind = InfoOf(op).operands; *kind != '\0'; ++kind) {
      operands.push_back(Tensor(dtype, sizes));
    }
    b_.Emit(op, std::move(operands), {is_along_first ? 0 : 1});
  }

  void Repeat() {
    const Function& f = b_.function();
    if (f.body.empty()) return;
    const Instruction in = f.body[static_cast<std::size_t>(
        Below(static_cast<int>(f.body.size())))];
    if (in.op == Op::kCall) return;
    if (in.op == Op::kFull || in.op == Op::kTo) {
      const Value type = f.values[static_cast<std::size_t>(in.results[0])];
      b_.EmitAs(type, in.op, in.operands);
    } else {
      b_.Emit(in.op, in.operands, in.dims, in.keepdim);
    }
  }

  void Pointwise(Op op) {
    const OpInfo& info = InfoOf(op);
    const DType dtype = DTypeOf(info.dtypes);
    const Sizes sizes = AnySizes();
    std::vector<Operand> operands;
    bool has_tensor = false;
    for (const char* kind = info.operands; *kind != '\0'; ++kind) {
      const bool is_scalar = *kind == 's' || *kind == 'r' ||
                             (*kind == 'x' && has_tensor && Chance(30));
      if (*kind == 'c') {
        operands.push_back(Tensor(DType::kBool, sizes));
      } else if (is_scalar) {
        operands.push_back(ScalarFor(dtype));
      } else {
        operands.push_back(Tensor(dtype, sizes));
        has_tensor = true;
      }
    }
    b_.Emit(op, std::move(operands));
  }

  void Reduce(Op op) {
    const DType dtype = DTypeOf(InfoOf(op).dtypes);
    const Sizes sizes = AnySizes();
    std::vector<int> dims;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (Chance(50)) dims.push_back(static_cast<int>(d));
    }
    std::vector<Operand> operands;
    for (const char* kind = InfoOf(op).operands; *kind != '\0'; ++kind) {
      operands.push_back(*kind == 's' ? Builder::Use(Constant(double(Below(3))))
                                      : Tensor(dtype, sizes));
    }
    b_.Emit(op, std::move(operands), std::move(dims), Chance(50));
  }

  void Row(Op op) {
    const DType dtype = DTypeOf(InfoOf(op).dtypes);
    Sizes sizes = AnySizes();
    if (sizes.empty()) sizes.push_back(Size::Symbol(1));
    std::vector<Operand> operands;
    for (const char* kind = InfoOf(op).operands; *kind != '\0'; ++kind) {
      operands.push_back(Tensor(dtype, sizes));
    }
    const int dim = Below(static_cast<int>(sizes.size()));
    b_.Emit(op, std::move(operands), {dim});
  }

  void Data(Op op) {
    const DType dtype = AnyDType();
    if (op == Op::kUpdate) {
      if (!options_.updates) return;
      if (Chance(40)) return Concat(dtype);
      const int values = static_cast<int>(b_.function().values.size());
      const bool is_part = options_.parts > 0 && Chance(50);
      const ValueId base = Below(is_part ? b_.function().externals : values);
      const Operand to = is_part ? b_.View(base, AnyPart()) : b_.Use(base);
      const Operand from = Tensor(TypeOf(base), to.access.sizes);
      b_.Emit(op, {to, from});
      return;
    }
    const Sizes sizes = AnySizes();
    const Value type = {dtype, Contiguous(sizes)};
    b_.EmitAs(type, op,
              {op == Op::kFull ? ScalarFor(dtype) : Tensor(AnyDType(), sizes)});
  }

  // Two parts, one behind or beside the other, over what they cover or nearly
  // do.
  void Concat(DType dtype) {
    const bool is_beside = Chance(50), is_filled = Chance(30);
    const Size more = is_filled ? 1 : 0, rows = part_[0];
    const Sizes sizes = is_beside ? Sizes{rows, Size(6) + more}
                                  : Sizes{rows * Size(2) + more, 3};
    Geometry to = Contiguous(sizes);
    to.sizes = part_;
    ValueId whole =
        b_.EmitAs({dtype, Contiguous(sizes)}, Op::kFull, {ScalarFor(dtype)});
    for (int i = 0; i < 2; ++i) {
      if (i == 1) to.offset = is_beside ? Size(3) : rows * Size(3);
      if (is_filled && Chance(50)) to.offset = to.offset + to.strides[1];
      whole = b_.Emit(Op::kUpdate, {b_.View(whole, to), Tensor(dtype, part_)});
    }
  }

  void Call() {
    if (!options_.calls) return;
    const Sizes sizes = AnySizes();
    Operand written = b_.Use(Below(b_.function().externals));
    written.written = true;
    b_.Call("test::twice", Below(100), {{DType::kF32, Contiguous(sizes)}},
            {Tensor(DType::kF32, sizes), written});
  }

  const Sizes part_ = {Size::Symbol(0), 3};
  const Sizes wide_ = {Size::Symbol(0), 6};
  std::mt19937_64 random_;
  const RandomOptions options_;
  Builder b_{"random", 2};
  Scalar number_, integer_;
};

}  // namespace

Function RandomFunction(std::uint64_t seed, const RandomOptions& options) {
  return Generator(seed, options).Run();
}

RandomRun::RandomRun(const Function& function, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < function.symbols; ++i) {
    arguments.symbols.push_back(std::int64_t(random() % 4) + 1);
  }
  const auto buffer_of = [&](ValueId id, bool is_filled) {
    const Value& value = function.values[static_cast<std::size_t>(id)];
    const int item = InfoOf(value.dtype).bytes;
    const std::int64_t n =
        ExtentOf(value).Evaluate(arguments.symbols).value_or(0);
    memory_.emplace_back(static_cast<std::size_t>(n * item), '\0');
    for (std::int64_t i = 0; i < n && is_filled; ++i) {
      Store(value.dtype, double(random() % 41) / 8 - 2,
            memory_.back().data() + i * item);
    }
    return Buffer{memory_.back().data(), n};
  };
  for (ValueId id = 0; id < function.externals; ++id) {
    arguments.externals.push_back(buffer_of(id, true));
  }
  for (const ScalarType type : function.scalars) {
    ScalarValue value;
    value.type = type == ScalarType::kF64   ? 7
                 : type == ScalarType::kI64 ? 4
                                            : 11;
    const double number = double(random() % 17) / 4 - 2;
    if (type == ScalarType::kF64) {
      std::memcpy(&value.bits[0], &number, sizeof(number));
    } else {
      value.bits[0] = random() % 2;
    }
    arguments.scalars.push_back(value);
  }
  for (const ValueId id : function.returns) {
    arguments.returns.push_back(buffer_of(id, false));
  }
}

std::string RandomRun::Bytes() const {
  std::string bytes;
  for (const std::string& memory : memory_) bytes += memory;
  return bytes;
}

std::string RunTestCall(const CallSite& site) {
  if (site.instruction->callee != "test::twice") return "unknown";
  // Calls f on the offset of every element, row-major.
  const auto each = [](const Extents& e, auto f) {
    for (std::int64_t i = 0; i < e.numel(); ++i) {
      std::int64_t at = e.offset, rest = i;
      for (std::size_t d = e.sizes.size(); d-- > 0;) {
        at += rest % e.sizes[d] * e.strides[d];
        rest /= e.sizes[d];
      }
      f(i, at);
    }
  };
  const CallArgument& in = site.operands[0];
  const CallArgument& out = site.results[0];
  each(in.extents, [&](std::int64_t i, std::int64_t at) {
    StoreAs(2 * LoadAs<float>(in.data + at * 4), out.data + i * 4);
  });
  const CallArgument& zeroed = site.operands[1];
  each(zeroed.extents, [&](std::int64_t, std::int64_t at) {
    Store(zeroed.dtype, std::int64_t{0},
          zeroed.data + at * InfoOf(zeroed.dtype).bytes);
  });
  return "";
}

}  // namespace tjit::ir
