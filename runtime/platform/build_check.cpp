#include "runtime/platform/build_check.h"

#include <link.h>

#include "runtime/platform/build_id.h"
#include "tjit_build_ids.h"

namespace tjit::runtime {
namespace {

struct Search {
  std::string_view name;
  std::string id;
};

int Visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name;
  if (path.size() < search->name.size() ||
      path.substr(path.size() - search->name.size()) != search->name) {
    return 0;
  }
  search->id = BuildIdOf(info).hex;
  return 1;
}

}  // namespace

std::string LoadedBuildId(std::string_view name) {
  Search search{name, {}};
  dl_iterate_phdr(&Visit, &search);
  return search.id;
}

std::string CompareBuildIds(std::string_view library, std::string_view built,
                            std::string_view loaded) {
  if (built.empty() || loaded.empty() || built == loaded) return {};
  return std::string("inert: this process loads ") + std::string(library) +
         " with build-id " + std::string(loaded) +
         ", but libtjit was built for " + std::string(built) + " (libtorch " +
         TJIT_TORCH_VERSION +
         "). Rebuild tjit with CMAKE_PREFIX_PATH set to this libtorch.";
}

std::string WhyNotThisTorch() {
  const struct {
    const char* library;
    const char* built;
  } checks[] = {{"libtorch_cpu.so", TJIT_TORCH_CPU_BUILD_ID},
                {"libc10.so", TJIT_C10_BUILD_ID}};
  for (const auto& c : checks) {
    std::string why = CompareBuildIds(c.library, c.built,
                                      LoadedBuildId(std::string("/") +
                                                    c.library));
    if (!why.empty()) return why;
  }
  return {};
}

}  // namespace tjit::runtime
