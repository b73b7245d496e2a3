#include "runtime/bit_exact/verdict_key.h"

#include <ATen/Version.h>
#include <cpuid.h>
#include <link.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "runtime/platform/build_id.h"
#include "support/env_others.h"

namespace tjit::runtime {
namespace {

struct Objects {
  std::size_t most;
  std::string text;
  bool is_told = true;  // each by a build-id, or by its file
};

// In the order of loading. The first one, the program, has no name.
int AddObject(dl_phdr_info* info, std::size_t, void* data) {
  auto* objects = static_cast<Objects*>(data);
  if (objects->most-- == 0) return 1;
  const BuildId id = BuildIdOf(info);
  if (id.hex[0] != '\0') {
    absl::StrAppend(&objects->text, "object ", id.hex, "\n");
    return 0;
  }
  const bool is_program = *info->dlpi_name == '\0';
  const char* path = is_program ? "/proc/self/exe" : info->dlpi_name;
  struct stat file;
  if (stat(path, &file) != 0) {
    objects->is_told = false;
    return 1;
  }
  absl::StrAppend(&objects->text, "object ", info->dlpi_name, " ", file.st_dev,
                  " ", file.st_ino, " ", file.st_size, " ",
                  file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec, "\n");
  return 0;
}

int Count(dl_phdr_info*, std::size_t, void* data) {
  ++*static_cast<std::size_t*>(data);
  return 0;
}

// Vendor, model and features as libraries read them to choose their kernels,
// and which registers the system saves.
std::string Processor() {
  std::string text = "cpu";
  const auto add = [&](unsigned leaf, unsigned part, unsigned mask_b) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(leaf, part, &a, &b, &c, &d) == 0) return;
    for (const unsigned word : {a, b & mask_b, c, d}) {
      absl::StrAppend(&text, " ", absl::Hex(word));
    }
  };
  add(0, 0, ~0u);
  add(1, 0, 0);  // the core's number is in b
  add(7, 0, ~0u);
  add(7, 1, ~0u);
  add(0x80000001, 0, ~0u);
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kHasXgetbv = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kHasXgetbv) != 0) {
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    absl::StrAppend(&text, " ", absl::Hex(low), " ", absl::Hex(high));
  }
  return text + "\n";
}

}  // namespace

void VerdictKey::RecordProcess() {
  settings_ = SettingsOf({"ATEN_", "BLIS_", "DNNL_", "GLIBC_TUNABLES=", "KMP_",
                          "MKL_", "ONEDNN_", "OPENBLAS_", "SLEEF_",
                          "TORCH_", "XNNPACK_"});
  objects_ = 0;
  dl_iterate_phdr(&Count, &objects_);
}

std::string VerdictKey::Text() const {
  Objects objects{objects_, {}};
  dl_iterate_phdr(&AddObject, &objects);
  if (!objects.is_told) return "";
  return absl::StrCat("tjit verdicts 1\ncapability ",
                      at::get_cpu_capability(), "\n", Processor(),
                      objects.text, "environment\n", settings_);
}

}  // namespace tjit::runtime
