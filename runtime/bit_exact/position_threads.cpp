#include "runtime/bit_exact/position_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

thread_local int t_threads = 0;  // 0: none

}  // namespace

std::int64_t PositionChunk(std::int64_t total, std::int64_t grain,
                           int threads) {
  if (threads <= 1 || total <= grain || grain <= 0) return total;
  const std::int64_t parts =
      std::min<std::int64_t>(threads, (total + grain - 1) / grain);
  return (total + parts - 1) / parts;
}

PositionThreads::PositionThreads(int threads) : before_(t_threads) {
  t_threads = threads;
}
PositionThreads::~PositionThreads() { t_threads = before_; }

int PositionThreads::Current() {
  const int threads = at::get_num_threads();
  return threads == 1 || InRegion() ? 1 : threads;
}

int PositionThreads::InForce() {
  return t_threads > 0 ? t_threads : Current();
}

}  // namespace tjit::runtime
