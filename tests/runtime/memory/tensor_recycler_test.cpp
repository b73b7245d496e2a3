#include "runtime/memory/tensor_recycler.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/memory/block_cache.h"
#include "runtime/memory/reserved_block.h"

namespace tjit::runtime {
namespace {

// What the pending ops say of the next block that dies with an owner.
bool pending_ops_need_it = false;
bool pending_ops_gave_it_memory = false;
PendingQueue* const kSomeState = reinterpret_cast<PendingQueue*>(64);

void Hook(c10::StorageImpl*) {}

TensorGeometry GeometryOf(at::IntArrayRef sizes) {
  const at::Tensor like = at::empty(sizes);
  TensorGeometry g;
  g.key_set = like.key_set().raw_repr();
  g.dtype = static_cast<std::uint8_t>(like.scalar_type());
  g.itemsize = 4;
  g.ndim = static_cast<std::uint8_t>(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    g.sizes[d] = sizes[d];
    g.strides[d] = like.stride(static_cast<std::int64_t>(d));
  }
  return g;
}

// As an op that is deferred makes it; recycled ones are not looked for. `dies`:
// as one that died in earlier runs, if large without memory.
at::Tensor MakeNew(const TensorTemplate& form, bool quiet = true,
                   bool dies = false) {
  const auto bytes = static_cast<std::uint64_t>(form.geometry.numel()) * 4;
  Block* block =
      dies ? AllocateDyingBlock(bytes, quiet) : AllocateBlock(bytes, quiet);
  auto storage = c10::make_intrusive<PooledStorage>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(bytes),
      c10::DataPtr(block->data, block->data, &ReleaseBlock,
                   c10::Device(c10::kCPU)),
      BlockAllocator(), /*resizable=*/true);
  storage->set_materializer(&Hook);
  return MakeTensor(form, c10::Storage(std::move(storage)), 0);
}

at::Tensor AcquireRecycled(const TensorTemplate& form, std::uint32_t version) {
  const auto bytes = static_cast<std::uint64_t>(form.geometry.numel()) * 4;
  Block* block = nullptr;
  c10::TensorImpl* impl =
      TensorRecycler::Acquire(TensorRecycler::ClassOf(bytes), bytes,
                              *form.bytes.load(), version, &Hook, &block);
  if (impl == nullptr) return {};
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
          unsafe_steal_from_new(impl));
}

std::uint32_t Recycled() {
  return thread_cache == nullptr ? 0 : thread_cache->recycled;
}

class TensorRecyclerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kPoolsObjects) GTEST_SKIP() << "a sanitizer sees each object";
    InstallFaultHandler([](Block*) { return false; });
    TrimCache();
    MakeNew(*form_);  // the first of a form is made as libtorch makes it
    MakeNew(*form_);
    TrimCache();
    MakeNew(*form_, /*quiet=*/false);  // the thread may keep blocks again
    ASSERT_EQ(Recycled(), 0u);
  }
  // Makes a tensor, does something with it, drops it.
  std::uint32_t RecycledAfter(const std::function<void(at::Tensor)>& use) {
    at::Tensor t = MakeNew(*form_);
    const std::uint32_t before = Recycled();
    use(std::move(t));
    return Recycled() - before;
  }

  const std::shared_ptr<const TensorTemplate> form_ =
      TemplateOf(GeometryOf({3, 5}));
};

TEST_F(TensorRecyclerTest, ComesBackAsMade) {
  at::Tensor t = MakeNew(*form_);
  const void* const impl = t.unsafeGetTensorImpl();
  const void* const storage = t.storage().unsafeGetStorageImpl();
  const std::int64_t live = LiveBytes();
  const std::int64_t blocks = BlocksOfThread();
  t.unsafeGetTensorImpl()->bump_version();
  t.unsafeGetTensorImpl()->set_sizes_contiguous(at::IntArrayRef(15));
  t.reset();
  EXPECT_EQ(Recycled(), 1u);
  EXPECT_EQ(LiveBytes(), live - 60);
  EXPECT_EQ(BlocksOfThread(), blocks - 1);

  const auto other = TemplateOf(GeometryOf({14}));
  MakeNew(*other).reset();  // takes it apart
  EXPECT_EQ(Recycled(), 0u);
  MakeNew(*form_).reset();
  ASSERT_EQ(Recycled(), 1u);
  t = AcquireRecycled(*other, 2);
  ASSERT_TRUE(t.defined());
  EXPECT_EQ(t.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(t.storage().unsafeGetStorageImpl(), storage);
  EXPECT_EQ(Recycled(), 0u);
  EXPECT_EQ(LiveBytes(), live - 4);
  EXPECT_EQ(BlocksOfThread(), blocks);
  EXPECT_EQ(t.sizes(), at::IntArrayRef({14}));
  EXPECT_EQ(t.strides(), at::IntArrayRef({1}));
  EXPECT_EQ(t.numel(), 14);
  EXPECT_EQ(t._version(), 2);
  EXPECT_EQ(t.use_count(), 1);
  EXPECT_EQ(t.weak_use_count(), 1);
  EXPECT_EQ(t.storage().use_count(), 1);
  EXPECT_EQ(t.storage().nbytes(), 56u);
  EXPECT_TRUE(t.storage().unsafeGetStorageImpl()->has_materializer());
  const Block* block = BlockOf(t.storage().unsafeGetStorageImpl());
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->bytes, 56u);
  EXPECT_TRUE(block->program.load());
  EXPECT_FALSE(block->recycled);
  EXPECT_EQ(block->last_use.load(), 0u);
  EXPECT_EQ(block->last_write.load(), 0u);
}

TEST_F(TensorRecyclerTest, ServesForTwoClassesBelow) {
  const auto larger = TemplateOf(GeometryOf({320}));
  const auto two_less = TemplateOf(GeometryOf({256}));
  const auto three_less = TemplateOf(GeometryOf({224}));
  for (const auto& form : {larger, two_less, three_less}) {
    MakeNew(*form);  // the first of a form is made as libtorch makes it
    MakeNew(*form);
  }
  TrimCache();
  MakeNew(*larger, /*quiet=*/false);
  at::Tensor t = MakeNew(*larger);
  const std::int64_t live = LiveBytes();
  const void* const impl = t.unsafeGetTensorImpl();
  t.reset();
  ASSERT_EQ(Recycled(), 1u);
  const std::int64_t cached = CachedBytes();
  EXPECT_FALSE(AcquireRecycled(*three_less, 0).defined());
  // Who wants memory alone does not take it apart.
  const at::Tensor memory = MakeNew(*two_less);
  ASSERT_EQ(Recycled(), 1u);
  t = AcquireRecycled(*two_less, 3);
  ASSERT_TRUE(t.defined());
  EXPECT_EQ(t.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(t.sizes(), at::IntArrayRef({256}));
  EXPECT_EQ(t.storage().nbytes(), 1024u);
  EXPECT_EQ(t._version(), 3);
  EXPECT_EQ(LiveBytes(), live - 256 + 1024);
  t.reset();
  EXPECT_EQ(Recycled(), 1u);
  EXPECT_EQ(CachedBytes(), cached);
  t = AcquireRecycled(*larger, 0);  // it stayed in its class
  ASSERT_TRUE(t.defined());
  EXPECT_EQ(t.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(LiveBytes(), live + 1024);
}

TEST_F(TensorRecyclerTest, NotWhileAnyoneKnowsIt) {
  at::Tensor kept, view;
  c10::Storage storage;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> weak_storage;
  EXPECT_EQ(RecycledAfter([&](at::Tensor t) { t.reset(); }), 1u);
  EXPECT_EQ(RecycledAfter([&](const at::Tensor& t) { kept = t; }), 0u);
  EXPECT_EQ(RecycledAfter([&](const at::Tensor& t) { view = t.detach(); }), 0u);
  EXPECT_EQ(RecycledAfter([&](const at::Tensor& t) { storage = t.storage(); }),
            0u);
  EXPECT_EQ(RecycledAfter([&](const at::Tensor& t) {
              weak_storage = t.storage().getWeakStorageImpl();
            }),
            0u);
}

TEST_F(TensorRecyclerTest, NotWithMetadata) {
  EXPECT_EQ(RecycledAfter([](at::Tensor t) { t.requires_grad_(); }), 0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.unsafeGetTensorImpl()->set_sizes_contiguous(
                  at::IntArrayRef({1, 1, 1, 1, 3, 5}));
            }),
            0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.storage().unsafeGetStorageImpl()->get_extra_meta();
            }),
            0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.storage()
                  .unsafeGetStorageImpl()
                  ->set_warn_deprecated_on_mutable_data_ptr();
            }),
            0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.storage().unsafeGetStorageImpl()->set_resizable(false);
            }),
            0u);
}

TEST_F(TensorRecyclerTest, NotOverOtherMemory) {
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              BlockOf(t.storage().unsafeGetStorageImpl())->exposed = true;
            }),
            0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
                  c10::GetDefaultCPUAllocator()->allocate(60));
            }),
            0u);
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              t.storage().unsafeGetStorageImpl()->set_nbytes(8);
            }),
            0u);
  // It was reported to a listener, so its end is too.
  EXPECT_EQ(RecycledAfter([](const at::Tensor& t) {
              BlockOf(t.storage().unsafeGetStorageImpl())->kind = 0;
            }),
            0u);
  EXPECT_EQ(RecycledAfter([this](at::Tensor t) {
              Block* block = BlockOf(t.storage().unsafeGetStorageImpl());
              block->AddReader();
              t.reset();
              EXPECT_TRUE(block->DropReader());
              FreeBlock(block);
            }),
            0u);
}

TEST_F(TensorRecyclerTest, BlockThatPendingOpsNeedIsTheirs) {
  at::Tensor t = MakeNew(*form_);
  Block* const block = BlockOf(t.storage().unsafeGetStorageImpl());
  block->owner = kSomeState;
  pending_ops_need_it = true;
  t.reset();
  pending_ops_need_it = false;
  EXPECT_EQ(Recycled(), 0u);
  EXPECT_EQ(block->owner.load(), kSomeState);
  block->owner = nullptr;
  FreeBlock(block);

  t = MakeNew(*form_);
  BlockOf(t.storage().unsafeGetStorageImpl())->owner = kSomeState;
  t.reset();
  EXPECT_EQ(Recycled(), 1u);
}

TEST_F(TensorRecyclerTest, OthersGetPlainBlocks) {
  const void* data = nullptr;
  {
    const at::Tensor t = MakeNew(*form_);
    data = BlockOf(t.storage().unsafeGetStorageImpl())->data;
  }
  EXPECT_EQ(Recycled(), 1u);
  const c10::DataPtr p = BlockAllocator()->allocate(60);
  EXPECT_EQ(p.get(), data);
  EXPECT_EQ(Recycled(), 0u);
}

TEST_F(TensorRecyclerTest, AreFewAndGoWithTheirBlocks) {
  std::vector<at::Tensor> all;
  const std::vector<std::shared_ptr<const TensorTemplate>> forms = {
      form_, TemplateOf(GeometryOf({20})), TemplateOf(GeometryOf({40})),
      TemplateOf(GeometryOf({60}))};
  for (const auto& form : forms) {
    for (std::uint32_t i = 0; i < kMaxPooled; ++i) {
      all.push_back(MakeNew(*form));
    }
  }
  all.clear();
  EXPECT_LE(Recycled(), kMaxPooled);
  EXPECT_GT(Recycled(), kMaxPooled / 2);
  TrimCache();
  EXPECT_EQ(Recycled(), 0u);
  EXPECT_EQ(CachedBytes(), 0);
}

TEST_F(TensorRecyclerTest, ThreadsEnd) {
  const std::int64_t live = LiveBytes();
  std::thread thread([this] {
    MakeNew(*form_, /*quiet=*/false);
    MakeNew(*form_);
    EXPECT_EQ(Recycled(), 1u);
  });
  thread.join();
  EXPECT_EQ(LiveBytes(), live);
  EXPECT_TRUE(MakeNew(*form_).defined());
}

Block* BlockOfTensor(const at::Tensor& t) {
  return BlockOf(t.storage().unsafeGetStorageImpl());
}

// 64 KiB << 1, without memory: not counted as blocks or live bytes.
class RecycledSlotTest : public TensorRecyclerTest {
 protected:
  void SetUp() override {
    TensorRecyclerTest::SetUp();
    if (!IsSkipped()) large_ = KnownForm({30000});
  }
  // The first tensor of a form is made as libtorch makes it.
  static std::shared_ptr<const TensorTemplate> KnownForm(
      at::IntArrayRef sizes) {
    std::shared_ptr<const TensorTemplate> form = TemplateOf(GeometryOf(sizes));
    MakeNew(*form);
    TrimCache();
    MakeNew(*TemplateOf(GeometryOf({3, 5})), /*quiet=*/false);
    return form;
  }
  at::Tensor MakeDying() const {
    return MakeNew(*large_, /*quiet=*/true, /*dies=*/true);
  }
  std::shared_ptr<const TensorTemplate> large_;
};

TEST_F(RecycledSlotTest, ComesBackWithoutMemory) {
  const auto other = KnownForm({32768});  // of the class, 64 to 128 KiB
  const std::int64_t live = LiveBytes();
  const std::int64_t cached = CachedBytes();
  const std::int64_t blocks = BlocksOfThread();
  at::Tensor t = MakeDying();
  const void* const impl = t.unsafeGetTensorImpl();
  const Block* const block = BlockOfTensor(t);
  ASSERT_NE(block->kind & Block::kReserved, 0);
  t.reset();
  EXPECT_EQ(Recycled(), 1u);
  t = AcquireRecycled(*other, 1);
  ASSERT_TRUE(t.defined());
  EXPECT_EQ(t.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(BlockOfTensor(t), block);
  EXPECT_EQ(block->bytes, 131072u);
  EXPECT_EQ(t.storage().nbytes(), 131072u);
  EXPECT_NE(block->kind & Block::kReserved, 0);
  EXPECT_EQ(Recycled(), 0u);
  EXPECT_EQ(LiveBytes(), live);
  EXPECT_EQ(CachedBytes(), cached);
  EXPECT_EQ(BlocksOfThread(), blocks);
}

TEST_F(RecycledSlotTest, OfAnotherClassOrWithMemoryIsNot) {
  const std::vector<std::shared_ptr<const TensorTemplate>> others = {
      KnownForm({8192}), KnownForm({16384}), KnownForm({32769})};
  MakeDying().reset();
  ASSERT_EQ(Recycled(), 1u);
  for (const auto& form : others) {
    EXPECT_FALSE(AcquireRecycled(*form, 0).defined());
  }

  at::Tensor t = MakeDying();
  EnsureMemory(BlockOfTensor(t));
  BlockOfTensor(t)->data[0] = 1;
  t.reset();
  EXPECT_EQ(Recycled(), 1u);
}

// As where another thread runs what is pending, while this one drops it.
TEST_F(RecycledSlotTest, NotIfItGetsMemoryWhileItIsDropped) {
  const std::int64_t live = LiveBytes();
  at::Tensor t = MakeDying();
  BlockOfTensor(t)->owner = kSomeState;
  pending_ops_gave_it_memory = true;
  t.reset();
  pending_ops_gave_it_memory = false;
  EXPECT_EQ(Recycled(), 0u);
  EXPECT_EQ(LiveBytes(), live);
}

TEST_F(RecycledSlotTest, AreFewAndGoBackToTheirPool) {
  std::vector<at::Tensor> all;
  for (int i = 0; i < 40; ++i) all.push_back(MakeDying());
  const Block* const block = BlockOfTensor(all.front());  // dropped first
  all.clear();
  EXPECT_GT(Recycled(), 2u);
  EXPECT_LT(Recycled(), 20u);
  TrimCache();
  EXPECT_EQ(Recycled(), 0u);
  bool found = false;
  for (int i = 0; i < 40; ++i) {
    all.push_back(MakeDying());
    found |= BlockOfTensor(all.back()) == block;
  }
  EXPECT_TRUE(found);
}

TEST_F(RecycledSlotTest, ThreadsEnd) {
  const Block* block = nullptr;
  std::thread thread([&] {
    MakeNew(*form_, /*quiet=*/false);
    at::Tensor t = MakeDying();
    block = BlockOfTensor(t);
    t.reset();
    EXPECT_EQ(Recycled(), 1u);
  });
  thread.join();
  const at::Tensor next = MakeDying();
  EXPECT_EQ(BlockOfTensor(next), block);
}

}  // namespace

bool TakeOverDeadBlock(Block* block) {
  if (pending_ops_gave_it_memory) EnsureMemory(block);
  if (!pending_ops_need_it) block->owner = nullptr;
  return pending_ops_need_it;
}

}  // namespace tjit::runtime
