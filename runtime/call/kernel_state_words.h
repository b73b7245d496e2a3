// What a context of kernel_state.h stands for, as words that another process of
// the same libtorch understands.
// Tested by: tests/runtime/tier2/hot_profile_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit::runtime {

std::vector<std::uint64_t> WordsOfContext(std::uint32_t context);
// 0 if the words are none, or there is no room for another context.
std::uint32_t ContextOfWords(const std::vector<std::uint64_t>& words);

}  // namespace tjit::runtime
