#include "bench/workloads.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>

namespace tjit::bench {

at::Tensor Uniform(at::IntArrayRef sizes, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::rand(sizes, generator, at::kFloat);
}

}  // namespace tjit::bench
