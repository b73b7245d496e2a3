#include "tools/tjit/output_text.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tjit::tools {

std::string OutputText::Open(const std::string& path, const FileKind& kind) {
  path_ = path;
  const std::string why = WhyNotReplaced(path, kind);
  if (!why.empty()) return why;
  errno = 0;
  file_.open(path, std::ios::binary | std::ios::trunc);
  if (!file_) KeepError();
  return Close();
}

void OutputText::Write(std::string_view text) {
  if (!IsGood()) return;
  errno = 0;
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file_) KeepError();
}

std::string OutputText::Close() {
  if (IsGood()) {
    errno = 0;
    file_.flush();
    if (!file_) KeepError();
  }
  if (IsGood()) return {};
  return absl::StrCat("cannot write ", path_, ": ", std::strerror(error_));
}

void OutputText::KeepError() { error_ = errno != 0 ? errno : EIO; }

}  // namespace tjit::tools
