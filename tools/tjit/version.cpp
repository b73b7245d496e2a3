#include "tools/tjit/version.h"

#include "absl/strings/str_cat.h"
#include "tjit_build_ids.h"
#include "tjit_commit.h"

namespace tjit::tools {

const ServedTorch kServedTorch = {TJIT_TORCH_VERSION, TJIT_TORCH_CPU_BUILD_ID,
                                  TJIT_C10_BUILD_ID};
const char* const kLlvmVersion = TJIT_LLVM_VERSION;

std::string VersionText() {
  const std::string id = kServedTorch.cpu_build_id;
  const std::string llvm = kLlvmVersion;
  return absl::StrCat(
      "tjit " TJIT_VERSION "\ncommit " TJIT_COMMIT "\nlibtorch ",
      kServedTorch.version, ", build-id ", (id.empty() ? "none" : id),
      "\nLLVM ", (llvm.empty() ? "none" : llvm), "\n");
}

}  // namespace tjit::tools
