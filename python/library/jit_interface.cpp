#include "python/library/jit_interface.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/library/python_calls.h"
#include "tjit/jit.h"

namespace tjit::python {

TjitPython g_python;

namespace {

using tjit::internal::JitCall;
using tjit::internal::JitCore;

constexpr const char* kCapsule = "tjit.JitCall";

template <class T>
T FieldOf(const void* object, std::size_t at) {
  return ReadAt<T>(static_cast<const char*>(object) + at);
}

// The address of the TensorImpl of a tensor of Python.
std::uint64_t ImplOf(const void* tensor) {
  return FieldOf<std::uint64_t>(tensor, g_python.impl_at);
}

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
      call->AddTensor(ImplOf(item));
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

// THROWS: c10::Error where the function threw, or was not run.
std::vector<at::Tensor> RunAgain(const Reference& again) {
  const WithLock locked;
  void* const nothing = g_python.new_tuple(0);
  const Reference made(g_python.call(again.object(), nothing));
  g_python.drop_reference(nothing);
  std::string why = "an exception that is none of class Exception";
  if (made.object() == nullptr) {
    g_python.clear_error();
  } else if (FieldOf<void*>(made.object(), g_python.type_at) ==
             g_python.tuple_type) {
    std::vector<at::Tensor> tensors;
    const std::ptrdiff_t count = g_python.size_of_tuple(made.object());
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      tensors.push_back(
          TensorOf(ImplOf(g_python.item_of_tuple(made.object(), i))));
    }
    return tensors;
  } else {
    std::ptrdiff_t size = 0;
    const char* const text = g_python.text_of(made.object(), &size);
    if (text == nullptr) {
      g_python.clear_error();
    } else {
      why.assign(text, static_cast<std::size_t>(size));
    }
  }
  TORCH_CHECK(false, "tjit.jit: a backward pass runs a function again, and ",
              why);
}

// Replays the call, or opens it. `again`: null or of begin().
void* Begin(std::unique_ptr<Call> call, std::unique_ptr<Reference> again) {
  c10::SmallVector<at::Tensor, 4> tensors;
  void* form = nullptr;
  bool is_replayed = false;
  {
    const WithoutLock unlocked;
    call->jit.graph().may_run_again = again != nullptr;
    is_replayed = call->jit.Begin();
    if (is_replayed) {
      const auto* const returned =
          static_cast<const Returned*>(call->jit.returned());
      form = returned->form.object();
      for (std::size_t i = 0; i < returned->tensors; ++i) {
        tensors.push_back(call->jit.TakeResult());
      }
      if (call->jit.graph().node != nullptr && again != nullptr) {
        tjit::internal::KeepRun(
            call->jit.graph().node,
            [run = std::shared_ptr<Reference>(std::move(again))] {
              return RunAgain(*run);
            });
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

// False where a tensor has no number that step() could add one to.
bool ReadSteps(int count, const std::uint64_t* tensors, double* numbers) {
  for (int i = 0; i < count; ++i) {
    const at::Tensor step = TensorOf(tensors[i]);
    if (step.numel() != 1 || !step.is_cpu() || !step.is_floating_point() ||
        step.layout() != at::kStrided ||
        (step.is_inference() && !c10::InferenceMode::is_enabled())) {
      return false;
    }
    numbers[i] = step.item().toDouble();
  }
  return true;
}

// Where one of them throws, those before have their numbers again.
void AddToSteps(int count, const std::uint64_t* tensors,
                const double* numbers) {
  const auto step_of = [&](int i) {
    const at::Tensor step = TensorOf(tensors[i]);
    return step.requires_grad() ? step.detach() : step;  // as in step()
  };
  int done = 0;
  try {
    for (; done < count; ++done) step_of(done).add_(1);
  } catch (...) {
    while (done > 0) {
      --done;
      step_of(done).fill_(numbers[done]);
    }
    throw;
  }
}

}  // namespace

}  // namespace tjit::python

using namespace tjit::python;  // NOLINT(google-build-using-namespace)

extern "C" {

void tjit_py_jit_setup(const TjitPython* python) { g_python = *python; }

void* tjit_py_jit_new(const char* name, long long verify_every, int follow,
                      int strict, int gradients) {
  return Guarded([&]() -> void* {
    const WithoutLock unlocked;
    return new std::shared_ptr<JitCore>(
        tjit::internal::MakeJitCore({.name = name,
                                     .verify_every = verify_every,
                                     .follow = follow != 0,
                                     .strict = strict != 0,
                                     .gradients = gradients != 0}));
  });
}

void tjit_py_jit_delete(void* core) { delete CoreOf(core); }

void tjit_py_jit_reset(void* core) {
  tjit::internal::ResetJitCore(CoreOf(core)->get());
}

const char* tjit_py_jit_stats(const void* core, long long* numbers) {
  return StatsOf(tjit::internal::StatsOfJitCore(
                     **static_cast<const std::shared_ptr<JitCore>*>(core)),
                 numbers);
}

void* tjit_py_jit_begin(void* core, const char* packed, void* again) {
  return Guarded([&] {
    std::unique_ptr<Reference> run;
    if (again != g_python.none && g_python.impl_at != 0) {
      g_python.add_reference(again);
      run = std::make_unique<Reference>(again);
    }
    return Begin(std::make_unique<Call>(CoreOf(core)->get(), packed),
                 std::move(run));
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
    if (call != nullptr) return Begin(std::move(call), nullptr);
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

int tjit_py_jit_allow_updates(void* capsule, int count,
                              const std::uint64_t* parameters) {
  void* const done = Guarded([&]() -> void* {
    for (int i = 0; i < count; ++i) {
      (*HandleOf(capsule))->jit.AllowUpdates(TensorOf(parameters[i]));
    }
    return capsule;
  });
  return done == nullptr ? -1 : 0;
}

void tjit_py_jit_refuse_state(void* capsule) {
  (*HandleOf(capsule))->jit.CheckState(false);
}

int tjit_py_read_steps(int count, const std::uint64_t* tensors,
                       double* numbers) {
  const void* const done = Guarded([&]() -> void* {
    const WithoutLock unlocked;
    return ReadSteps(count, tensors, numbers) ? numbers : nullptr;
  });
  if (done == nullptr) g_python.clear_error();
  return done == nullptr ? -1 : 0;
}

int tjit_py_add_to_steps(int count, const std::uint64_t* tensors,
                         const double* numbers) {
  const void* const done = Guarded([&]() -> void* {
    const WithoutLock unlocked;
    AddToSteps(count, tensors, numbers);
    return g_python.none;
  });
  return done == nullptr ? -1 : 0;
}

void* tjit_py_jit_end(void* capsule, int is_changed, int count,
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
    {
      const WithoutLock unlocked;
      call->jit.End(std::move(returned));
    }
    if (call->jit.graph().has_new_results) {
      c10::SmallVector<at::Tensor, 4> results;
      for (int i = 0; i < count; ++i) {
        results.push_back(call->jit.TakeResult());
      }
      return Results(form, results);
    }
    g_python.add_reference(g_python.none);
    return g_python.none;
  });
  Destroy(std::move(call));
  return done;
}

void tjit_py_jit_abandon(void* capsule) {
  Destroy(std::move(*HandleOf(capsule)));
}

void tjit_py_no_jit() { const tjit::NoJit scope("of Python"); }

}  // extern "C"
