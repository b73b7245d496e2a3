#include "runtime/memory/object_pool.h"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tjit::runtime {
namespace {

c10::intrusive_ptr<PooledStorage> MakeStorage() {
  return c10::make_intrusive<PooledStorage>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(16),
      c10::GetCPUAllocator()->allocate(16), c10::GetCPUAllocator(),
      /*resizable=*/true);
}

at::Tensor MakeTensor() {
  return at::Tensor(PooledTensor::Make(
      c10::Storage(MakeStorage()), c10::DispatchKeySet(c10::DispatchKey::CPU),
      caffe2::TypeMeta::Make<float>()));
}

std::uint32_t PooledTensors() {
  return object_lists == nullptr ? 0 : object_lists->tensors.count;
}

TEST(PooledObjectsTest, MemoryGoesRound) {
  if (!kPoolsObjects) GTEST_SKIP() << "a sanitizer sees each object";
  const void* impl = nullptr;
  const void* storage = nullptr;
  {
    const at::Tensor t = MakeTensor();
    impl = t.unsafeGetTensorImpl();
    storage = t.storage().unsafeGetStorageImpl();
  }
  const at::Tensor t = MakeTensor();
  EXPECT_EQ(t.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(t.storage().unsafeGetStorageImpl(), storage);
}

TEST(PooledObjectsTest, ClassIsPlainToEverybody) {
  const at::Tensor t = MakeTensor();
  EXPECT_TRUE(HasPlainVtable(t.unsafeGetTensorImpl()));
  EXPECT_EQ(*reinterpret_cast<const void* const*>(t.unsafeGetTensorImpl()),
            g_pooled_vtable);
  EXPECT_NE(g_plain_vtable, g_pooled_vtable);
  const at::Tensor plain = t.detach();
  EXPECT_EQ(*reinterpret_cast<const void* const*>(plain.unsafeGetTensorImpl()),
            g_plain_vtable);
  EXPECT_TRUE(plain.is_alias_of(t));
}

// A weak reference keeps the object's memory, not its storage.
TEST(PooledObjectsTest, WeakReferences) {
  MakeTensor();
  const std::uint32_t before = PooledTensors();
  at::Tensor t = MakeTensor();
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weak(
      t.getIntrusivePtr());
  t.reset();
  EXPECT_TRUE(weak.expired());
  if (kPoolsObjects) {
    EXPECT_EQ(PooledTensors(), before - 1);
  }
  weak.reset();
  EXPECT_EQ(PooledTensors(), before);
}

TEST(PooledObjectsTest, ListsAreBounded) {
  std::vector<at::Tensor> all;
  for (std::uint32_t i = 0; i < 2 * kMaxPooled; ++i)
    all.push_back(MakeTensor());
  all.clear();
  EXPECT_EQ(PooledTensors(), kPoolsObjects ? kMaxPooled : 0);
}

// Made here and dropped there, and there is gone when here is dropped.
TEST(PooledObjectsTest, ObjectsDieOnAnyThread) {
  std::vector<at::Tensor> mine, theirs;
  for (int i = 0; i < 100; ++i) mine.push_back(MakeTensor());
  std::thread thread([&] {
    mine.clear();
    EXPECT_EQ(PooledTensors(), 0u);  // it has no lists yet
    MakeTensor();
    for (int i = 0; i < 100; ++i) theirs.push_back(MakeTensor());
    mine.push_back(MakeTensor());
    mine.clear();
    if (kPoolsObjects) {
      EXPECT_NE(PooledTensors(), 0u);
    }
  });
  thread.join();
  theirs.clear();
  EXPECT_TRUE(MakeTensor().defined());
}

}  // namespace
}  // namespace tjit::runtime
