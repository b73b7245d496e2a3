// Rows W whose habit is the index: messages between the nodes of graphs, forces
// between neighbours, experts that a token is sent to.
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "bench/workloads_habits.h"

namespace tjit::bench {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::Tensor;

// Graphs side by side, as loaders of graph data put a batch together.
struct Batch {
  Tensor nodes;    // f32 [N, features]
  Tensor sources;  // i64 [E]
  Tensor targets;  // i64 [E]
  Tensor graphs;   // i64 [N]: the graph of each node
  Tensor wanted;   // f32 [graphs, 1]
};

// Sixty-four graphs of 8 to 24 nodes, each with edges to two others and to
// itself.
class GraphData {
 public:
  static constexpr std::int64_t kFeatures = 16, kPerBatch = 8;

  GraphData() {
    for (int i = 0; i < 64; ++i) {
      const std::int64_t count = dice_.Between(8, 24);
      Batch graph;
      graph.nodes = torch::randn({count, kFeatures});
      std::vector<std::int64_t> sources, targets;
      for (std::int64_t node = 0; node < count; ++node) {
        for (const std::int64_t other :
             {node, dice_.Between(0, count - 1), dice_.Between(0, count - 1)}) {
          sources.push_back(node);
          targets.push_back(other);
        }
      }
      graph.sources = torch::tensor(sources);
      graph.targets = torch::tensor(targets);
      graph.wanted = graph.nodes.square().mean().view({1, 1});
      graphs_.push_back(graph);
    }
  }

  // Eight graphs that are drawn.
  Batch Draw() {
    std::vector<Tensor> nodes, sources, targets, graphs, wanted;
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < kPerBatch; ++i) {
      const Batch& graph =
          graphs_[static_cast<std::size_t>(dice_.Between(0, 63))];
      const std::int64_t count = graph.nodes.size(0);
      nodes.push_back(graph.nodes);
      sources.push_back(graph.sources + offset);
      targets.push_back(graph.targets + offset);
      graphs.push_back(torch::full({count}, i, torch::kLong));
      wanted.push_back(graph.wanted);
      offset += count;
    }
    return {torch::cat(nodes), torch::cat(sources), torch::cat(targets),
            torch::cat(graphs), torch::cat(wanted)};
  }

 private:
  Dice dice_{1};
  std::vector<Batch> graphs_;
};

// `index` (i64 [E]) for each column of `like` (f32 [E, F]).
Tensor Expanded(const Tensor& index, const Tensor& like) {
  return index.unsqueeze(1).expand_as(like);
}

// The sum of messages (f32 [E, F]) at each of `count` targets.
Tensor ScatterSum(const Tensor& messages, const Tensor& targets,
                  std::int64_t count) {
  return torch::zeros({count, messages.size(1)})
      .scatter_add_(0, Expanded(targets, messages), messages);
}

// Mean of the nodes of each graph, f32 [graphs, F].
Tensor MeanPool(const Tensor& x, const Tensor& graphs) {
  const Tensor sums =
      torch::zeros({GraphData::kPerBatch, x.size(1)}).index_add(0, graphs, x);
  const Tensor counts = torch::bincount(graphs, {}, GraphData::kPerBatch);
  return sums / counts.clamp_min(1).unsqueeze(1);
}

// A layer of a graph convolution (Kipf and Welling).
struct ConvolutionImpl : nn::Module {
  ConvolutionImpl(std::int64_t in, std::int64_t out) : dense(in, out) {
    register_module("dense", dense);
  }
  Tensor forward(const Tensor& x, const Batch& batch) {
    const std::int64_t count = x.size(0);
    const Tensor degree = torch::zeros({count}).scatter_add_(
        0, batch.targets, torch::ones({batch.targets.size(0)}));
    const Tensor scale = degree.clamp_min(1).pow(-0.5);
    const Tensor weight = scale.index_select(0, batch.sources) *
                          scale.index_select(0, batch.targets);
    const Tensor messages =
        dense(x).index_select(0, batch.sources) * weight.unsqueeze(1);
    return ScatterSum(messages, batch.targets, count);
  }
  nn::Linear dense;
};
TORCH_MODULE(Convolution);

// A layer of a graph attention network (Velickovic et al.), one head.
struct AttentionImpl : nn::Module {
  AttentionImpl(std::int64_t in, std::int64_t out) : dense(in, out) {
    register_module("dense", dense);
    from = register_parameter("from", 0.1 * torch::randn({out}));
    to = register_parameter("to", 0.1 * torch::randn({out}));
  }
  Tensor forward(const Tensor& x, const Batch& batch) {
    const std::int64_t count = x.size(0);
    const Tensor h = dense(x);
    const Tensor logits =
        torch::leaky_relu(h.matmul(from).index_select(0, batch.sources) +
                              h.matmul(to).index_select(0, batch.targets),
                          0.2);
    // A softmax over the edges that end at the same node.
    const Tensor largest =
        torch::full({count}, -1e9)
            .scatter_reduce(0, batch.targets, logits.detach(), "amax");
    const Tensor powers =
        torch::exp(logits - largest.index_select(0, batch.targets));
    const Tensor sums =
        torch::zeros({count}).index_add(0, batch.targets, powers);
    const Tensor weights = powers / sums.index_select(0, batch.targets);
    const Tensor messages =
        h.index_select(0, batch.sources) * weights.unsqueeze(1);
    return torch::zeros_like(h).index_add_(0, batch.targets, messages);
  }
  nn::Linear dense;
  Tensor from, to;
};
TORCH_MODULE(Attention);

template <class Layer>
struct GraphNet : nn::Module {
  GraphNet() {
    register_module("first", first);
    register_module("second", second);
    register_module("head", head);
  }
  Tensor forward(const Batch& batch) {
    Tensor x = torch::relu(first(batch.nodes, batch));
    x = torch::relu(second(x, batch));
    return head(MeanPool(x, batch.graphs));
  }
  Layer first{GraphData::kFeatures, 32}, second{32, 32};
  nn::Linear head{32, 1};
};

// A step is a batch of eight graphs; the net says a number for each.
template <class Layer>
class GraphRegression {
 public:
  void Step() {
    const Batch batch = data_.Draw();
    optimizer_.zero_grad();
    loss_ = torch::mse_loss(net_->forward(batch), batch.wanted);
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  GraphData data_;
  std::shared_ptr<GraphNet<Layer>> net_ = std::make_shared<GraphNet<Layer>>();
  optim::Adam optimizer_{net_->parameters(), optim::AdamOptions(1e-3)};
  Tensor loss_;
};

// Energy of atoms as a sum over pairs of neighbours; forces are its gradient,
// and the loss has both. The list of neighbours differs from frame to frame.
class EnergyAndForces {
 public:
  EnergyAndForces() {
    for (int i = 0; i < kFrames; ++i) {
      Tensor atoms = 3.0 * torch::rand({kAtoms, 3});
      frames_.push_back(atoms);
      energies_.push_back(atoms.square().sum());
      forces_.push_back(-2 * atoms);
    }
  }
  void Step() {
    const auto frame = static_cast<std::size_t>(steps_++ % kFrames);
    const Tensor atoms = frames_[frame].clone().requires_grad_(true);
    std::vector<std::int64_t> first, second;
    const auto at = frames_[frame].accessor<float, 2>();
    for (std::int64_t i = 0; i < kAtoms; ++i) {
      for (std::int64_t j = 0; j < kAtoms; ++j) {
        const float x = at[i][0] - at[j][0], y = at[i][1] - at[j][1],
                    z = at[i][2] - at[j][2];
        if (i != j && x * x + y * y + z * z < kReach * kReach) {
          first.push_back(i);
          second.push_back(j);
        }
      }
    }
    const Tensor energy =
        Energy(atoms, torch::tensor(first), torch::tensor(second));
    const Tensor forces = -torch::autograd::grad(
        {energy}, {atoms}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    optimizer_.zero_grad();
    loss_ = 0.01 * (energy - energies_[frame]).square() +
            torch::mse_loss(forces, forces_[frame]);
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  static constexpr std::int64_t kAtoms = 16, kFrames = 64, kCentres = 12;
  static constexpr float kReach = 2.0f;

  Tensor Energy(const Tensor& atoms, const Tensor& first,
                const Tensor& second) {
    const Tensor between =
        atoms.index_select(0, first) - atoms.index_select(0, second);
    const Tensor distance = (between.square().sum(1) + 1e-9).sqrt();
    const Tensor fade =
        0.5 * (torch::cos(distance * (std::numbers::pi / kReach)) + 1);
    const Tensor basis =
        torch::exp(-8 * (distance.unsqueeze(1) - centres_).square());
    const Tensor pairs = net_->forward(basis).squeeze(1) * fade;
    const Tensor of_atoms = torch::zeros({kAtoms}).index_add(0, first, pairs);
    return of_atoms.sum();
  }

  std::vector<Tensor> frames_, energies_, forces_;
  Tensor centres_ = torch::linspace(0, kReach, kCentres);
  nn::Sequential net_{nn::Linear(kCentres, 32), nn::SiLU(), nn::Linear(32, 32),
                      nn::SiLU(), nn::Linear(32, 1)};
  optim::Adam optimizer_{net_->parameters(), optim::AdamOptions(1e-3)};
  std::int64_t steps_ = 0;
  Tensor loss_;
};

// A fluid of 400 particles that repel and attract one another (Lennard and
// Jones). The list of the pairs within reach is made anew every twenty steps,
// so each list has a size that was not there before.
class PairForces {
 public:
  void Step() {
    const torch::NoGradGuard no_grad;
    if (steps_ % kStepsOfList == 0) MakeList();
    Tensor between = at_.index_select(0, first_) - at_.index_select(0, second_);
    between = between - kBox * torch::round(between / kBox);
    const Tensor inverse = between.square().sum(1).clamp_min(0.7).reciprocal();
    const Tensor power = inverse * inverse * inverse;
    const Tensor energies = 4 * power * (power - 1);
    const Tensor pairs =
        (24 * inverse * power * (2 * power - 1)).clamp(-50, 50);
    Tensor forces = torch::zeros_like(at_);
    forces.index_add_(0, first_, pairs.unsqueeze(1) * between);
    speeds_.mul_(0.999).add_(forces, kTime);
    at_.add_(speeds_, kTime).remainder_(kBox);
    if (++steps_ % 10 == 0) energy_ += energies.sum().item<double>();
  }
  std::vector<Tensor> Result() {
    return {at_, speeds_, torch::tensor(energy_)};
  }

 private:
  static constexpr std::int64_t kParticles = 400, kStepsOfList = 20;
  static constexpr double kBox = 8, kReach = 2.2, kTime = 1e-3;

  void MakeList() {
    Tensor apart = at_.unsqueeze(1) - at_.unsqueeze(0);
    apart = apart - kBox * torch::round(apart / kBox);
    const Tensor near = apart.square().sum(-1) < kReach * kReach;
    const Tensor list = near.fill_diagonal_(false).nonzero();
    first_ = list.select(1, 0).contiguous();
    second_ = list.select(1, 1).contiguous();
  }

  Tensor at_ = torch::rand({kParticles, 3}) * kBox;
  Tensor speeds_ = torch::randn({kParticles, 3});
  Tensor first_, second_;  // i64 [pairs]
  std::int64_t steps_ = 0;
  double energy_ = 0;
};

struct ExpertsImpl : nn::Module {
  static constexpr std::int64_t kExperts = 4, kWidth = 32;

  ExpertsImpl() {
    register_module("gate", gate);
    for (std::int64_t i = 0; i < kExperts; ++i) {
      experts->push_back(nn::Sequential(nn::Linear(kWidth, 64), nn::GELU(),
                                        nn::Linear(64, kWidth)));
    }
    register_module("experts", experts);
  }
  // x: f32 [tokens, D]. Each token goes to the two experts that it likes best.
  Tensor forward(const Tensor& x) {
    auto [weights, chosen] = torch::softmax(gate(x), -1).topk(2, -1);
    weights = weights / weights.sum(-1, /*keepdim=*/true);
    Tensor out = torch::zeros_like(x);
    for (std::int64_t i = 0; i < kExperts; ++i) {
      const std::vector<Tensor> where = torch::where(chosen == i);
      const Tensor& tokens = where[0];
      if (tokens.numel() == 0) continue;
      const Tensor done =
          experts->at<nn::SequentialImpl>(i).forward(x.index({tokens}));
      out.index_add_(0, tokens,
                     done * weights.index({tokens, where[1]}).unsqueeze(1));
    }
    return out;
  }
  nn::Linear gate{kWidth, kExperts};
  nn::ModuleList experts;
};
TORCH_MODULE(Experts);

// A step is a batch of 64 new tokens.
class MixtureOfExperts {
 public:
  void Step() {
    const Tensor x = torch::randn({64, ExpertsImpl::kWidth});
    const Tensor want = torch::sin(2 * x).roll(1, 1);
    optimizer_.zero_grad();
    loss_ = torch::mse_loss(x + net_(x), want);
    loss_.backward();
    optimizer_.step();
  }
  std::vector<Tensor> Result() {
    std::vector<Tensor> out = net_->parameters();
    out.push_back(loss_);
    return out;
  }

 private:
  Experts net_;
  optim::AdamW optimizer_{net_->parameters(), optim::AdamWOptions(1e-3)};
  Tensor loss_;
};

}  // namespace

std::vector<Row> HabitGraphRows() {
  return {
      HabitRow<GraphRegression<Convolution>>("graph-convolution", 3000, 400),
      HabitRow<GraphRegression<Attention>>("graph-attention", 2000, 250),
      HabitRow<EnergyAndForces>("energy-forces", 2000, 320),
      HabitRow<PairForces>("pair-forces", 2000, 400),
      HabitRow<MixtureOfExperts>("experts", 1500, 250),
  };
}

}  // namespace tjit::bench
