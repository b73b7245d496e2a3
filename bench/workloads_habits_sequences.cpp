// Rows W whose habit is time: caches that are filled place by place, and
// sequences and episodes of varying length.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/workloads_habits.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::Tensor;

constexpr std::int64_t kWidth = 64, kHeads = 4, kHead = kWidth / kHeads,
                       kPlaces = 64, kVocabulary = 128, kLayers = 2;

// One layer of a decoder for one new token. The caller keeps the cache.
struct DecoderLayerImpl : nn::Module {
  DecoderLayerImpl() {
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
  }
  // x: f32 [1, D]. Returns query, key and value, f32 [heads, head] each.
  std::vector<Tensor> Project(const Tensor& x) {
    return qkv(norm1(x)).view({3, kHeads, kHead}).unbind(0);
  }
  // scores: f32 [heads, 1, L]; values: f32 [heads, L, head].
  Tensor Finish(const Tensor& x, const Tensor& scores, const Tensor& values) {
    const Tensor mixed = torch::matmul(torch::softmax(scores, -1), values);
    const Tensor y = x + out(mixed.reshape({1, -1}));
    return y + down(torch::gelu(up(norm2(y))));
  }
  nn::LayerNorm norm1{nn::LayerNormOptions({kWidth})};
  nn::LayerNorm norm2{nn::LayerNormOptions({kWidth})};
  nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth};
  nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(DecoderLayer);

// What both decoders share: a token in, the next one out, `kPlaces` times; then
// a new sequence begins.
class Decoder {
 public:
  virtual ~Decoder() = default;
  void Step() {
    const torch::NoGradGuard no_grad;
    Tensor x = tokens_(torch::tensor({token_}, torch::kLong)) +
               places_.select(0, place_);
    for (std::size_t i = 0; i < kLayers; ++i) {
      const std::vector<Tensor> qkv = layers_[i]->Project(x);
      const auto [keys, values] = Remember(i, qkv[1], qkv[2]);
      Tensor scores = torch::matmul(qkv[0].unsqueeze(1), keys.transpose(1, 2)) /
                      std::sqrt(static_cast<double>(kHead));
      x = layers_[i]->Finish(x, Masked(scores), values);
    }
    logits_ = head_(norm_(x)).squeeze(0);
    token_ = Next(logits_);
    text_ = (31 * text_ + token_) % 1'000'003;
    place_ = (place_ + 1) % kPlaces;
    if (place_ == 0) Restart();
  }
  std::vector<Tensor> Result() {
    return {logits_, torch::tensor({text_}, torch::kLong)};
  }

 protected:
  // Keys and values so far, f32 [heads, L, head] each, with those of this
  // place.
  virtual std::pair<Tensor, Tensor> Remember(std::size_t layer, const Tensor& k,
                                             const Tensor& v) = 0;
  virtual Tensor Masked(const Tensor& scores) { return scores; }
  virtual std::int64_t Next(const Tensor& logits) = 0;
  virtual void Restart() {}

  std::int64_t place_ = 0;

 private:
  nn::Embedding tokens_{kVocabulary, kWidth};
  Tensor places_ = 0.1 * torch::randn({kPlaces, 1, kWidth});
  std::vector<DecoderLayer> layers_{DecoderLayer(), DecoderLayer()};
  nn::LayerNorm norm_{nn::LayerNormOptions({kWidth})};
  nn::Linear head_{kWidth, kVocabulary};
  Tensor logits_;
  std::int64_t token_ = 1, text_ = 0;
};

// The cache has its full size from the start, is written at a place and read
// as a whole; what lies ahead is masked. The likeliest token comes next.
class StaticCacheDecoder : public Decoder {
 protected:
  std::pair<Tensor, Tensor> Remember(std::size_t layer, const Tensor& k,
                                     const Tensor& v) override {
    keys_[layer].select(1, place_).copy_(k);
    values_[layer].select(1, place_).copy_(v);
    return {keys_[layer], values_[layer]};
  }
  Tensor Masked(const Tensor& scores) override {
    return scores.masked_fill(indices_ > place_, -1e9);
  }
  std::int64_t Next(const Tensor& logits) override {
    return logits.argmax().item<std::int64_t>();
  }

 private:
  static std::vector<Tensor> Cache() {
    return {torch::zeros({kHeads, kPlaces, kHead}),
            torch::zeros({kHeads, kPlaces, kHead})};
  }
  std::vector<Tensor> keys_ = Cache(), values_ = Cache();
  Tensor indices_ = torch::arange(kPlaces);
};

// The cache grows by a place each step. The next token is drawn.
class GrowingCacheDecoder : public Decoder {
 protected:
  std::pair<Tensor, Tensor> Remember(std::size_t layer, const Tensor& k,
                                     const Tensor& v) override {
    const auto grow = [](Tensor& cache, const Tensor& by) {
      cache = cache.defined() ? torch::cat({cache, by.unsqueeze(1)}, 1)
                              : by.unsqueeze(1);
    };
    grow(keys_[layer], k);
    grow(values_[layer], v);
    return {keys_[layer], values_[layer]};
  }
  std::int64_t Next(const Tensor& logits) override {
    const Tensor likely = torch::softmax(logits / 0.8, 0);
    return torch::multinomial(likely, 1).item<std::int64_t>();
  }
  void Restart() override {
    for (std::vector<Tensor>* caches : {&keys_, &values_}) {
      for (Tensor& cache : *caches) cache = Tensor();
    }
  }

 private:
  std::vector<Tensor> keys_ = std::vector<Tensor>(kLayers);
  std::vector<Tensor> values_ = std::vector<Tensor>(kLayers);
};

// A step is a batch of 16 sequences, 5 to 40 long: an LSTM cell in a loop, and
// the last state says the mean of what went in.
class LstmLengths {
 public:
  void Step() {
    const std::int64_t length = dice_.Between(5, 40);
    const Tensor x = torch::randn({length, kBatch, kInputs});
    const Tensor want = x.mean({0, 2}).unsqueeze(1);
    optimizer_->zero_grad();
    Tensor h = torch::zeros({kBatch, kHidden});
    Tensor c = torch::zeros({kBatch, kHidden});
    for (std::int64_t t = 0; t < length; ++t) {
      std::tie(h, c) = cell_(x[t], std::make_tuple(h, c));
    }
    loss_ = torch::mse_loss(dense_(h), want);
    loss_.backward();
    optimizer_->step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = Parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  static constexpr std::int64_t kBatch = 16, kInputs = 8, kHidden = 32;
  std::vector<Tensor> Parameters() {
    std::vector<Tensor> all = cell_->parameters();
    for (const Tensor& p : dense_->parameters()) all.push_back(p);
    return all;
  }
  Dice dice_{1};
  nn::LSTMCell cell_{kInputs, kHidden};
  nn::Linear dense_{kHidden, 1};
  std::unique_ptr<optim::Adam> optimizer_ =
      std::make_unique<optim::Adam>(Parameters(), optim::AdamOptions(1e-3));
  Tensor loss_;
};

// A cart with a pole on it in gusts of wind, by Euler's method.
class CartPole {
 public:
  std::vector<float> Reset(Dice& dice) {
    for (float& value : state_) value = 0.05f * dice.Signed();
    return state_;
  }
  // False once the pole has fallen or the cart is out of bounds.
  bool Push(std::int64_t action, Dice& dice) {
    const float force = (action == 1 ? 10.0f : -10.0f) + 15 * dice.Signed();
    const float cosine = std::cos(state_[2]), sine = std::sin(state_[2]);
    const float pull = (force + 0.05f * state_[3] * state_[3] * sine) / 1.1f;
    const float turn = (9.8f * sine - cosine * pull) /
                       (0.5f * (4.0f / 3 - 0.1f * cosine * cosine / 1.1f));
    const float push = pull - 0.05f * turn * cosine / 1.1f;
    state_[0] += 0.02f * state_[1];
    state_[1] += 0.02f * push;
    state_[2] += 0.02f * state_[3];
    state_[3] += 0.02f * turn;
    return std::abs(state_[0]) < 2.4f && std::abs(state_[2]) < 0.21f;
  }
  const std::vector<float>& state() const { return state_; }

 private:
  std::vector<float> state_ = std::vector<float>(4);
};

struct PolicyImpl : nn::Module {
  PolicyImpl() {
    register_module("shared", shared);
    register_module("action", action);
    register_module("value", value);
  }
  // state: f32 [4]. Returns probabilities, f32 [2], and the value, f32 [1].
  std::pair<Tensor, Tensor> forward(const Tensor& state) {
    const Tensor x = torch::relu(shared(state));
    return {torch::softmax(action(x), -1), value(x)};
  }
  nn::Linear shared{4, 64}, action{64, 2}, value{64, 1};
};
TORCH_MODULE(Policy);

// A step is an episode and what is learnt from it.
class ActorCritic {
 public:
  void Step() {
    std::vector<Tensor> chosen, values;
    world_.Reset(dice_);
    bool stands = true;
    while (stands && chosen.size() < kLongest) {
      const Tensor state = torch::tensor(world_.state());
      const auto [likely, value] = policy_->forward(state);
      const Tensor action = torch::multinomial(likely, 1);
      chosen.push_back(torch::log(likely.gather(0, action)));
      values.push_back(value);
      stands = world_.Push(action.item<std::int64_t>(), dice_);
    }
    // Each place is worth what comes behind it.
    std::vector<float> returns(chosen.size());
    float sum = 0;
    for (std::size_t i = returns.size(); i-- > 0;) {
      sum = 1.0f + 0.99f * sum;
      returns[i] = sum;
    }
    Tensor worth = torch::tensor(returns);
    worth = (worth - worth.mean()) / (worth.std() + 1e-6);
    const Tensor expected = torch::cat(values);
    const Tensor advantage = worth - expected.detach();
    optimizer_.zero_grad();
    loss_ = -(torch::cat(chosen) * advantage).sum() +
            torch::smooth_l1_loss(expected, worth, at::Reduction::Sum);
    loss_.backward();
    optimizer_.step();
    length_ = 0.95 * length_ + 0.05 * static_cast<double>(returns.size());
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = policy_->parameters();
    out.push_back(loss_);
    out.push_back(torch::tensor({length_}, torch::kDouble));
    return out;
  }

 private:
  static constexpr std::size_t kLongest = 60;
  Dice dice_{1};
  CartPole world_;
  Policy policy_;
  optim::Adam optimizer_{policy_->parameters(), optim::AdamOptions(1e-3)};
  Tensor loss_;
  double length_ = 0;
};

}  // namespace

std::vector<Row> HabitSequenceRows() {
  return {
      HabitRow<StaticCacheDecoder>("static-cache", 8192, 1280),
      HabitRow<GrowingCacheDecoder>("growing-cache", 8192, 1280),
      HabitRow<LstmLengths>("lstm-lengths", 500, 60),
      HabitRow<ActorCritic>("actor-critic", 600, 100),
  };
}

}  // namespace tjit::bench
