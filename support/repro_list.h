// Which sequences are to be written as files: the value of TJIT_REPRO, of
// `tjit run --repro` and of tjit::write_sequences().
//
//   all               each that is replayed
//   slow              those that a trial found to be slower than eager
//   566f0d7d4c59,0a   those whose names begin so
//
// A name is that of the instruction log and of `tjit explain`.
// Thread: any. Tested by: tests/support/repro_list_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tjit {

// Digits of a whole name.
inline constexpr std::size_t kSequenceNameDigits = 12;

inline constexpr char kReproWords[] =
    "all, slow, or beginnings of names of sequences (1 to 12 of the digits 0-9 "
    "and a-f), with commas between";

struct ReproList {
  bool all = false, slow = false;
  std::vector<std::string> names;  // beginnings

  bool HasName(std::string_view name) const;
};

// Sets *list; false, and it is as it was, for what is no such value.
bool ParseReproList(std::string_view value, ReproList* list);

}  // namespace tjit
