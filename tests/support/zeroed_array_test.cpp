#include "support/zeroed_array.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

constexpr std::size_t kMany = std::size_t{16} << 20;

struct Pages {
  void* first = nullptr;
  std::size_t bytes = 0;
};

std::size_t PageBytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Pages PagesOf(ZeroedArray<std::uint64_t>* array) {
  return {&(*array)[0], array->size() * sizeof(std::uint64_t)};
}

// Those that have memory.
std::size_t ResidentPages(ZeroedArray<std::uint64_t>* array) {
  const Pages pages = PagesOf(array);
  std::vector<unsigned char> is_there(pages.bytes / PageBytes());
  EXPECT_EQ(mincore(pages.first, pages.bytes, is_there.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(is_there.begin(), is_there.end(),
                    [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(ZeroedArrayTest, IsZero) {
  ZeroedArray<std::uint64_t> array(1000);
  for (std::size_t i = 0; i < array.size(); ++i) EXPECT_EQ(array[i], 0u);
  array[999] = 7;
  const ZeroedArray<std::uint64_t> moved = std::move(array);
  EXPECT_EQ(moved.size(), 1000u);
  EXPECT_EQ(moved[999], 7u);
  EXPECT_EQ(array.size(), 0u);
}

TEST(ZeroedArrayTest, TakesMemoryWhereItIsWritten) {
  ZeroedArray<std::uint64_t> array(kMany);
  EXPECT_EQ(ResidentPages(&array), 0u);
  // Or a page may be of 2 MiB.
  ASSERT_EQ(
      madvise(PagesOf(&array).first, PagesOf(&array).bytes, MADV_NOHUGEPAGE),
      0);
  array[kMany / 2] = 1;
  EXPECT_EQ(ResidentPages(&array), 1u);
}

}  // namespace
}  // namespace tjit
