#include "tests/compiler/llvm/llvm_testing.h"

#include <time.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/llvm/loader.h"
#include "compiler/program/loop_chain.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

constexpr std::size_t kGuard = 67;  // bytes; odd, so nothing is aligned
constexpr char kGuardByte = '\x5a';

// The value of element `i`: now and then a special one.
double AnyNumber(DType dtype, std::mt19937_64& random) {
  using Limits = std::numeric_limits<float>;
  static const double kSpecial[] = {0.0,
                                    -0.0,
                                    1.0,
                                    -1.0,
                                    0.5,
                                    -0.5,
                                    2.5,
                                    1e-40,
                                    -1e-40,
                                    3e38,
                                    -3e38,
                                    Limits::infinity(),
                                    -double{Limits::infinity()},
                                    Limits::quiet_NaN(),
                                    Limits::min(),
                                    Limits::epsilon(),
                                    2147483647.0,
                                    -2147483648.0,
                                    1e19,
                                    0.1,
                                    1.0 / 3};
  constexpr std::size_t kCount = sizeof(kSpecial) / sizeof(kSpecial[0]);
  if (InfoOf(dtype).kind != DTypeKind::kFloat) {
    return static_cast<double>(random() % 300) - 150;
  }
  if (random() % 4 == 0) return kSpecial[random() % kCount];
  return std::ldexp(static_cast<double>(random() % 2000001) - 1e6,
                    -static_cast<int>(random() % 40));
}

bool SameElement(DType dtype, const char* a, const char* b) {
  if (std::memcmp(a, b, InfoOf(dtype).bytes) == 0) return true;
  if (InfoOf(dtype).kind != DTypeKind::kFloat) return false;
  return std::isnan(Load<double>(dtype, a)) &&
         std::isnan(Load<double>(dtype, b));
}

// Of this thread: the machine may have other work.
std::int64_t CpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

}  // namespace

Function Parsed(const std::string& text) {
  Function f;
  std::string error;
  EXPECT_TRUE(Parse(text, &f, &error)) << error << "\n" << text;
  return f;
}

std::vector<std::int64_t> Lengths() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n <= 70; ++n) lengths.push_back(n);
  for (const std::int64_t n : {127, 128, 129, 255, 511, 512, 513, 1023, 1024,
                               1025, 1039, 2047, 2048, 2049, 5000}) {
    lengths.push_back(n);
  }
  return lengths;
}

const TjitLlvmApi& Api() {
  static const TjitLlvmApi* api = [] {
    std::string error;
    const TjitLlvmApi* loaded = LoadLlvmApi(TJIT_LLVM_LIBRARY, &error);
    EXPECT_NE(loaded, nullptr) << error;
    return loaded;
  }();
  return *api;
}

TjitLlvmOptions DefaultOptions() {
  TjitLlvmOptions options = {};
  options.abi = kTjitLlvmAbi;
  return options;
}

TjitLlvmOptions OptionsWith(const std::vector<TjitMath>& math,
                            int vector_bits) {
  TjitLlvmOptions options = DefaultOptions();
  options.math = math.data();
  options.math_count = static_cast<std::int32_t>(math.size());
  options.vector_bits = vector_bits;
  return options;
}

CompiledKernel::CompiledKernel(const Function& f, TjitLlvmOptions options)
    : CompiledKernel(Print(f), options) {}

CompiledKernel::CompiledKernel(const std::string& text,
                               TjitLlvmOptions options) {
  char error[1000] = "";
  const std::int64_t start = CpuNs();
  const int failed =
      Api().compile(text.c_str(), &options, &kernel_, error, sizeof(error));
  compile_ns_ = CpuNs() - start;
  error_ = error;
  EXPECT_EQ(failed != 0, !error_.empty());
}

CompiledKernel::~CompiledKernel() {
  if (kernel_.handle != nullptr) Api().free(kernel_.handle);
}

std::string CompiledKernel::Run(const RunArguments& arguments,
                                int parts) const {
  if (!error_.empty()) return error_;
  const auto loops = static_cast<std::size_t>(kernel_.loop_count);
  std::vector<std::int64_t> extents(loops), elements(loops), bytes(loops);
  std::vector<std::uint64_t> offsets(
      static_cast<std::size_t>(kernel_.scratch_count));
  std::uint64_t scratch_bytes = 0;
  std::vector<std::int64_t> numbers(
      static_cast<std::size_t>(kernel_.number_count));
  std::vector<std::int64_t> blocks(loops);
  const TjitShape shape = {extents.data(), elements.data(), bytes.data(),
                           offsets.data(), &scratch_bytes,  numbers.data(),
                           blocks.data()};
  char error[1000] = "";
  if (Api().shape(kernel_.handle, arguments.symbols.data(), &shape, error,
                  sizeof(error)) != 0) {
    return error;
  }
  std::vector<char*> memory;
  for (const Buffer& buffer : arguments.externals)
    memory.push_back(buffer.data);
  for (const Buffer& buffer : arguments.returns) memory.push_back(buffer.data);
  std::string scratch(scratch_bytes, kGuardByte);
  for (const std::uint64_t offset : offsets) {
    memory.push_back(scratch.data() + offset);
  }
  static_assert(sizeof(TjitScalar) == sizeof(ScalarValue));
  const auto* scalars =
      reinterpret_cast<const TjitScalar*>(arguments.scalars.data());
  const auto run = [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const TjitLoop& loop = kernel_.loops[i];
    loop.run(memory.data(), numbers.data() + loop.first_number, scalars, begin,
             end);
  };
  chained_loops_ = 0;
  for (std::size_t i = 0; i < loops;) {
    const Chain chain = ChainFrom(blocks, i);
    chained_loops_ += chain.last - chain.first;
    for (int part = 0; part < parts; ++part) {
      RunChain(chain, extents[i] * part / parts,
               extents[i] * (part + 1) / parts, run);
    }
    i = chain.last + 1;
  }
  return "";
}

Buffer KernelRun::Add(DType dtype, std::int64_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int item = InfoOf(dtype).bytes;
  const auto bytes = static_cast<std::size_t>(elements * item);
  memory_.push_back({dtype, std::string(bytes + 2 * kGuard, kGuardByte)});
  char* data = memory_.back().bytes.data() + kGuard;
  for (std::int64_t i = 0; i < elements; ++i) {
    Store(dtype, AnyNumber(dtype, random), data + i * item);
  }
  return {data, elements};
}

KernelRun::KernelRun(const Function& f, std::vector<std::int64_t> symbols,
                     std::uint64_t seed) {
  arguments.symbols = std::move(symbols);
  std::mt19937_64 random(seed);
  const auto add = [&](ValueId id) {
    const Value& value = f.values[static_cast<std::size_t>(id)];
    return Add(value.dtype,
               ExtentOf(value).Evaluate(arguments.symbols).value_or(0),
               random());
  };
  for (ValueId id = 0; id < f.externals; ++id) {
    arguments.externals.push_back(add(id));
  }
  for (const ScalarType type : f.scalars) {
    ScalarValue value;
    value.type = type == ScalarType::kF64   ? 7
                 : type == ScalarType::kI64 ? 4
                                            : 11;
    const double number = AnyNumber(DType::kF64, random);
    if (type == ScalarType::kF64) {
      std::memcpy(&value.bits[0], &number, sizeof(number));
    } else {
      value.bits[0] = random() % (type == ScalarType::kBool ? 2 : 5);
    }
    arguments.scalars.push_back(value);
  }
  for (const ValueId id : f.returns) arguments.returns.push_back(add(id));
}

std::string KernelRun::DifferenceFrom(const KernelRun& o) const {
  for (std::size_t m = 0; m < memory_.size(); ++m) {
    const std::string& mine = memory_[m].bytes;
    const std::string& theirs = o.memory_[m].bytes;
    const DType dtype = memory_[m].dtype;
    const std::size_t item = InfoOf(dtype).bytes;
    const std::size_t end = mine.size() - kGuard;
    if (mine.compare(0, kGuard, theirs, 0, kGuard) != 0 ||
        mine.compare(end, kGuard, theirs, end, kGuard) != 0) {
      return absl::StrCat("memory ", m, " is written outside its bounds");
    }
    for (std::size_t at = kGuard; at < end; at += item) {
      if (SameElement(dtype, &mine[at], &theirs[at])) continue;
      return absl::StrCat("memory ", m, " element ", (at - kGuard) / item, ": ",
                          Load<double>(dtype, &mine[at]), ", not ",
                          Load<double>(dtype, &theirs[at]));
    }
  }
  return "";
}

namespace {

struct RunOf {
  std::vector<std::int64_t> symbols;
  std::uint64_t seed;
  int parts;
};

// Runs the kernel with the memory of the pair's external for both.
std::string CompareInPlace(const Function& f, const CompiledKernel& kernel,
                           const TjitInPlace& pair, const RunOf& run,
                           const KernelRun& wanted) {
  const auto r = static_cast<std::size_t>(pair.returned);
  const auto e = static_cast<std::size_t>(pair.external);
  KernelRun got(f, run.symbols, run.seed);
  const Buffer place = got.arguments.externals[e];
  const Buffer own = got.arguments.returns[r];
  if (own.elements != place.elements) return "";
  got.arguments.returns[r] = place;
  const std::string error = kernel.Run(got.arguments, run.parts);
  if (!error.empty()) return error;
  const std::size_t bytes = static_cast<std::size_t>(
      place.elements * InfoOf(f.values[e].dtype).bytes);
  std::memcpy(own.data, place.data, bytes);
  std::memcpy(place.data, wanted.arguments.externals[e].data, bytes);
  const std::string difference = got.DifferenceFrom(wanted);
  if (difference.empty()) return "";
  return absl::StrCat("return ", r, " over external ", e, ": ", difference);
}

}  // namespace

std::string Compare(const Function& f, const CompiledKernel& kernel,
                    const std::vector<std::int64_t>& symbols,
                    std::uint64_t seed, const Hooks& hooks, int parts) {
  KernelRun got(f, symbols, seed), wanted(f, symbols, seed);
  std::string error = kernel.Run(got.arguments, parts);
  if (error.empty()) error = Interpret(f, wanted.arguments, hooks);
  if (error.empty()) error = got.DifferenceFrom(wanted);
  for (std::int32_t i = 0; i < kernel.kernel().in_place_count; ++i) {
    if (!error.empty()) return error;
    error = CompareInPlace(f, kernel, kernel.kernel().in_place[i],
                           {symbols, seed, parts}, wanted);
  }
  return error;
}

}  // namespace tjit::ir
