// What the functions of libtjit_python.so that work with objects of Python
// share: the lock of the interpreter, arguments, errors and results.
// Threads: any, with the interpreter's lock unless it says otherwise.
// Tested by: tests/python/functions_test.py, tests/python/files_test.py
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "python/library/jit_interface.h"
#include "tjit/jit.h"

namespace tjit::python {

extern TjitPython g_python;

// While it lives, other threads may run Python.
class WithoutLock {
 public:
  WithoutLock() : state_(g_python.release_lock()) {}
  ~WithoutLock() { g_python.acquire_lock(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  void* const state_;
};

// While it lives, the thread has the interpreter's lock.
class WithLock {
 public:
  WithLock() : state_(g_python.ensure_lock()) {}
  ~WithLock() { g_python.leave_lock(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  const int state_;
};

// A reference to an object, or null. It ends on a thread with or without the
// interpreter's lock.
class Reference {
 public:
  explicit Reference(void* stolen) : object_(stolen) {}
  ~Reference() {
    if (object_ == nullptr) return;
    const WithLock locked;
    g_python.drop_reference(object_);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  void* object() const { return object_; }

 private:
  void* const object_;
};

// What a function returned, without its tensors.
struct Returned {
  Returned(void* f, std::size_t n) : form(f), tensors(n) {
    if (f != nullptr) g_python.add_reference(f);
  }

  const Reference form;
  const std::size_t tensors;
};

using TensorPointer =
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

inline at::Tensor TensorOf(std::uint64_t impl) {
  return at::Tensor(
      TensorPointer::reclaim_copy(reinterpret_cast<c10::TensorImpl*>(impl)));
}

// Tensors of the caller, without references of their own.
class Borrowed {
 public:
  explicit Borrowed(std::size_t count) { tensors_.reserve(count); }
  ~Borrowed() {
    for (at::Tensor& t : tensors_) {
      static_cast<void>(t.unsafeReleaseTensorImpl());
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  // The reference holds, as there is room for all.
  const at::Tensor& Add(std::uint64_t impl) {
    tensors_.emplace_back(
        TensorPointer::reclaim(reinterpret_cast<c10::TensorImpl*>(impl)));
    return tensors_.back();
  }

 private:
  c10::SmallVector<at::Tensor, 8> tensors_;
};

template <class T>
T ReadAt(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// One call, with its arguments.
struct Call {
  Call(internal::JitCore* core, std::size_t count)
      : arguments(count), jit(core) {}
  Call(internal::JitCore* core, const char* packed)
      : arguments(ReadAt<std::uint32_t>(packed)), jit(core) {
    const auto count = ReadAt<std::uint32_t>(packed);
    const auto text_size = ReadAt<std::uint32_t>(packed + 4);
    const char* const kinds = packed + 8;
    const char* const text = kinds + count;
    const std::size_t head = (std::size_t{8} + count + text_size + 7) & ~7U;
    jit.Text({text, text_size});
    for (std::uint32_t i = 0; i < count; ++i) {
      const char* const value = packed + head + std::size_t{8} * i;
      if (kinds[i] == 't') {
        AddTensor(ReadAt<std::uint64_t>(value));
      } else if (kinds[i] == 'c') {
        jit.ComputedNumber(ReadAt<double>(value));
      } else {
        jit.Number(ReadAt<double>(value));
      }
    }
  }
  void AddTensor(std::uint64_t impl) { jit.Tensor(arguments.Add(impl)); }

  Borrowed arguments;  // outlives the call
  internal::JitCall jit;
};

inline std::shared_ptr<internal::JitCore>* CoreOf(void* core) {
  return static_cast<std::shared_ptr<internal::JitCore>*>(core);
}

// Without where in libtorch it was thrown.
inline void Raise(void* type, std::string_view what) {
  const std::string text(what.substr(0, what.find("\nException raised from ")));
  g_python.set_error(type, text.c_str());
}

// What `body` returns; null, with the Python error that libtorch makes of a
// C++ one, where it throws.
template <class Body>
void* Guarded(Body body) {
  try {
    return body();
  } catch (const c10::IndexError& e) {
    Raise(g_python.index_error, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    Raise(g_python.value_error, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    Raise(g_python.type_error, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    Raise(g_python.not_implemented_error, e.what_without_backtrace());
  } catch (const std::exception& e) {
    Raise(g_python.runtime_error, e.what());
  } catch (...) {  // Python knows no exception of C++
    Raise(g_python.runtime_error, "an exception of an unknown type");
  }
  return nullptr;
}

// The numbers of `stats` in its order, and why: a text of the calling thread.
inline const char* StatsOf(const JitStats& stats, long long* numbers) {
  thread_local std::string why;
  for (const std::int64_t number :
       {stats.calls, stats.replays, stats.recordings, stats.verified,
        stats.not_same, stats.plans}) {
    *numbers++ = number;
  }
  why = stats.why;
  return why.c_str();
}

// The tensor, or a tuple of `form` and the tensors.
template <class Tensors>
void* Results(void* form, const Tensors& tensors) {
  if (form == nullptr) return g_python.wrap(&tensors[0]);
  void* const tuple =
      g_python.new_tuple(static_cast<std::ptrdiff_t>(tensors.size()) + 1);
  if (tuple == nullptr) return nullptr;
  g_python.add_reference(form);
  g_python.set_item(tuple, 0, form);
  std::ptrdiff_t at = 0;
  for (const at::Tensor& t : tensors) {
    void* const object = g_python.wrap(&t);
    if (object == nullptr) {
      g_python.drop_reference(tuple);
      return nullptr;
    }
    g_python.set_item(tuple, ++at, object);
  }
  return tuple;
}

}  // namespace tjit::python
