// Decoding with a cache of keys and values that grows by a row a token. One
// step is a function of tjit::jit(); each length of the cache is a way of its
// own, so the first two sequences record, and later ones are replayed.
//
//   build/release/bin/decode
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr std::int64_t kWidth = 64, kTokens = 100;

// Of the tokens so far: f32 [T, kWidth] each.
struct Cache {
  at::Tensor keys, values;
};
// A token, int64 [1], and the cache with it.
struct Step {
  at::Tensor token;
  Cache cache;
};

}  // namespace
TJIT_FIELDS(Cache, keys, values);
TJIT_FIELDS(Step, token, cache);

namespace {

// One block of attention and a small network, with random weights.
class Decoder {
 public:
  Step operator()(const at::Tensor& token, const Cache& cache) const {
    const at::Tensor x = at::embedding(embedding_, token);
    Step next;
    next.cache.keys = at::cat({cache.keys, at::mm(x, key_)});
    next.cache.values = at::cat({cache.values, at::mm(x, value_)});
    const at::Tensor scores = at::mm(at::mm(x, query_), next.cache.keys.t()) /
                              std::sqrt(1.0 * kWidth);
    const at::Tensor h =
        x + at::mm(at::softmax(scores, /*dim=*/1), next.cache.values);
    const at::Tensor logits =
        at::mm(h + at::mm(at::relu(at::mm(h, up_)), down_), embedding_.t());
    next.token = logits.argmax(/*dim=*/1);
    return next;
  }

 private:
  static at::Tensor Weight(std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}) / std::sqrt(1.0 * rows);
  }
  at::Tensor embedding_ = at::randn({kTokens, kWidth});
  at::Tensor query_ = Weight(kWidth, kWidth), key_ = Weight(kWidth, kWidth),
             value_ = Weight(kWidth, kWidth), up_ = Weight(kWidth, 2 * kWidth),
             down_ = Weight(2 * kWidth, kWidth);
};

// Each of the sequences has 40 tokens and begins with one of its own.
template <class F>
std::vector<std::int64_t> Generate(F& step, double* us_a_token) {
  constexpr int kSequences = 50, kLength = 40;
  std::vector<std::int64_t> tokens;
  const auto began = std::chrono::steady_clock::now();
  for (int s = 0; s < kSequences; ++s) {
    Step now{at::full({1}, s, at::kLong),
             {at::zeros({1, kWidth}), at::zeros({1, kWidth})}};
    for (int t = 0; t < kLength; ++t) {
      now = step(now.token, now.cache);
      tokens.push_back(now.token.item<std::int64_t>());
    }
  }
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - began;
  *us_a_token = took.count() / (kSequences * kLength);
  return tokens;
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  const Decoder decoder;
  double eager_us = 0, jit_us = 0;
  const std::vector<std::int64_t> eager = Generate(decoder, &eager_us);
  auto step = tjit::jit(decoder, {.name = "decode"});
  const bool same = Generate(step, &jit_us) == eager;
  const tjit::JitStats stats = step.stats();
  std::printf(
      "%lld of %lld steps replayed, %lld ways; %s tokens; %.1f us a token "
      "instead of %.1f%s%s\n",
      static_cast<long long>(stats.replays),
      static_cast<long long>(stats.calls), static_cast<long long>(stats.plans),
      same ? "same" : "OTHER", jit_us, eager_us, stats.why.empty() ? "" : "; ",
      stats.why.c_str());
  return same && stats.replays > stats.calls * 8 / 10 ? 0 : 1;
}
