#include "python/library/jit_interface.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tjit/jit.h"

namespace {

using tjit::internal::JitCall;
using tjit::internal::JitCore;

TjitPython g_python;

constexpr const char* kCapsule = "tjit.JitCall";

// What a function returned, without its tensors.
struct Returned {
  Returned(void* f, std::size_t n) : form(f), tensors(n) {
    if (form != nullptr) g_python.add_reference(form);
  }
  // On a thread with or without the interpreter's lock.
  ~Returned() {
    if (form == nullptr) return;
    const int state = g_python.ensure_lock();
    g_python.drop_reference(form);
    g_python.leave_lock(state);
  }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;

  void* const form;
  const std::size_t tensors;
};

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

using TensorPointer =
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

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

template <class T>
T FieldOf(const void* object, std::size_t at) {
  return ReadAt<T>(static_cast<const char*>(object) + at);
}

struct Call {
  Call(JitCore* core, std::size_t count) : arguments(count), jit(core) {}
  Call(JitCore* core, const char* packed)
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
      } else {
        jit.Number(ReadAt<double>(value));
      }
    }
  }
  void AddTensor(std::uint64_t impl) { jit.Tensor(arguments.Add(impl)); }

  Borrowed arguments;  // outlives the call
  JitCall jit;
};

// A call with these arguments, or null if they are no tensors and floats.
std::unique_ptr<Call> CallOfPlain(JitCore* core, void* arguments,
                                  std::string_view more) {
  if (g_python.impl_at == 0) return nullptr;
  const std::ptrdiff_t count = g_python.size_of_tuple(arguments);
  auto call = std::make_unique<Call>(core, static_cast<std::size_t>(count));
  std::string text("i");
  text.append(std::to_string(count)).append(";");
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    void* const item = g_python.item_of_tuple(arguments, i);
    const auto* const type = FieldOf<void*>(item, g_python.type_at);
    if (type == g_python.tensor_type || type == g_python.parameter_type) {
      call->AddTensor(FieldOf<std::uint64_t>(item, g_python.impl_at));
      text += type == g_python.tensor_type ? 't' : 'p';
    } else if (type == g_python.float_type) {
      call->jit.Number(g_python.value_of_float(item));
      text += 'n';
    } else {
      return nullptr;
    }
  }
  call->jit.Text(text.append(more));
  return call;
}

std::shared_ptr<JitCore>* CoreOf(void* core) {
  return static_cast<std::shared_ptr<JitCore>*>(core);
}

// Without where in libtorch it was thrown.
void Raise(void* type, std::string_view what) {
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

// The tensor, or a tuple of `form` and the tensors.
void* Results(void* form, const c10::SmallVector<at::Tensor, 4>& tensors) {
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

// Its end runs what is pending, where tjit is on for the call alone.
void Destroy(std::unique_ptr<Call> call) {
  const WithoutLock unlocked;
  call.reset();
}

// What a capsule holds: a call until it ends.
using Handle = std::unique_ptr<Call>;

Handle* HandleOf(void* capsule) {
  return static_cast<Handle*>(g_python.get_capsule(capsule, kCapsule));
}

void* NewCapsule(std::unique_ptr<Call> call) {
  auto handle = std::make_unique<Handle>(std::move(call));
  void* const capsule =
      g_python.new_capsule(handle.get(), kCapsule, [](void* gone) {
        const std::unique_ptr<Handle> handle(HandleOf(gone));
        if (*handle != nullptr) Destroy(std::move(*handle));
      });
  if (capsule != nullptr) static_cast<void>(handle.release());
  return capsule;
}

// Who holds a tensor is told from libtjit by its count of references: two of
// each result, of the caller and of the call. An object of Python is one
// reference, however often it is a result, so the others are made up for.
void AddResults(int count, const std::uint64_t* tensors, const char* kept,
                JitCall* call, std::vector<at::Tensor>* references) {
  for (int i = 0; i < count; ++i) {
    const auto impl = TensorPointer::reclaim_copy(
        reinterpret_cast<c10::TensorImpl*>(tensors[i]));
    const at::Tensor tensor(impl);
    call->AddResult(tensor);
    for (int before = 0; before < i; ++before) {
      if (tensors[before] != tensors[i]) continue;
      references->push_back(tensor);
      break;
    }
    if (kept[i] != 0) references->push_back(tensor);
  }
}

// Replays the call, or opens it.
void* Begin(std::unique_ptr<Call> call) {
  c10::SmallVector<at::Tensor, 4> tensors;
  void* form = nullptr;
  bool is_replayed = false;
  {
    const WithoutLock unlocked;
    is_replayed = call->jit.Begin();
    if (is_replayed) {
      const auto* const returned =
          static_cast<const Returned*>(call->jit.returned());
      form = returned->form;
      for (std::size_t i = 0; i < returned->tensors; ++i) {
        tensors.push_back(call->jit.TakeResult());
      }
      call.reset();
    }
  }
  return is_replayed ? Results(form, tensors) : NewCapsule(std::move(call));
}

// Its address and mode, and those of the modules in it. False if it has another
// form than an object of torch.nn.Module has, or holds itself.
bool AppendModes(void* module, std::string* modes, int depth = 0) {
  static void* const kTraining = g_python.string("training");
  static void* const kModules = g_python.string("_modules");
  constexpr int kMostDepth = 100;
  if (depth > kMostDepth) return false;
  void* const dict = g_python.dict_of(module, nullptr);
  if (dict == nullptr) {
    g_python.clear_error();
    return false;
  }
  g_python.drop_reference(dict);  // the module has it
  if (FieldOf<void*>(dict, g_python.type_at) != g_python.dict_type) {
    return false;
  }
  const void* const training = g_python.item_of_dict(dict, kTraining);
  void* const children = g_python.item_of_dict(dict, kModules);
  if ((training != g_python.true_object && training != g_python.false_object) ||
      children == nullptr ||
      FieldOf<void*>(children, g_python.type_at) != g_python.dict_type) {
    return false;
  }
  modes->append(reinterpret_cast<const char*>(&module), sizeof(module));
  *modes += training == g_python.true_object ? '+' : '-';
  std::ptrdiff_t at = 0;
  void* name = nullptr;
  void* child = nullptr;
  while (g_python.next_of_dict(children, &at, &name, &child) != 0) {
    if (child == g_python.none) continue;
    if (!AppendModes(child, modes, depth + 1)) return false;
  }
  *modes += '.';
  return true;
}

}  // namespace

extern "C" {

void tjit_py_jit_setup(const TjitPython* python) { g_python = *python; }

void* tjit_py_jit_new(const char* name, long long verify_every, int follow,
                      int strict) {
  return Guarded([&]() -> void* {
    const WithoutLock unlocked;
    return new std::shared_ptr<JitCore>(
        tjit::internal::MakeJitCore({.name = name,
                                     .verify_every = verify_every,
                                     .follow = follow != 0,
                                     .strict = strict != 0}));
  });
}

void tjit_py_jit_delete(void* core) { delete CoreOf(core); }

void tjit_py_jit_reset(void* core) {
  tjit::internal::ResetJitCore(CoreOf(core)->get());
}

const char* tjit_py_jit_stats(const void* core, long long* numbers) {
  thread_local std::string why;
  tjit::JitStats stats = tjit::internal::StatsOfJitCore(
      **static_cast<const std::shared_ptr<JitCore>*>(core));
  for (const std::int64_t number :
       {stats.calls, stats.replays, stats.recordings, stats.verified,
        stats.not_same, stats.plans}) {
    *numbers++ = number;
  }
  why = std::move(stats.why);
  return why.c_str();
}

void* tjit_py_jit_begin(void* core, const char* packed) {
  return Guarded([&] {
    return Begin(std::make_unique<Call>(CoreOf(core)->get(), packed));
  });
}

void* tjit_py_jit_begin_plain(void* core, void* arguments) {
  return tjit_py_jit_begin_watched(core, arguments, "", 0);
}

void* tjit_py_jit_begin_watched(void* core, void* arguments, const char* more,
                                int more_size) {
  return Guarded([&]() -> void* {
    std::unique_ptr<Call> call =
        CallOfPlain(CoreOf(core)->get(), arguments,
                    {more, static_cast<std::size_t>(more_size)});
    if (call != nullptr) return Begin(std::move(call));
    g_python.add_reference(g_python.none);
    return g_python.none;
  });
}

void* tjit_py_modes_of_module(void* module) {
  return Guarded([&]() -> void* {
    std::string modes;
    if (AppendModes(module, &modes)) {
      return g_python.new_bytes(modes.data(),
                                static_cast<std::ptrdiff_t>(modes.size()));
    }
    g_python.add_reference(g_python.none);
    return g_python.none;
  });
}

int tjit_py_jit_wants(void* capsule) {
  return (*HandleOf(capsule))->jit.wants_results() ? 1 : 0;
}

int tjit_py_jit_end(void* capsule, int is_changed, int count,
                    const std::uint64_t* tensors, const char* kept,
                    const char* text, int text_size, void* form) {
  std::unique_ptr<Call> call = std::move(*HandleOf(capsule));
  void* const done = Guarded([&]() -> void* {
    const auto take = [&](std::uint64_t w) { call->jit.AddResultWord(w); };
    tjit::internal::SplitIntoWords({text, static_cast<std::size_t>(text_size)},
                                   take);
    std::vector<at::Tensor> references;
    AddResults(count, tensors, kept, &call->jit, &references);
    // An argument that is not there stands for one that has changed.
    if (is_changed != 0) call->jit.CheckWord(SIZE_MAX, 0);
    auto returned =
        std::make_shared<Returned>(form, static_cast<std::size_t>(count));
    const WithoutLock unlocked;
    call->jit.End(std::move(returned));
    return capsule;
  });
  Destroy(std::move(call));
  return done == nullptr ? -1 : 0;
}

void tjit_py_jit_abandon(void* capsule) {
  Destroy(std::move(*HandleOf(capsule)));
}

void tjit_py_no_jit() { const tjit::NoJit scope("of Python"); }

}  // extern "C"
