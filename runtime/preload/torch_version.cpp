#include "runtime/preload/torch_version.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace tjit::preload {
namespace {

// Fills `text` with the beginning of a file; false if it cannot be read.
template <std::size_t N>
bool ReadHead(const char* path, char (&text)[N]) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t n = read(file, text, N - 1);
  close(file);
  if (n <= 0) return false;
  text[n] = '\0';
  return true;
}

// Copies what begins at `from` up to the first byte that no version has.
TorchVersion CopyVersion(const char* from) {
  TorchVersion version;
  const std::size_t n = strspn(from, "0123456789.abcdefghijklmnopqrstuvwxyz+");
  if (n < sizeof(version.text)) {
    memcpy(version.text, from, n);
    version.text[n] = '\0';
  }
  return version;
}

}  // namespace

TorchVersion VersionBeside(const char* library) {
  char path[PATH_MAX], text[1024];
  const char* slash = strrchr(library, '/');
  if (slash == nullptr) return {};
  const int folder = static_cast<int>(slash - library);
  snprintf(path, sizeof(path), "%.*s/../version.py", folder, library);
  if (ReadHead(path, text)) {
    const char* line = strstr(text, "__version__ = '");
    if (line != nullptr) return CopyVersion(line + strlen("__version__ = '"));
  }
  snprintf(path, sizeof(path), "%.*s/../build-version", folder, library);
  if (ReadHead(path, text)) return CopyVersion(text);
  return {};
}

bool IsTooOld(const TorchVersion& version) {
  char* rest = nullptr;
  const long major = strtol(version.text, &rest, 10);
  if (rest == version.text || *rest != '.') return false;
  const long minor = strtol(rest + 1, nullptr, 10);
  return major < 2 || (major == 2 && minor < 13);
}

}  // namespace tjit::preload
