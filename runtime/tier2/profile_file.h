// The file of a hot profile: an entry of the cache folder whose object is the
// text of profile_text.h, and whose key names the program, what it runs if it
// is an interpreter (recorder/script.h), and the builds of libtorch and tjit.
//
// Thread: any, and any process: files are replaced as a whole, and writers that
// put theirs together with what is there wait for one another.
// Tested by: tests/runtime/tier2/hot_profile_test.cpp,
// tests/acceptance/profile_test.py
#pragma once

#include <atomic>
#include <string>

#include "recorder/profile.h"

namespace tjit::runtime {

struct ProfilePlace {
  std::string folder, name;  // no name: nowhere
  bool is_cache = false;     // the cache folder
  bool is_stream = false;    // /dev/stdout and its like: no file of its own
  std::string path() const { return folder + "/" + name; }
};

// The file that belongs to this program in a cache folder.
ProfilePlace PlaceInCache(const std::string& folder);
// A file that the user has named.
ProfilePlace PlaceOf(const std::string& file);

// "" or why the file is not written to, as it is somebody's who is not tjit.
std::string WhyNotOurs(const ProfilePlace& place);

// Adds what the file has. Returns "" or what is wrong with it. *is_there: false
// if there is none, which is not wrong. `any_program`: it may be another one's.
// `stop`: set by another thread, gives up with an error.
std::string ReadProfile(const ProfilePlace& place, bool any_program,
                        Profile* profile, bool* is_there,
                        const std::atomic<bool>* stop = nullptr);

// Replaces the file; `merges`: what it had and `profile` has not is kept, as
// far as there is room. Returns "" or why not; a file that is none of tjit's
// stays.
std::string WriteProfile(const ProfilePlace& place, bool merges,
                         Profile* profile);

}  // namespace tjit::runtime
