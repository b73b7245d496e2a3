// Small memory that the program fills through a pointer is copied when it is
// deferred. A new value of it is a new value, wherever it lies.
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tjit {
namespace {

constexpr int kSteps = 60;

class CopiedSlotsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options fast;
    fast.hot_threshold = 2;
    ASSERT_TRUE(enable(fast));
    before_ = stats();
  }
  void TearDown() override {
    disable();
    clear();
  }
  Stats Since() const { return stats() - before_; }

 private:
  Stats before_;
};

// {1, 1, 1, 1, rest, rest, ...}
at::Tensor Filled(std::int64_t size, float rest) {
  at::Tensor t = at::empty({size});
  float* p = t.data_ptr<float>();
  for (std::int64_t i = 0; i < size; ++i) p[i] = i < 4 ? 1.0f : rest;
  return t;
}

// The second storage has the address of the first one, which has died, and
// begins with the same bytes.
TEST_F(CopiedSlotsTest, AStorageAtTheAddressOfADeadOne) {
  const at::Tensor x4 = at::zeros({4}), x16 = at::zeros({16});
  int same_address = 0;
  for (int i = 0; i < kSteps; ++i) {
    at::Tensor a = Filled(4, 0);
    const void* first = a.storage().unsafeGetStorageImpl();
    const at::Tensor y = at::add(x4, a);
    a.reset();
    at::Tensor b = Filled(16, static_cast<float>(i));
    same_address += b.storage().unsafeGetStorageImpl() == first ? 1 : 0;
    const at::Tensor z = at::add(x16, b);
    b.reset();
    ASSERT_EQ(at::sum(z).item<float>(), 4.0f + 12.0f * i) << "step " << i;
    ASSERT_EQ(y.const_data_ptr<float>()[3], 1.0f);
  }
  EXPECT_GT(same_address, kSteps / 2);  // else nothing was tested
  EXPECT_GT(Since().ops_replayed, kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
}

// One storage that is filled anew between two ops of a step.
TEST_F(CopiedSlotsTest, AStorageThatIsFilledAnew) {
  const at::Tensor x = at::zeros({4});
  const at::Tensor a = at::empty({4});
  float* p = a.data_ptr<float>();
  for (int i = 0; i < kSteps; ++i) {
    p[0] = p[1] = p[2] = p[3] = 1.0f;
    const at::Tensor y = at::add(x, a);
    p[3] = static_cast<float>(i);
    const at::Tensor z = at::add(y, a);
    p[3] = 100.0f;
    const at::Tensor w = at::add(z, a);
    p[3] = -1.0f;
    ASSERT_EQ(at::sum(w).item<float>(), 110.0f + i) << "step " << i;
  }
  EXPECT_GT(Since().ops_replayed, kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
}

// Tensors from host data in mid-step: each has the block of a temporary that
// died before it in the step.
TEST_F(CopiedSlotsTest, AConstantInMidStep) {
  const at::Tensor w = at::full({4}, 0.25f);
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor a = at::add(at::add(at::add(w, w), w), w);
    const at::Tensor c = Filled(4, 0);
    const at::Tensor b = at::add(a, c);
    const at::Tensor d = Filled(16, static_cast<float>(i));
    ASSERT_EQ(at::sum(at::add(b, d.narrow(0, 4, 4))).item<float>(),
              8.0f + 4.0f * static_cast<float>(i))
        << "step " << i;
  }
  EXPECT_GT(Since().ops_replayed, 4 * kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
}

// A tensor from host data that has another type, for a while or in each step.
TEST_F(CopiedSlotsTest, AConstantThatChangesType) {
  constexpr std::array kTypes{at::kFloat, at::kDouble, at::kFloat, at::kLong};
  const at::Tensor w = at::full({4}, 0.25f);
  for (int i = 0; i < 4 * kSteps; ++i) {
    const int turn = i < 2 * kSteps ? i / 20 : i;
    const at::ScalarType type = kTypes[static_cast<std::size_t>(turn % 4)];
    const at::Tensor c = at::tensor({i, i, i, i + 1}, type);
    const at::Tensor one = at::scalar_tensor(1, type);
    const at::Tensor y = at::sub(at::add(at::mul(at::add(w, w), c), one), w);
    ASSERT_EQ(y.scalar_type(), c10::promoteTypes(at::kFloat, type));
    ASSERT_EQ(at::sum(y).item<double>(), 2.0 * i + 3.5) << "step " << i;
  }
  EXPECT_GT(Since().ops_replayed, 8 * kSteps) << Since().to_json();
}

// A large input that is filled through one pointer each step, and again between
// two ops that read it: what each of them read is copied.
TEST_F(CopiedSlotsTest, ALargeInputFilledThroughAPointer) {
  constexpr std::int64_t kSize = 20000;  // 80 kB
  const at::Tensor x = at::zeros({kSize});
  float* p = x.data_ptr<float>();
  for (int i = 0; i < kSteps; ++i) {
    const auto f = static_cast<float>(i);
    p[0] = p[kSize - 1] = f;
    const at::Tensor y = at::add(x, x);
    const at::Tensor z = at::mul(at::add(y, x), x);
    p[kSize - 1] = -1;
    const at::Tensor w = at::add(z, x);
    p[0] = 1000;
    ASSERT_EQ(at::sum(w).item<float>(), (3 * f * f + f) + (3 * f * f - 1))
        << "step " << i;
  }
  EXPECT_GT(Since().ops_replayed, 4 * kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
  EXPECT_GT(Since().inputs_copied, kSteps) << Since().to_json();
}

// Rows of memory of others, each step others, which may end with a page.
TEST_F(CopiedSlotsTest, RowsOfMemoryOfOthers) {
  std::vector<float> memory(1 << 20);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<float>(i % 1021);
  }
  const at::Tensor all = at::from_blob(memory.data(), {1 << 10, 1 << 10});
  for (int i = 0; i < kSteps; ++i) {
    const std::int64_t a = i * 7 % 1024, b = 1023 - i;
    const at::Tensor y = at::add(at::mul(all[a], all[b]), all[a]);
    const at::Tensor z = at::sub(y, 1);
    const float want =
        memory[a * 1024 + 9] * memory[b * 1024 + 9] + memory[a * 1024 + 9] - 1;
    ASSERT_EQ(z.const_data_ptr<float>()[9], want) << "step " << i;
    mark_step();
  }
  EXPECT_GT(Since().ops_replayed, 2 * kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
}

// Memory that the program frees once the op has been called.
TEST_F(CopiedSlotsTest, MemoryThatIsFreedAfterTheCall) {
  for (int i = 0; i < kSteps; ++i) {
    at::Tensor y;
    {
      std::vector<float> memory(2000, static_cast<float>(i));
      const at::Tensor x = at::from_blob(memory.data(), {2000});
      y = at::add(at::mul(x, 2), x);
      std::fill(memory.begin(), memory.end(), -1.0f);
    }
    ASSERT_EQ(at::sum(y).item<float>(), 6000.0f * static_cast<float>(i));
  }
  EXPECT_GT(Since().ops_replayed, kSteps) << Since().to_json();
  EXPECT_EQ(Since().ops_drained, 0) << Since().to_json();
}

}  // namespace
}  // namespace tjit
