// Loads and calls packages.
#include "tjit/package.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/thread/functions/package_file.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

using runtime::PackageFile;
using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<double>;

constexpr char kWho[] = "tjit::load_package";

// What one run of the example needs to be replayed, and compiled code to be
// picked up: two recordings, then runs until a sequence counts as hot.
constexpr int kWarmUpCalls = 64;
constexpr std::int64_t kOtherPlace = 16;  // elements: aligned as the begin is

// Each over a storage of its own, `offset` elements behind its begin.
Tensors ClonesOf(const Tensors& tensors, std::int64_t offset = 0) {
  const at::NoGradGuard no_grad;
  Tensors clones;
  for (const at::Tensor& t : tensors) {
    std::int64_t extent = offset + 1;
    for (std::int64_t d = 0; d < t.dim(); ++d) {
      extent += std::max<std::int64_t>(t.size(d) - 1, 0) * t.stride(d);
    }
    const at::Tensor clone = at::empty({extent}, t.options())
                                 .as_strided(t.sizes(), t.strides(), offset);
    clones.push_back(clone.copy_(t.detach()));
  }
  return clones;
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         runtime::HashOf(a) == runtime::HashOf(b);
}

}  // namespace

struct Package::Impl {
  PackageInfo info;
  torch::jit::Module module;
  runtime::PackageExample example;
  Tensors written;   // that the function writes into
  Tensors as_saved;  // and their content
  Jit<std::function<Tensors(const Tensors&, const Numbers&)>> call;

  explicit Impl(PackageFile file)
      : info(std::move(file.info)),
        module(std::move(file.module)),
        example(std::move(file.example)),
        call(
            [this](const Tensors& tensors, const Numbers& numbers) {
              return runtime::CallModule(&module, info.arguments, tensors,
                                         numbers);
            },
            {.name = info.name}) {}

  void Use(const std::string& path,
           const std::vector<std::pair<std::string, at::Tensor>>& tensors);
  void NoteWritten();
  void WarmUp();
};

// Tensors by name instead of the file's.
void Package::Impl::Use(
    const std::string& path,
    const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const auto at = std::find_if(
        info.tensors.begin(), info.tensors.end(),
        [&name](const PackageState& state) { return state.name == name; });
    TORCH_CHECK(at != info.tensors.end(), kWho, ": ", path, " has no tensor \"",
                name, "\"; `tjit package show` lists them");
    TORCH_CHECK(tensor.defined() && tensor.device().is_cpu() &&
                    tensor.layout() == at::kStrided &&
                    tensor.scalar_type() == at->dtype &&
                    tensor.sizes() == at::IntArrayRef(at->sizes) &&
                    tensor.strides() == at::IntArrayRef(at->strides),
                kWho, ": ", path, ": tensor \"", name, "\" has to be ",
                runtime::TextOf(*at), ", but is ",
                tensor.defined()
                    ? runtime::TextOf(runtime::FormOf(name, tensor))
                    : std::string("undefined"));
    runtime::SetTensor(module, name, tensor);
  }
  for (const PackageState& state : info.tensors) {
    const bool is_there =
        !state.is_given ||
        std::any_of(tensors.begin(), tensors.end(),
                    [&](const auto& t) { return t.first == state.name; });
    TORCH_CHECK(is_there, kWho, ": ", path, " has to be given tensor \"",
                state.name, "\" (", runtime::TextOf(state),
                "); pass it to load_package() by this name");
  }
}

void Package::Impl::NoteWritten() {
  const auto all = runtime::TensorsOf(module);
  for (const PackageState& state : info.tensors) {
    if (!state.is_written) continue;
    for (const auto& [name, tensor] : all) {
      if (name == state.name) written.push_back(tensor);
    }
  }
  as_saved = ClonesOf(written);
}

namespace {

// The tensors that a function writes, and the generator, are as before behind
// this.
class StateKept {
 public:
  explicit StateKept(const Tensors& written)
      : written_(written), before_(ClonesOf(written)) {}
  ~StateKept() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < written_.size(); ++i) {
      written_[i].detach().copy_(before_[i]);
    }
  }
  StateKept(const StateKept&) = delete;
  StateKept& operator=(const StateKept&) = delete;

 private:
  const Tensors& written_;
  const Tensors before_;
  const runtime::SeededForExample seeded_;
};

}  // namespace

void Package::Impl::WarmUp() {
  const StateKept kept(written);
  for (int i = 0; i < kWarmUpCalls; ++i) {
    // Arguments that were seen in other places may come from anywhere.
    call(ClonesOf(example.tensors, i % 2 * kOtherPlace), example.numbers);
    // Someone else's code is not waited for.
    if (i % 8 == 7) wait_until_compiled(std::chrono::seconds(60));
  }
  sync();
}

Package::Package(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Package::~Package() = default;
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;

std::vector<at::Tensor> Package::operator()(
    const std::vector<at::Tensor>& tensors,
    const std::vector<double>& numbers) {
  const auto& arguments = impl_->info.arguments;
  const std::size_t wanted = static_cast<std::size_t>(
      std::count_if(arguments.begin(), arguments.end(),
                    [](const PackageArgument& a) { return a.is_tensor; }));
  TORCH_CHECK(
      tensors.size() == wanted && numbers.size() == arguments.size() - wanted,
      "tjit::Package: \"", impl_->info.name, "\" takes ", wanted,
      " tensors and ", arguments.size() - wanted, " numbers, but got ",
      tensors.size(), " and ", numbers.size());
  return impl_->call(tensors, numbers);
}

const PackageInfo& Package::info() const { return impl_->info; }
JitStats Package::stats() const { return impl_->call.stats(); }

const std::vector<at::Tensor>& Package::example_tensors() const {
  return impl_->example.tensors;
}
const std::vector<double>& Package::example_numbers() const {
  return impl_->example.numbers;
}

std::string Package::verify() {
  TORCH_CHECK(impl_->info.has_example, "tjit::Package: \"", impl_->info.name,
              "\" was saved without an example; save it with "
              "PackageOptions::keeps_example");
  const StateKept kept(impl_->written);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < impl_->written.size(); ++i) {
      impl_->written[i].detach().copy_(impl_->as_saved[i]);
    }
  }
  const Tensors actual =
      (*this)(ClonesOf(impl_->example.tensors), impl_->example.numbers);
  const Tensors& expected = impl_->example.results;
  if (actual.size() != expected.size()) {
    return absl::StrCat("there are ", actual.size(), " results, not ",
                        expected.size());
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (SameBits(actual[i], expected[i])) continue;
    const PackageTensor a = runtime::FormOf("", actual[i]),
                        e = runtime::FormOf("", expected[i]);
    if (a.sizes != e.sizes || a.dtype != e.dtype) {
      return absl::StrCat("result ", i, " is ", runtime::TextOf(a), ", not ",
                          runtime::TextOf(e));
    }
    const at::NoGradGuard no_grad;
    const auto differs = actual[i].ne(expected[i]).sum().item<std::int64_t>();
    return absl::StrCat("result ", i, " differs in ", differs, " of ",
                        actual[i].numel(), " elements");
  }
  return "";
}

Package load_package(
    const std::string& path,
    const std::vector<std::pair<std::string, at::Tensor>>& tensors,
    bool warms_up) {
  PackageFile file = runtime::ReadPackage(kWho, path);
  if (!file.code.empty()) {
    cache::AddPackaged(file.code);
    runtime::UsePackagedCode();
  }
  auto impl = std::make_unique<Package::Impl>(std::move(file));
  impl->Use(path, tensors);
  impl->NoteWritten();
  if (warms_up && impl->info.has_example) impl->WarmUp();
  return Package(std::move(impl));
}

PackageInfo package_info(const std::string& path) {
  return runtime::ReadPackage("tjit::package_info", path).info;
}

std::int64_t add_package_code(const std::string& path) {
  constexpr char kAdd[] = "tjit::add_package_code";
  PackageFile file = runtime::ReadPackage(kAdd, path);
  wait_until_compiled();
  runtime::VerdictsOfProducts().Save();
  const std::string folder = runtime::FolderOfCode();
  TORCH_CHECK(!folder.empty(), kAdd,
              ": compiled code is not kept; set TJIT_CACHE_DIR to an empty "
              "folder, and run the package before");
  cache::Entries now;
  const std::string error = cache::ReadEntries(folder, &now);
  TORCH_CHECK(error.empty(), kAdd, ": ", folder, ": ", error);
  std::int64_t bytes = 0;
  for (auto& [name, entry] : now) {
    const bool is_new = !file.code.contains(name);
    if (is_new) bytes += static_cast<std::int64_t>(entry.size());
    file.code.insert_or_assign(name, std::move(entry));
  }
  if (!now.empty()) runtime::WritePackage(kAdd, path, file);
  return bytes;
}

}  // namespace tjit
