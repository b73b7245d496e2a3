// Preloaded under programs of others whose tests draw from generators that
// nobody seeds: they draw the same numbers in each run. libtorch takes the
// first seed of every generator from this function of libc10
// (c10/core/GeneratorImpl.h), by a call that another library may answer.
#include <cstdint>

namespace c10::detail {

[[gnu::visibility("default")]] std::uint64_t getNonDeterministicRandom(
    bool is_cuda);
std::uint64_t getNonDeterministicRandom(bool /*is_cuda*/) { return 1; }

}  // namespace c10::detail
