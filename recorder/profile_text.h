// The text of a profile, as it lies in a file:
//
//   context 1 0,40000000,1,6,7
//   trace 0 ops=2 slots=3 key=... at_boundary
//     s0: external 1024 bytes          (as trace_text.h has it)
//     %0 aten::relu(s0 f32[16,16]) @1 -> s1 f32[16,16]
//     ...
//   segment 0 1 live 0,2 dropped
//
// Contexts are numbers of one process; what they stand for are words that
// only the runtime knows. A segment goes from one depth to another.
// Tested by: tests/recorder/profile_test.cpp, profile_random_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/profile.h"

namespace tjit {

using ContextWords = std::vector<std::uint64_t>;

// `words_of`: what a context of this process stands for.
std::string ToText(
    const Profile& profile,
    const std::function<ContextWords(std::uint32_t context)>& words_of);

// True if the text of the path says all of it (not the bits of every NaN).
bool ParsesBack(const KnownPath& path);

// Adds the sequences of `text`. `context_of`: the context of this process with
// these words, 0 if there is none: its sequences are left out. Returns "" or
// the first error, "line: what"; what comes before it was added. `stop`: set by
// another thread, ends it before the next sequence with an error.
std::string ParseProfile(
    std::string_view text,
    const std::function<std::uint32_t(const ContextWords&)>& context_of,
    Profile* profile, const std::atomic<bool>* stop = nullptr);

}  // namespace tjit
