// The version of a libtorch by the files that lie beside its libraries.
//
// A Python package says it in torch/version.py, an archive of libtorch in
// libtorch/build-version; a distribution's libtorch has neither.
// Tested by: tests/acceptance/run_test.py
#pragma once

namespace tjit::preload {

struct TorchVersion {
  char text[32] = "";  // "": nobody says
};

// `library` is the path of libtorch_cpu.so.
TorchVersion VersionBeside(const char* library);

// True if the version is known and below 2.13.
bool IsTooOld(const TorchVersion& version);

}  // namespace tjit::preload
