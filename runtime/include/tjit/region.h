// Named regions: a program says which of its parts repeat, and what is to hold
// in each.
//
//   void Solver::Step() {
//     tjit::Region region("solve");
//     ...                            // a sequence of its own
//     for (int i = 0; i < iterations; ++i) {
//       tjit::Region newton("newton");   // "solve/newton"
//       ...
//     }
//   }
//
// A region changes no result. What is deferred runs where it begins and where
// it ends, and the ops in between are a sequence by themselves, which is
// recorded the first time that it runs. The same ops in two regions are two
// sequences. docs/regions.md tells more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tjit/export.h"
#include "tjit/options.h"

namespace tjit {

// The thread is in the region while this object lives. Inside of another one
// its name goes behind that one's, with a / between. An exception that leaves
// the scope ends it as well. Threads: it belongs to the thread that makes it,
// and so does the region: threads that are started in it are outside. Objects
// of one thread go in the reverse order in which they came, as those of scopes
// do. Cost: where tjit is off, one look at that; the region is none then, also
// if tjit is switched on before it ends. THROWS: c10::Error that says what is
// wrong with the name, if that is empty or longer than 200 characters, has an
// empty part between two /, a * or a ?.
class TJIT_API Region {
 public:
  explicit Region(std::string_view name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  std::uint32_t outer_ = 0;
  bool is_entered_ = false;
};

// kAny: a sequence is replayed in whatever sizes come.
// kExact: it is replayed in the sizes in which it was recorded first; in others
// it runs eagerly.
enum class Shapes : std::uint8_t { kAny, kExact };

// What is to hold in a region. What is not set is as it is around the region.
struct RegionOptions {
  // False: sequences are replayed by library calls, and nothing is compiled.
  std::optional<bool> compile = std::nullopt;
  // Complete sightings of a sequence before its ops are deferred, 2 to 1000000.
  std::optional<std::int64_t> threshold = std::nullopt;
  // What runs sequences that repeat.
  std::optional<Backend> backend = std::nullopt;
  std::optional<Shapes> shapes = std::nullopt;
  // True: every op runs at the call, as if tjit were off. False: none is
  // excluded, whatever is said for more general names.
  std::optional<bool> exclude = std::nullopt;
  // These ops run at the call: "aten::add.Tensor", "aten::add" for all
  // overloads, "myops::" for a namespace, "aten::_fft_*" for all that begin so.
  // Not together with `exclude`.
  std::vector<std::string> exclude_ops = {};
  // Each unexpected fallback is a c10::Error, at the next op in a strict
  // region, mark_step() or sync().
  std::optional<bool> strict = std::nullopt;
};

// Says what is to hold in the regions of that name and in those inside of them,
// from their next beginning on. In `pattern` a * stands for any text and a ?
// for one character. Of two patterns that fit, the one with more other
// characters wins, each option by itself; what the program says wins over the
// file of TJIT_CONFIG. The same pattern again replaces what was said. If that
// changes what holds in a region that has begun before, every trace is
// forgotten as by clear(). THROWS: c10::Error that names the option and what is
// accepted.
TJIT_API void set_region_options(std::string_view pattern,
                                 const RegionOptions& options);

// What was counted in one region, of all threads, without the regions inside.
// ops_seen = ops_eager + ops_replayed + ops_drained + ops that are pending.
struct RegionStats {
  std::int64_t entries = 0;  // times that it began
  std::int64_t ops_seen = 0;
  std::int64_t ops_eager = 0;
  std::int64_t ops_replayed = 0;
  std::int64_t ops_drained = 0;
  // Sequences that were recorded from edge to edge, one for each way through.
  std::int64_t bodies = 0;
  // Of the one that was replayed most: the sequences that it is split into by
  // ops at the call, these ops, and why each of them runs at the call.
  std::int64_t sequences = 0;
  std::int64_t ops_at_call = 0;
  std::map<std::string, std::string> at_call;

  // One object with these names.
  TJIT_API std::string to_json() const;
};

// The region of that whole name; zeros if it never began. Does not flush.
TJIT_API RegionStats region_stats(std::string_view name);

}  // namespace tjit
