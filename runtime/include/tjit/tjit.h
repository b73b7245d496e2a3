// tjit: makes eager libtorch programs fast by itself. The public interface.
//
// Three ways to switch it on:
//   TJIT_AUTO_COMPILE=1 ./program          (linked or preloaded)
//   tjit::enable();                        (whole process)
//   { tjit::AutoCompile on; train(); }     (this scope)
// and the program computes what it computed before, bit for bit.
//
// Threads: every function may be called from any thread. Functions that wait
// for deferred work say so.
// Ownership: nothing here keeps a reference to a tensor of the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tjit/export.h"
#include "tjit/options.h"
#include "tjit/stats.h"

namespace tjit {

// Switches tjit on for the whole process with `options`; the environment
// (TJIT_*) wins over them. Wraps the CPU kernels at the first call (about
// 50 ms). Calling it again changes the options.
// THROWS: c10::Error if an option is out of range; the message lists what is
// accepted.
// Returns false, after saying why once on stderr, where tjit stays inert: under
// TJIT_DISABLE=1, or where the loaded libtorch is not the one it was built for.
TJIT_API bool enable(const Options& options = {});

// Runs what is deferred on all threads, then switches tjit off: every op runs
// its original kernel. What was learnt is kept for the next enable().
TJIT_API void disable();

// True between enable() and disable(), on a thread that has no Pause.
TJIT_API bool is_enabled() noexcept;

// Switches tjit on while it lives, and back to what was before after that.
// Scope: kProcess, or kThread (other threads are left alone).
class TJIT_API AutoCompile {
 public:
  enum class Scope : std::uint8_t { kThread, kProcess };
  explicit AutoCompile(Scope scope = Scope::kThread,
                       const Options& options = {});
  ~AutoCompile();
  AutoCompile(const AutoCompile&) = delete;
  AutoCompile& operator=(const AutoCompile&) = delete;

 private:
  Scope scope_;
  bool was_on_;
};

// Switches tjit off on this thread while it lives: each op runs at its call, by
// its original kernel, and nothing is learnt of it. What the thread has
// deferred runs first, so that every byte that it computed is in memory. The
// sequence around a pause is still one, whose ops then run in two parts. Other
// threads go on. Pauses nest, and win over an AutoCompile and an enable()
// inside them. Costs nothing where tjit is off. It must end on the thread on
// which it began. THROWS: c10::Error if what is deferred lacks memory; there is
// no pause then.
class TJIT_API Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

// Waits until the background thread has nothing to compile and nothing queued,
// but no longer than `timeout` (0: only looks). Returns whether it is so. What
// is compiled by then runs from the next time on that its sequence comes. Other
// threads may ask for more meanwhile: it says nothing of what comes later.
// Called on the background thread itself, it returns false at once.
TJIT_API bool wait_until_compiled(
    std::chrono::milliseconds timeout = std::chrono::minutes(10));

// For a program that has warmed up: whether sequences may be recorded, promoted
// and compiled from now on, in the whole process. Under a stance other than
// kDefault what is replayed goes on, with the code that it has, and all else
// runs eagerly. Each time that something is refused a counter counts it
// (recordings_refused, compiles_refused), and a line on stderr names a sequence
// the first time. Under kFailOnRecompile that is an error instead: the thread's
// next op that runs eagerly, or mark_step(), throws a c10::Error that names the
// sequence. What repeats without a period is counted alone, as it is a guess.
// What is queued already is still compiled: wait_until_compiled() waits for it.
TJIT_API void set_stance(Stance stance);
TJIT_API Stance stance() noexcept;

// Says that an iteration of the caller's loop ends here. Only a hint where to
// cut the op stream of this thread; runs this thread's deferred ops.
TJIT_API void mark_step();

// Runs the deferred ops of all threads. Afterwards every tensor's bytes are
// in memory, for readers that tjit cannot see (a debugger, a const pointer
// taken earlier).
TJIT_API void sync();

// Says what repeats before it has been seen: reads the sequences that an
// earlier process promoted (`file`, written by save_profile() or
// TJIT_PROFILE), and has their machine code made ready by the backend that
// enable() has chosen. Each is replayed from its second run on instead of after
// hot_threshold sightings. Only a hint: every op is compared as always. Waits
// for the compiler. Returns the number of sequences.
// THROWS: c10::Error that names file and cause: there is none, it is damaged,
// or another build of tjit or libtorch wrote it.
TJIT_API std::int64_t prewarm(const std::string& file);

// Writes the sequences that are replayed now for prewarm(). Replaces the file.
// Returns their number. THROWS: c10::Error if it cannot be written.
TJIT_API std::int64_t save_profile(const std::string& file);

// Runs what is deferred, then forgets every trace and gives its memory back.
TJIT_API void clear();

// Starts stats().memory_peak_bytes anew, at what is live now, and counts every
// byte from now on (until then threads tell of 64 KiB at a time).
TJIT_API void reset_memory_peak();

// Makes the op run at the call, always ("aten::add.Tensor", or "aten::add" for
// all overloads, or "myops::" for a whole namespace). Before or after enable();
// after it, every trace is forgotten as by clear().
// THROWS: c10::Error if `name` is empty.
TJIT_API void mark_opaque(std::string_view name);

// What tjit won so far, why not more and what to do, as lines for people; then
// every sequence with its state, length, replays and time won, the ops that ran
// eagerly most, what made deferred ops run; `verbose`: where the numbers of
// functions come from. `tjit explain` prints the same from a file of
// TJIT_STATS. Does not flush; a few milliseconds.
TJIT_API std::string explain(bool verbose = false);

}  // namespace tjit
