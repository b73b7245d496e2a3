// tjit-package: what `tjit package` does with libtorch, which the command tjit
// never loads itself.
//
//   tjit-package show|verify|run|compile FILE [--tensors=FILE] [--runs=N]
//
// `compile` expects an empty folder in TJIT_CACHE_DIR, `verify` that it is off:
// what is found then is the package's (package_command.cpp).
// Tested by: tests/acceptance/package_command_test.py
#include <tjit/package.h>
#include <tjit/tjit.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;
using Clock = std::chrono::steady_clock;

constexpr int kDiffers = 1, kUsage = 2;
constexpr int kCallsToCompile = 512;

// A dictionary of tensors, as torch.save() and pickle_save() write it.
Named ReadTensors(const std::string& path) {
  Named tensors;
  if (path.empty()) return tensors;
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, path, ": cannot be read: ", std::strerror(errno));
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const c10::IValue value = torch::jit::pickle_load(bytes);
  TORCH_CHECK(
      value.isGenericDict(), path,
      " has to be a dictionary of tensors by name, as torch.save({\"w\":"
      " w}, path) writes it");
  for (const auto& one : value.toGenericDict()) {
    TORCH_CHECK(one.key().isString() && one.value().isTensor(), path,
                " has something else than tensors by name");
    tensors.emplace_back(one.key().toStringRef(), one.value().toTensor());
  }
  return tensors;
}

std::string Ints(const std::vector<std::int64_t>& ints) {
  std::string text;
  for (const std::int64_t i : ints) {
    text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return "[" + text + "]";
}

std::string FormText(const tjit::PackageTensor& t) {
  return std::string(c10::toString(t.dtype)) + " " + Ints(t.sizes) +
         ", strides " + Ints(t.strides);
}

int Show(const std::string& path) {
  const tjit::PackageInfo info = tjit::package_info(path);
  std::printf("%s: \"%s\", saved with libtorch %s, %s\n", path.c_str(),
              info.name.c_str(), info.torch.c_str(),
              info.has_example ? "with an example" : "without an example");
  std::printf("arguments:\n");
  for (const tjit::PackageArgument& a : info.arguments) {
    const std::string form =
        a.is_tensor ? FormText(a)
                    : (a.is_free ? "a number" : "a number that is fixed");
    std::printf("  %-16s %s\n", a.name.c_str(), form.c_str());
  }
  std::printf("tensors:\n");
  for (const tjit::PackageState& t : info.tensors) {
    std::printf("  %-16s %s%s%s\n", t.name.c_str(), FormText(t).c_str(),
                t.is_given ? ", to be given" : "",
                t.is_written ? ", written" : "");
  }
  if (info.code.empty()) {
    std::printf("no compiled code: `tjit package compile` adds it\n");
  }
  for (const auto& [target, bytes] : info.code) {
    std::printf("compiled code: %llu bytes for %s\n",
                static_cast<unsigned long long>(bytes), target.c_str());
  }
  return 0;
}

int Verify(const std::string& path, const Named& tensors) {
  tjit::Package package = tjit::load_package(path, tensors);
  const std::string differs = package.verify();
  if (!differs.empty()) {
    std::fprintf(stderr,
                 "tjit package: %s: %s; it was saved with libtorch %s, maybe "
                 "on another processor\n",
                 path.c_str(), differs.c_str(), package.info().torch.c_str());
    return kDiffers;
  }
  std::printf("%s: the same bits as when it was saved\n", path.c_str());
  const tjit::Stats stats = tjit::stats();
  if (package.info().code.empty()) {
    std::printf("no compiled code: `tjit package compile` adds it\n");
  } else {
    std::printf("%lld loops of its compiled code used, %lld compiled\n",
                static_cast<long long>(stats.cache_hits),
                static_cast<long long>(stats.cache_misses));
  }
  if (!package.stats().why.empty()) {
    std::printf("not replayed: %s\n", package.stats().why.c_str());
  }
  return 0;
}

int RunExample(const std::string& path, const Named& tensors, int runs) {
  tjit::Package package = tjit::load_package(path, tensors);
  TORCH_CHECK(package.info().has_example, path,
              " has no example to run; save it with one, or call it from a "
              "program");
  const std::int64_t before = package.stats().replays;
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto began = Clock::now();
    package(package.example_tensors(), package.example_numbers());
    tjit::sync();
    times.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - began)
            .count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%s: %d calls, %lld of them replayed, median %.2f us\n",
              path.c_str(), runs,
              static_cast<long long>(package.stats().replays - before),
              times[times.size() / 2]);
  return 0;
}

int Compile(const std::string& path, const Named& tensors) {
  const char* const folder = std::getenv("TJIT_CACHE_DIR");
  TORCH_CHECK(folder != nullptr, "call `tjit package compile ", path, "`");
  {
    tjit::Package package = tjit::load_package(path, tensors);
    TORCH_CHECK(package.info().has_example, path,
                " has no example to compile it by; save it with one");
    TORCH_CHECK(package.stats().replays > 0, path,
                " is not replayed: ", package.stats().why);
    // What a program that calls it for long asks for.
    for (int i = 0; i < kCallsToCompile; ++i) {
      package(package.example_tensors(), package.example_numbers());
    }
    tjit::sync();
  }
  const std::int64_t bytes = tjit::add_package_code(path);
  std::printf("%s: %lld bytes of compiled code added\n", path.c_str(),
              static_cast<long long>(bytes));
  return 0;
}

int Usage() {
  std::fprintf(stderr,
               "tjit package: usage: tjit package show|verify|run|compile FILE "
               "[--tensors=FILE] [--runs=N]\n");
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return Usage();
  const std::string action = argv[1], path = argv[2];
  std::string tensors;
  int runs = 1000;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--tensors=", 0) == 0) {
      tensors = word.substr(10);
    } else if (word.rfind("--runs=", 0) == 0) {
      runs = std::atoi(word.c_str() + 7);
      if (runs < 1) return Usage();
    } else {
      return Usage();
    }
  }
  if (action == "show") return Show(path);
  if (action == "verify") return Verify(path, ReadTensors(tensors));
  if (action == "run") return RunExample(path, ReadTensors(tensors), runs);
  if (action == "compile") return Compile(path, ReadTensors(tensors));
  return Usage();
} catch (const c10::Error& error) {
  std::fprintf(stderr, "tjit package: %s\n", error.what_without_backtrace());
  return kUsage;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tjit package: %s\n", error.what());
  return kUsage;
}
