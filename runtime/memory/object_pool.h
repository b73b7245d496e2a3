// TensorImpl and StorageImpl of deferred results, in memory that goes round.
//
// A replayed op makes one of each and drops them soon after: that is two calls
// of malloc() and two of free(), more than all else that making them takes. So
// the classes here are libtorch's own with an operator delete that keeps the
// memory for the next one, in a list per thread. Nothing else is overridden:
// what they do, and what dynamic_cast says of them, is the same.
//
//   operator new:    own list | ::operator new
//   operator delete: own list | ::operator delete, where it is full
//
// A tensor whose operator delete finds it as it was made is not even taken
// apart: it stays around its block (tensor_recycler.h).
//
// The memory is the process's in any case, so an object may die on another
// thread than it was made on, and after its maker has ended.
//
// Invariants: (1) A list holds at most kMaxPooled objects. (2) A thread that
// ends gives its lists back. (3) Under sanitizers there are no lists, so that
// they see each object.
// Threads: any. Fork: lists of the parent's other threads are lost to the
// child. Tested by: tests/runtime/memory/object_pool_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace tjit::runtime {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kPoolsObjects = false;
#else
inline constexpr bool kPoolsObjects = true;
#endif

inline constexpr std::uint32_t kMaxPooled = 512;

// Memory of objects of one size; the next one's address is in their first
// bytes.
struct ObjectList {
  void* head = nullptr;
  std::uint32_t count = 0;
};

struct ObjectLists {
  ObjectList tensors, storages;
};

// Null until this thread needs one, and when it ends. A pointer: static thread
// storage is short where libtjit is loaded late.
extern __thread ObjectLists* object_lists
    __attribute__((tls_model("initial-exec")));

// THROWS: std::bad_alloc.
void* NewObjectMemory(std::size_t bytes);

template <std::size_t kBytes, ObjectList ObjectLists::*kList>
struct Pooled {
  static void* Acquire() {
    ObjectLists* const lists = object_lists;
    if (lists != nullptr && (lists->*kList).head != nullptr) [[likely]] {
      ObjectList& list = lists->*kList;
      void* const memory = list.head;
      std::memcpy(&list.head, memory, sizeof(list.head));
      --list.count;
      return memory;
    }
    return NewObjectMemory(kBytes);
  }
  static void Release(void* memory) {
    ObjectLists* const lists = object_lists;
    if (lists == nullptr || (lists->*kList).count >= kMaxPooled) [[unlikely]] {
      return ::operator delete(memory);
    }
    ObjectList& list = lists->*kList;
    std::memcpy(memory, &list.head, sizeof(list.head));
    list.head = memory;
    ++list.count;
  }
};

class PooledTensor final : public c10::TensorImpl {
 public:
  using Memory = Pooled<sizeof(c10::TensorImpl), &ObjectLists::tensors>;
  using TensorImpl::TensorImpl;
  // For Make(): with a destroying delete, nobody would free the memory of one
  // whose constructor throws.
  static void* operator new(std::size_t, void* place) { return place; }
  // The destructor has not run yet.
  static void operator delete(PooledTensor* tensor, std::destroying_delete_t);

  template <class... Args>
  static c10::intrusive_ptr<PooledTensor> Make(Args&&... args);

 private:
  friend class TensorRecycler;
};

template <class... Args>
c10::intrusive_ptr<PooledTensor> PooledTensor::Make(Args&&... args) {
  void* const memory = Memory::Acquire();
  try {
    return c10::intrusive_ptr<PooledTensor>::unsafe_steal_from_new(
        new (memory) PooledTensor(std::forward<Args>(args)...));
  } catch (...) {
    Memory::Release(memory);
    throw;
  }
}

class PooledStorage final : public c10::StorageImpl {
 public:
  using Memory = Pooled<sizeof(c10::StorageImpl), &ObjectLists::storages>;
  using StorageImpl::StorageImpl;
  static void* operator new(std::size_t) { return Memory::Acquire(); }
  static void operator delete(void* memory) { Memory::Release(memory); }
};

static_assert(sizeof(PooledTensor) == sizeof(c10::TensorImpl) &&
              sizeof(PooledStorage) == sizeof(c10::StorageImpl));

// The vtables of c10::TensorImpl itself and of the class above, which is the
// same to everybody: other subclasses have state that is not ours to rebuild.
extern const void* const g_plain_vtable;
extern const void* const g_pooled_vtable;
inline bool IsPlainVtable(const void* vtable) {
  return vtable == g_pooled_vtable || vtable == g_plain_vtable;
}
inline bool HasPlainVtable(const c10::TensorImpl* impl) {
  return IsPlainVtable(*reinterpret_cast<const void* const*>(impl));
}

}  // namespace tjit::runtime
