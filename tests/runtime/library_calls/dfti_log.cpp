#include "tests/runtime/library_calls/dfti_log.h"

#include <cstdarg>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace tjit::runtime::testing {
namespace {

using Status = Dfti::Status;
using Long = Dfti::Long;

thread_local int dims = 0;  // of the descriptor made last

template <Caller kCaller, class... T>
void Log(const T&... what) {
  DftiLog(kCaller).push_back(absl::StrCat(what...));
}

template <Caller kCaller, bool kIsDouble>
Status CreateOne(void** descriptor, int domain, Long length) {
  Log<kCaller>("create f", kIsDouble ? 64 : 32, " domain ", domain, " ",
               length);
  dims = 1;
  const Dfti& real = LibtorchDfti();
  return (kIsDouble ? real.create_f64_1d : real.create_f32_1d)(descriptor,
                                                               domain, length);
}

template <Caller kCaller, bool kIsDouble>
Status Create(void** descriptor, int domain, Long count, const Long* lengths) {
  Log<kCaller>("create f", kIsDouble ? 64 : 32, " domain ", domain, " ",
               absl::StrJoin(absl::MakeSpan(lengths, count), "x"));
  dims = static_cast<int>(count);
  const Dfti& real = LibtorchDfti();
  return (kIsDouble ? real.create_f64_md : real.create_f32_md)(
      descriptor, domain, count, lengths);
}

// What is set is a scale, strides, a number, or one of a few values.
template <Caller kCaller>
Status SetValue(void* descriptor, int what, std::va_list values) {
  const auto set = LibtorchDfti().set_value;
  if (what == 4 || what == 5) {
    const double scale = va_arg(values, double);
    Log<kCaller>(what, " = ", absl::Hex(absl::bit_cast<std::uint64_t>(scale)));
    return set(descriptor, what, scale);
  }
  if (what == 12 || what == 13) {
    const Long* const strides = va_arg(values, Long*);
    Log<kCaller>(what, " = ",
                 absl::StrJoin(absl::MakeSpan(strides, dims + 1), ", "));
    return set(descriptor, what, strides);
  }
  if (what == 10 || what == 11) {
    const int value = va_arg(values, int);
    Log<kCaller>(what, " = ", value);
    return set(descriptor, what, value);
  }
  const Long value = va_arg(values, Long);
  Log<kCaller>(what, " = ", value);
  return set(descriptor, what, value);
}

template <Caller kCaller>
Status SetOne(void* descriptor, int what, ...) {
  std::va_list values;
  va_start(values, what);
  const Status status = SetValue<kCaller>(descriptor, what, values);
  va_end(values);
  return status;
}

template <Caller kCaller>
Status Commit(void* descriptor) {
  Log<kCaller>("commit");
  return LibtorchDfti().commit(descriptor);
}

template <Caller kCaller, bool kIsForward>
Status Compute(void* descriptor, void* from, ...) {
  std::va_list values;
  va_start(values, from);
  void* const to = va_arg(values, void*);
  va_end(values);
  Log<kCaller>(kIsForward ? "forward" : "backward");
  const Dfti& real = LibtorchDfti();
  return (kIsForward ? real.forward : real.backward)(descriptor, from, to);
}

}  // namespace

std::vector<std::string>& DftiLog(Caller caller) {
  thread_local std::vector<std::string> logs[2];
  return logs[caller == Caller::kKeptFft ? 1 : 0];
}

Dfti LoggingDfti() {
  constexpr Caller kOurs = Caller::kKeptFft;
  Dfti dfti = LibtorchDfti();
  dfti.create_f32_1d = CreateOne<kOurs, false>;
  dfti.create_f64_1d = CreateOne<kOurs, true>;
  dfti.create_f32_md = Create<kOurs, false>;
  dfti.create_f64_md = Create<kOurs, true>;
  dfti.set_value = SetOne<kOurs>;
  dfti.commit = Commit<kOurs>;
  dfti.forward = Compute<kOurs, true>;
  dfti.backward = Compute<kOurs, false>;
  return dfti;
}

}  // namespace tjit::runtime::testing

using tjit::runtime::Dfti;
using tjit::runtime::testing::Caller;
constexpr Caller kTheirs = Caller::kLibtorch;

#define TJIT_DFTI(name) \
  extern "C" [[gnu::visibility("default")]] Dfti::Status name

TJIT_DFTI(DftiCreateDescriptor_s_1d)(void** d, int domain, Dfti::Long length) {
  return tjit::runtime::testing::CreateOne<kTheirs, false>(d, domain, length);
}
TJIT_DFTI(DftiCreateDescriptor_d_1d)(void** d, int domain, Dfti::Long length) {
  return tjit::runtime::testing::CreateOne<kTheirs, true>(d, domain, length);
}
TJIT_DFTI(DftiCreateDescriptor_s_md)
(void** d, int domain, Dfti::Long dims, const Dfti::Long* lengths) {
  return tjit::runtime::testing::Create<kTheirs, false>(d, domain, dims,
                                                        lengths);
}
TJIT_DFTI(DftiCreateDescriptor_d_md)
(void** d, int domain, Dfti::Long dims, const Dfti::Long* lengths) {
  return tjit::runtime::testing::Create<kTheirs, true>(d, domain, dims,
                                                       lengths);
}
TJIT_DFTI(DftiSetValue)(void* d, int what, ...) {
  std::va_list values;
  va_start(values, what);
  const Dfti::Status status =
      tjit::runtime::testing::SetValue<kTheirs>(d, what, values);
  va_end(values);
  return status;
}
TJIT_DFTI(DftiCommitDescriptor)(void* d) {
  return tjit::runtime::testing::Commit<kTheirs>(d);
}
TJIT_DFTI(DftiComputeForward)(void* d, void* from, ...) {
  std::va_list values;
  va_start(values, from);
  void* const to = va_arg(values, void*);
  va_end(values);
  return tjit::runtime::testing::Compute<kTheirs, true>(d, from, to);
}
TJIT_DFTI(DftiComputeBackward)(void* d, void* from, ...) {
  std::va_list values;
  va_start(values, from);
  void* const to = va_arg(values, void*);
  va_end(values);
  return tjit::runtime::testing::Compute<kTheirs, false>(d, from, to);
}
