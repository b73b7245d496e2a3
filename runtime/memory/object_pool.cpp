#include "runtime/memory/object_pool.h"

#include <new>
#include <utility>

namespace tjit::runtime {

__thread ObjectLists* object_lists __attribute__((tls_model("initial-exec"))) =
    nullptr;

namespace {

// Set when this thread's lists are gone: it does not get others.
__thread bool thread_ended __attribute__((tls_model("initial-exec"))) = false;

void FreeAll(ObjectList list) {
  while (list.head != nullptr) {
    void* const memory = list.head;
    std::memcpy(&list.head, memory, sizeof(list.head));
    ::operator delete(memory);
  }
}

struct ListsOwner {
  ~ListsOwner() {
    const ObjectLists* lists = std::exchange(object_lists, nullptr);
    thread_ended = true;
    if (lists == nullptr) return;
    FreeAll(lists->tensors);
    FreeAll(lists->storages);
    delete lists;
  }
};

const void* VtableOf(const c10::TensorImpl& impl) {
  return *reinterpret_cast<const void* const*>(&impl);
}

}  // namespace

const void* const g_plain_vtable = VtableOf(
    c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU),
                    caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU)));
const void* const g_pooled_vtable = VtableOf(
    PooledTensor(c10::DispatchKeySet(c10::DispatchKey::CPU),
                 caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU)));

void* NewObjectMemory(std::size_t bytes) {
  if (kPoolsObjects && object_lists == nullptr && !thread_ended) {
    object_lists = new ObjectLists;
    static thread_local ListsOwner owner;
    (void)owner;
  }
  return ::operator new(bytes);
}

}  // namespace tjit::runtime
