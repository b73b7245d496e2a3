// Is the loaded libtorch the one that this library was built for?
//
// tjit reaches into libtorch's inline code and private layouts, so another
// build is another program. Build-ids of libtorch_cpu and libc10 are recorded
// at build time (cmake/TjitTorch.cmake).
// Tested by: tests/error/bad_setup_test.py
#pragma once

#include <string>
#include <string_view>

namespace tjit::runtime {

// Empty if it is; else one sentence for the user.
std::string WhyNotThisTorch();

// The GNU build-id (hex) of the loaded library whose path ends in `name`;
// empty if it is not loaded or has none.
std::string LoadedBuildId(std::string_view name);

// What WhyNotThisTorch() says for these ids; empty ids match everything.
std::string CompareBuildIds(std::string_view library, std::string_view built,
                            std::string_view loaded);

}  // namespace tjit::runtime
