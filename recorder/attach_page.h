// The page that a process under tjit shares with `tjit attach`, which asks it
// for an instruction log while it runs.
//
// The page is memory without a name (memfd_create) that the process maps; the
// command finds it among the open files of the process, where it is called
// kAttachPageLink. Each op of the process loads `word`, 0 mostly. The command
// writes what it wants, sets `request` and then kAttachAsked in `word`; the
// next op takes the request and answers:
//
//   command: path, mb, length_ms -> request kStart -> word |= kAttachAsked
//   process: word &= ~kAttachAsked, request -> kNone, answer {token, kRuns}
//
// Only one command asks at a time: it holds flock() on its own descriptor of
// the page. Nobody trusts what stands there: the process bounds each text, the
// command looks at magic, version and pid.
//
// The first four members are the same in every version.
// Threads and processes: any. Tested by: tests/acceptance/attach_test.py
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tjit {

inline constexpr char kAttachPageName[] = "tjit-attach";
inline constexpr char kAttachPageLink[] = "/memfd:tjit-attach (deleted)";
inline constexpr char kAttachMagic[8] = {'t', 'j', 'i', 't',
                                         'p', 'a', 'g', 'e'};
inline constexpr std::uint32_t kAttachVersion = 1;
inline constexpr std::size_t kAttachAlignment = 4096;  // of a mapping
inline constexpr std::size_t kAttachTextBytes = 4096;
// What may be asked for at most: a day, and as the options of a log.
inline constexpr std::uint64_t kAttachMostMs = 86400000;
inline constexpr std::uint64_t kAttachMostMb = 1000000;

// Bits of `word`.
inline constexpr std::uint32_t kAttachLogs = 1;   // an instruction log is on
inline constexpr std::uint32_t kAttachAsked = 2;  // the command wants something

enum class AttachRequest : std::uint32_t { kNone, kStart, kStop };

// How the request with a token went. kOwnLog, with no token: the process has
// written a log from its start on, so there is no other one.
enum class AttachState : std::uint32_t {
  kNone,
  kStarting,
  kRuns,
  kEnded,
  kRefused,
  kOwnLog,
};

struct AttachAnswer {
  std::uint32_t token = 0;
  AttachState state = AttachState::kNone;
};

struct alignas(kAttachAlignment) AttachPage {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t version = 0;
  char magic[8] = {};
  std::uint32_t pid = 0;  // of the process, as it sees itself

  // What the command writes, before `request`.
  std::uint32_t token = 0;
  std::uint64_t length_ms = 0;
  std::uint64_t mb = 0;  // 0: unbounded
  char path[kAttachTextBytes] = {};
  std::atomic<AttachRequest> request{AttachRequest::kNone};

  // What the process writes: whether tjit is on in it, and the answer.
  std::atomic<std::uint32_t> is_on{0};
  std::atomic<AttachAnswer> answer{AttachAnswer{}};
  // kRuns, kOwnLog: the path. kRefused: why. kEnded: why, unless as asked.
  // Written before `answer`.
  char text[kAttachTextBytes] = {};
};
static_assert(std::atomic<AttachAnswer>::is_always_lock_free);
static_assert(sizeof(AttachPage) % kAttachAlignment == 0);

}  // namespace tjit
