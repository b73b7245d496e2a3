#include "runtime/library_calls_trial.h"

#include <ATen/EmptyTensor.h>

namespace tjit::runtime {
namespace {

// From the first byte that a tensor has to behind the last one; storages may be
// far larger.
struct Range {
  SlotAddress first;
  std::uint64_t bytes;
};

Range RangeOf(const at::Tensor& tensor, const SlotAddress& first) {
  return {first, at::detail::computeStorageNbytes(
                     tensor.sizes(), tensor.strides(), tensor.itemsize())};
}

void FillRandom(char* data, std::uint64_t bytes, bool is_double) {
  std::uint64_t state = 0x2545f4914f6cdd1d;
  const std::uint64_t count = bytes / (is_double ? 8 : 4);
  for (std::uint64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double v = static_cast<double>(state >> 40) * 0x1.0p-23 - 1;
    if (is_double) {
      reinterpret_cast<double*>(data)[i] = v;
    } else {
      reinterpret_cast<float*>(data)[i] = static_cast<float>(v);
    }
  }
}

}  // namespace

std::string RunOnRandom(const Request& request, PreparedStep* step) {
  const DummyMemory memory(request);
  const bool is_double =
      c10::toRealValueType(request.results[0].scalar_type()) == at::kDouble;
  const Range result = RangeOf(request.results[0], request.result_address(0));
  std::vector<Range> ranges = {result};
  for (std::size_t i = 0; i < request.args.size(); ++i) {
    if (!request.args[i].defined()) continue;
    ranges.push_back(RangeOf(request.args[i], request.arg_address(i)));
  }
  for (const Range& range : ranges) {
    FillRandom(range.first.In(memory.slots()), range.bytes, is_double);
  }
  std::vector<ScalarValue> scalars;
  for (const ScalarRecord& s : request.step.scalars) {
    scalars.push_back(s.value);
  }
  step->Run(memory.slots(), scalars.data());
  return std::string(result.first.In(memory.slots()), result.bytes);
}

}  // namespace tjit::runtime
