#include "python/library/file_interface.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/library/python_calls.h"
#include "tjit/package.h"
#include "tjit/torchscript.h"

namespace tjit::python {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

NamedTensors TensorsByName(int count, const char* const* names,
                           const std::uint64_t* tensors) {
  NamedTensors named;
  for (int i = 0; i < count; ++i) {
    named.emplace_back(names[i], TensorOf(tensors[i]));
  }
  return named;
}

PackageOptions OptionsOf(const TjitFileOptions& o) {
  PackageOptions options;
  options.tensors = TensorsByName(o.tensor_count, o.tensor_names, o.tensors);
  options.arguments.assign(o.arguments, o.arguments + o.argument_count);
  options.given.assign(o.given, o.given + o.given_count);
  options.keeps_example = o.keeps_example != 0;
  options.structure = o.structure;
  return options;
}

void* BytesOf(std::string_view text) {
  return g_python.new_bytes(text.data(),
                            static_cast<std::ptrdiff_t>(text.size()));
}

Package& PackageOf(void* package) { return *static_cast<Package*>(package); }

std::string Joined(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t n : numbers) {
    text.append(text.empty() ? "" : ", ").append(std::to_string(n));
  }
  return text;
}

std::string TextOf(const PackageTensor& tensor) {
  return std::string(c10::toString(tensor.dtype)) + "[" + Joined(tensor.sizes) +
         "]";
}

// The module checks its arguments by `assert`, and libtorch says in which line
// of which file that stands. Only what is wrong matters here.
[[noreturn]] void RaiseWhatIsWrong(const std::exception& error) {
  constexpr std::string_view kSays = "AssertionError: ";
  const std::string_view text = error.what();
  const std::size_t at = text.rfind(kSays);
  if (at == std::string_view::npos) throw;
  const std::string_view wrong = text.substr(at + kSays.size());
  throw std::runtime_error(std::string(wrong.substr(0, wrong.find('\n'))));
}

std::vector<at::Tensor> CallPackage(Package* package,
                                    const std::vector<at::Tensor>& tensors,
                                    const std::vector<double>& numbers) {
  try {
    return (*package)(tensors, numbers);
  } catch (const c10::Error&) {
    throw;  // it keeps its kind
  } catch (const std::exception& error) {
    RaiseWhatIsWrong(error);
  }
}

}  // namespace
}  // namespace tjit::python

using namespace tjit::python;  // NOLINT(google-build-using-namespace)

extern "C" {

void* tjit_py_form_to_save(void* core, const char* packed) {
  return Guarded([&]() -> void* {
    const Call call(CoreOf(core)->get(), packed);
    const auto* const returned = static_cast<const Returned*>(
        call.jit.ReturnedToSave("tjit::save_package"));
    void* const form = returned->form.object() == nullptr
                           ? g_python.none
                           : returned->form.object();
    g_python.add_reference(form);
    return form;
  });
}

int tjit_py_save(void* core, const char* packed, const char* path,
                 int is_package, const TjitFileOptions* options) {
  void* const done = Guarded([&]() -> void* {
    const tjit::PackageOptions o = OptionsOf(*options);
    const WithoutLock unlocked;
    const Call call(CoreOf(core)->get(), packed);
    if (is_package != 0) {
      call.jit.SavePackage(path, o);
    } else {
      call.jit.SaveTorchscript(path, {o.tensors, o.arguments});
    }
    return core;
  });
  return done == nullptr ? -1 : 0;
}

void* tjit_py_load_package(const char* path, int count,
                           const char* const* names,
                           const std::uint64_t* tensors, int warms_up) {
  return Guarded([&]() -> void* {
    const NamedTensors named = TensorsByName(count, names, tensors);
    const WithoutLock unlocked;
    return new tjit::Package(tjit::load_package(path, named, warms_up != 0));
  });
}

void tjit_py_package_delete(void* package) {
  delete static_cast<tjit::Package*>(package);
}

void* tjit_py_package_call(void* package, int tensor_count,
                           const std::uint64_t* tensors, int number_count,
                           const double* numbers) {
  return Guarded([&] {
    std::vector<at::Tensor> results;
    {
      const WithoutLock unlocked;
      std::vector<at::Tensor> passed;
      for (int i = 0; i < tensor_count; ++i) {
        passed.push_back(TensorOf(tensors[i]));
      }
      results = CallPackage(&PackageOf(package), passed,
                            {numbers, numbers + number_count});
    }
    return Results(g_python.none, results);
  });
}

void* tjit_py_package_about(void* package) {
  return Guarded([&] {
    const tjit::PackageInfo& info = PackageOf(package).info();
    std::string text = info.name + '\0' + info.structure + '\0';
    for (const tjit::PackageArgument& a : info.arguments) {
      const std::string kind = a.is_tensor ? TextOf(a)
                               : a.is_free ? "float"
                                           : "fixed float";
      text +=
          (a.is_tensor ? "tensor\t" : "number\t") + a.name + "\t" + kind + "\n";
    }
    for (const tjit::PackageState& t : info.tensors) {
      text += "state\t" + t.name + "\t" + TextOf(t) + "\n";
    }
    return BytesOf(text);
  });
}

const char* tjit_py_package_stats(const void* package, long long* numbers) {
  return StatsOf(static_cast<const tjit::Package*>(package)->stats(), numbers);
}

void* tjit_py_package_verify(void* package) {
  return Guarded([&] {
    std::string differs;
    {
      const WithoutLock unlocked;
      differs = PackageOf(package).verify();
    }
    return BytesOf(differs);
  });
}

}  // extern "C"
