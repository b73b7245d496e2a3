// Transforms by MKL with descriptors that are kept.
//
// libtorch makes, commits and frees a descriptor in every call: 5 of the 6 us
// that rfft2 of 20x20 doubles takes. A KeptFft has its own from one run to the
// next. At most kMostKeptFfts of them have one, and those not all too long: the
// one that has not run for longest gives its own up, and makes another when it
// runs again.
//
// A descriptor depends on the state in which it was committed (threads,
// rounding); in any other state a KeptFft refuses. It refuses as well whatever
// MKL refuses: the caller then asks libtorch, which says what is wrong.
//
// Thread: a KeptFft runs on one thread at a time; the rest from any.
// Tested by: tests/runtime/library_calls/kept_fft_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tjit::runtime {

// A descriptor by its settings; strides and distances in elements of their
// side, real or complex. Always to another place, and with the half of a
// transform of real numbers as complex numbers.
struct FftPlan {
  bool is_double = false;
  bool is_real = false;  // one side is real numbers
  bool is_forward = false;
  std::int64_t batch = 1;
  std::int64_t in_distance = 0, out_distance = 0;
  std::vector<std::int64_t> lengths = {}, in_strides = {}, out_strides = {};
  std::optional<double> scale = std::nullopt;

  bool operator==(const FftPlan&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const FftPlan& p) {
    return H::combine(std::move(h), p.is_double, p.is_real, p.is_forward,
                      p.batch, p.in_distance, p.out_distance, p.lengths,
                      p.in_strides, p.out_strides, p.scale);
  }
};

// What MKL exports, by the name of the function without its Dfti.
struct Dfti {
  using Status = long;  // NOLINT(google-runtime-int): MKL_LONG
  using Long = long;    // NOLINT(google-runtime-int)
  using CreateOne = Status (*)(void** descriptor, int domain, Long length);
  using Create = Status (*)(void** descriptor, int domain, Long dims,
                            const Long* lengths);
  CreateOne create_f32_1d = nullptr, create_f64_1d = nullptr;
  Create create_f32_md = nullptr, create_f64_md = nullptr;
  Status (*set_value)(void*, int what, ...) = nullptr;
  Status (*commit)(void*) = nullptr;
  Status (*forward)(void*, void* from, ...) = nullptr;
  Status (*backward)(void*, void* from, ...) = nullptr;
  Status (*free)(void**) = nullptr;
  int (*most_threads)() = nullptr;

  bool IsComplete() const;
};

// libtorch's own; all null where it was built without MKL.
const Dfti& LibtorchDfti();
// Null: libtorch's. The caller keeps it while a KeptFft lives.
void TEST_SetDfti(const Dfti* dfti);
bool HasDfti();

class KeptFft {
 public:
  explicit KeptFft(FftPlan plan) : plan_(std::move(plan)) {}
  ~KeptFft();
  KeptFft(const KeptFft&) = delete;
  KeptFft& operator=(const KeptFft&) = delete;

  // False if it refuses; the bytes of `to` are then undefined.
  bool Run(const void* from, void* to);

  const FftPlan& plan() const { return plan_; }

 private:
  friend class KeptFfts;
  // The process's state that a descriptor depends on.
  struct Setting {
    int threads = 0;
    bool is_in_parallel_region = false;
    std::uint32_t rounding = 0;
    bool operator==(const Setting&) const = default;
    static Setting Now(const Dfti& dfti);
  };
  void* Make(const Dfti& dfti, const Setting& now);
  std::int64_t length() const;  // all dims together

  const FftPlan plan_;
  std::optional<Setting> setting_;  // of the first run
  // Null while it runs, and where it has none.
  std::atomic<void*> descriptor_ = nullptr;
  std::atomic<std::int64_t> last_run_ = 0;
};

struct KeptFftCounts {
  std::int64_t runs = 0;      // with a kept descriptor, or a new one
  std::int64_t made = 0;      // descriptors
  std::int64_t given_up = 0;  // of these, for others
  std::int64_t kept = 0;      // now
};
KeptFftCounts CountKeptFfts();

inline constexpr std::int64_t kMostKeptFfts = 64;
// Of all together; a descriptor has tables of 9 to 75 bytes for each number (of
// a power of 2, of a prime).
inline constexpr std::int64_t kMostKeptFftLength = std::int64_t{1} << 20;

}  // namespace tjit::runtime
