#include "runtime/library_calls/trial.h"

#include "support/pseudo_random.h"

namespace tjit::runtime {
namespace {

void FillRandom(char* data, std::uint64_t bytes, bool is_double) {
  PseudoRandom random(0x2545f4914f6cdd1d);
  const std::uint64_t count = bytes / (is_double ? 8 : 4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double v = static_cast<double>(random.Next() >> 40) * 0x1.0p-23 - 1;
    if (is_double) {
      reinterpret_cast<double*>(data)[i] = v;
    } else {
      reinterpret_cast<float*>(data)[i] = static_cast<float>(v);
    }
  }
}

}  // namespace

std::vector<ScalarValue> ScalarsOf(const Request& request) {
  std::vector<ScalarValue> scalars;
  for (const ScalarRecord& s : request.step.scalars) {
    scalars.push_back(s.value);
  }
  return scalars;
}

std::string RunOnRandom(const Request& request, PreparedStep* step) {
  const DummyMemory memory(request, DummyMemory::Use::kRuns);
  const bool is_double =
      c10::toRealValueType(request.results[0].scalar_type()) == at::kDouble;
  const std::vector<ByteRange> ranges = RangesOf(request);
  for (const ByteRange& range : ranges) {
    FillRandom(range.first.In(memory.slots()), range.bytes, is_double);
  }
  step->Run(memory.slots(), ScalarsOf(request).data());
  return std::string(ranges[0].first.In(memory.slots()), ranges[0].bytes);
}

}  // namespace tjit::runtime
