// Callbacks of at::RecordFunction that come while sequences are replayed see
// the ops that eager libtorch shows, those that kernels call too, each once and
// in the same order, and a span for each time that pending ops run.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using at::Tensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

thread_local std::vector<std::string> ops;    // ">" for each level, and a name
thread_local std::vector<std::string> spans;  // of the scope USER_SCOPE
thread_local int depth = 0;

at::RecordFunctionCallback Watcher() {
  return at::RecordFunctionCallback(
             [](const at::RecordFunction& f)
                 -> std::unique_ptr<at::ObserverContext> {
               if (f.scope() == at::RecordScope::USER_SCOPE) {
                 spans.emplace_back(f.name());
                 return nullptr;
               }
               const auto name = f.operator_name();
               ops.push_back(std::string(depth++, '>') +
                             (name ? c10::toString(*name) : f.name()));
               return nullptr;
             },
             [](const at::RecordFunction& f, at::ObserverContext*) {
               if (f.scope() == at::RecordScope::FUNCTION) --depth;
             })
      .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
}

// "(16,32;-)": the sizes of each tensor, of those in lists too.
std::string ShapesText(c10::ArrayRef<const c10::IValue> inputs) {
  std::string text = "(";
  for (const c10::IValue& input : inputs) {
    if (text.size() > 1) text += ';';
    if (input.isTensor() && input.toTensor().defined()) {
      const Tensor& tensor = input.toTensor();
      text.append(c10::toString(tensor.scalar_type()));
      for (const std::int64_t size : tensor.sizes()) {
        text.append(1, ',').append(std::to_string(size));
      }
    } else if (input.isTensorList() ||
               (input.isList() && !input.toListRef().empty() &&
                input.toListRef()[0].isTensor())) {
      text += ShapesText(input.toListRef());
    } else {
      text += "-";
    }
  }
  text += ')';
  return text;
}

// As Watcher(), with shapes.
at::RecordFunctionCallback ShapeWatcher() {
  return at::RecordFunctionCallback(
             [](const at::RecordFunction& f)
                 -> std::unique_ptr<at::ObserverContext> {
               const std::string shapes = ShapesText(f.inputs());
               if (f.scope() == at::RecordScope::USER_SCOPE) {
                 spans.push_back(f.name() + shapes);
                 return nullptr;
               }
               const auto name = f.operator_name();
               ops.push_back(std::string(depth++, '>') +
                             (name ? c10::toString(*name) : f.name()) + shapes);
               return nullptr;
             },
             [](const at::RecordFunction& f, at::ObserverContext*) {
               if (f.scope() == at::RecordScope::FUNCTION) --depth;
             })
      .needsInputs(true)
      .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
}

std::int64_t OpsIn(const std::vector<std::string>& names) {
  std::int64_t sum = 0;
  for (const std::string& name : names) {
    EXPECT_THAT(name, StartsWith("tjit: "));
    sum += std::strtoll(name.c_str() + 6, nullptr, 10);
  }
  return sum;
}

// Ops whose kernels call others, composites that are wrapped as a whole,
// autograd and an optimizer's updates in place.
class Program {
 public:
  Program() {
    torch::manual_seed(0);
    x_ = torch::randn({16, 32});
    for (int i = 0; i < 2; ++i) {
      weights_.push_back(torch::randn({32, 32}).div_(8).requires_grad_());
    }
  }
  float Step(const std::function<void()>& in_the_middle = [] {}) {
    Tensor y = x_;
    for (const Tensor& w : weights_) y = torch::relu(torch::mm(y, w)) * 0.5;
    Tensor loss = y.pow(2).mean() + y.abs().mean(0).sum();
    in_the_middle();
    loss = loss + (y.detach() * 2).to(torch::kDouble).to(torch::kFloat).sum() +
           torch::zeros({64, 64}).add_(1).mean();
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& w : weights_) {
      w.sub_(w.grad(), 0.01);
      w.mutable_grad() = Tensor();
    }
    return loss.item<float>();
  }

 private:
  Tensor x_;
  std::vector<Tensor> weights_;
};

class ObserversTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ops.clear();
    spans.clear();
  }
  void TearDown() override {
    disable();
    clear();
  }

  // Each of `steps` steps behind `before` unwatched ones, and what they gave.
  static std::vector<std::vector<std::string>> Watch(
      int before, int steps, std::vector<float>* results,
      const at::RecordFunctionCallback& watcher = Watcher()) {
    Program program;
    for (int i = 0; i < before; ++i) program.Step();
    std::vector<std::vector<std::string>> seen;
    const auto handle = at::addGlobalCallback(watcher);
    for (int i = 0; i < steps; ++i) {
      ops.clear();
      results->push_back(program.Step());
      seen.push_back(ops);
    }
    at::removeCallback(handle);
    return seen;
  }
};

TEST_F(ObserversTest, SeeWhatEagerShowsWhenTheyComeWhileItIsReplayed) {
  constexpr int kBefore = 100, kWatched = 6;
  std::vector<float> eager_results, results;
  const auto eager = Watch(kBefore, kWatched, &eager_results);
  EXPECT_GT(eager[0].size(), 60u);
  EXPECT_THAT(eager[0], ::testing::Contains(">>aten::div_.Scalar"));
  EXPECT_THAT(spans, IsEmpty());

  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  Program program;
  for (int i = 0; i < kBefore; ++i) program.Step();
  const Stats before = stats();
  EXPECT_GT(before.ops_replayed, 20 * kBefore) << "nothing was replayed";
  const auto handle = at::addGlobalCallback(Watcher());
  std::vector<std::int64_t> replayed;
  for (int i = 0; i < kWatched; ++i) {
    ops.clear();
    const std::int64_t then = stats().ops_replayed;
    results.push_back(program.Step());
    EXPECT_EQ(ops, eager[i]) << "step " << i;
    replayed.push_back(stats().ops_replayed - then);
  }
  at::removeCallback(handle);
  const Stats watched = stats() - before;
  // The first one learns what is called, the others are replayed as ever.
  EXPECT_LT(replayed[0], 5);
  EXPECT_GT(replayed.back(), 20);
  EXPECT_EQ(OpsIn(spans), watched.ops_replayed);
  EXPECT_THAT(spans.back(), ::testing::MatchesRegex(
                                "tjit: [0-9]+ ops [a-z_]+ \\.\\.\\. [a-z_]+"));
  EXPECT_EQ(results, eager_results);

  const std::size_t count = spans.size();
  const Stats then = stats();
  for (int i = 0; i < 20; ++i) program.Step();
  EXPECT_GT((stats() - then).ops_replayed, 20 * 20);
  EXPECT_EQ(spans.size(), count);
}

// Of what kernels call, too, which is not called in a replay; and each span of
// a replay has those of what it reads.
TEST_F(ObserversTest, SeeTheShapesThatEagerShows) {
  constexpr int kBefore = 100, kWatched = 4;
  std::vector<float> eager_results, results;
  const auto eager = Watch(kBefore, kWatched, &eager_results, ShapeWatcher());
  EXPECT_THAT(eager[0],
              ::testing::Contains("aten::mm(Float,16,32;Float,32,32)"));
  EXPECT_THAT(eager[0],
              ::testing::Contains(StartsWith(">>aten::div_.Scalar(")));

  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  const Stats before = stats();
  EXPECT_EQ(Watch(kBefore, kWatched, &results, ShapeWatcher()), eager);
  EXPECT_EQ(results, eager_results);
  EXPECT_GT((stats() - before).ops_replayed, 20 * (kBefore + 2));
}

TEST_F(ObserversTest, ASpanHasTheShapesOfWhatItReads) {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::rand({3, 4}), w = torch::rand({4, 5}),
               y = torch::rand({5}), n = torch::zeros({2}, torch::kLong);
  const auto step = [&] {
    const Tensor z = torch::mm(x, w) + y;
    n.add_(1);
    const Tensor last = torch::exp(z * y);
    mark_step();
  };
  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  for (int i = 0; i < 40; ++i) step();
  const auto handle = at::addThreadLocalCallback(ShapeWatcher());
  for (int i = 0; i < 3; ++i) step();
  at::removeCallback(handle);
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans.back(),
            "tjit: 5 ops mm ... exp(Float,3,4;Float,4,5;Float,5;Long,2)");
  // Who does not ask gets none.
  spans.clear();
  const auto other = at::addThreadLocalCallback(Watcher());
  for (int i = 0; i < 3; ++i) step();
  at::removeCallback(other);
  EXPECT_EQ(spans.back(), "tjit: 5 ops mm ... exp");
}

TEST_F(ObserversTest, ComingInTheMiddleOfAStep) {
  const auto rest_of_a_step = [](int before) {
    Program program;
    for (int i = 0; i < before; ++i) program.Step();
    at::CallbackHandle handle = 0;
    ops.clear();
    program.Step([&] { handle = at::addThreadLocalCallback(Watcher()); });
    at::removeCallback(handle);
    return ops;
  };
  const auto eager = rest_of_a_step(50);
  EXPECT_GT(eager.size(), 30u);
  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  const Stats before = stats();
  EXPECT_EQ(rest_of_a_step(50), eager);
  EXPECT_GT((stats() - before).ops_replayed, 1000);
  // What was pending when it came is not its own: what comes then is learnt.
  EXPECT_THAT(spans, IsEmpty());
}

TEST_F(ObserversTest, WhatIsPendingRunsBeforeTheyGo) {
  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  Program program;
  for (int i = 0; i < 50; ++i) program.Step();
  const auto handle = at::addGlobalCallback(Watcher());
  for (int i = 0; i < 3; ++i) program.Step();
  spans.clear();
  program.Step([&] {
    EXPECT_THAT(spans, IsEmpty());
    at::removeCallback(handle);
    // It is the first time that this part of a step is run alone.
    ASSERT_THAT(
        spans, ElementsAre(StartsWith("tjit: "), StartsWith("tjit: prepare ")));
    EXPECT_GT(OpsIn(spans), 8);
  });
  EXPECT_EQ(spans.size(), 2u);
}

TEST_F(ObserversTest, OfAnotherThreadSeeNothingOfThisOne) {
  ASSERT_TRUE(enable({.hot_threshold = 3, .backend = Backend::kReplay}));
  Program program;
  for (int i = 0; i < 50; ++i) program.Step();
  const Stats before = stats();
  std::thread([&] {
    at::addThreadLocalCallback(Watcher());
    (torch::ones({3}) + 1).sum();
    EXPECT_THAT(ops, ::testing::Contains("aten::sum"));
    EXPECT_EQ(depth, 0);
  }).join();
  const std::int64_t then = stats().ops_replayed;
  program.Step();
  EXPECT_GT(stats().ops_replayed - then, 20);
  EXPECT_THAT(ops, IsEmpty());
}

// Compiled code alone runs past all that observers need, else.
TEST_F(ObserversTest, SeeASpanOfMachineCode) {
  const Tensor x = torch::rand({100});
  const auto step = [&] {
    Tensor y = ((x * 2 + 1) * x).mul_(3);
    sync();
    mark_step();
    return y;
  };
  const Tensor eager = step();
  const auto names = [&] {
    ops.clear();
    EXPECT_TRUE(SameBits(step(), eager));
    return ops;
  };
  auto handle = at::addGlobalCallback(Watcher());
  const auto eager_names = names();
  EXPECT_THAT(eager_names, ::testing::Contains(">aten::mul.Tensor"));
  at::removeCallback(handle);
  ASSERT_TRUE(enable(MachineCodeAtOnce()));
  for (int i = 0; i < 24; ++i) {
    step();
    testing::WaitForCompiler();
  }
  Stats before = stats();
  step();
  EXPECT_EQ((stats() - before).replays_alone, 1);
  handle = at::addGlobalCallback(Watcher());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(names(), eager_names) << i;
  ASSERT_THAT(spans, ::testing::Not(IsEmpty()));
  EXPECT_EQ(spans.back(), "tjit: 4 ops mul ... mul_");
  at::removeCallback(handle);
  before = stats();
  step();
  step();
  EXPECT_EQ((stats() - before).replays_alone, 2);
}

// What tjit does itself, and how long code took that another thread made.
TEST_F(ObserversTest, SeePreparingAndWhereCodeCame) {
  const Tensor x = torch::rand({100});
  const auto handle = at::addGlobalCallback(Watcher());
  ASSERT_TRUE(enable(MachineCodeAtOnce()));
  const Stats before = stats();
  for (int i = 0; i < 24; ++i) {
    const Tensor y = ((x * 2 + 1) * x).mul_(3);
    sync();
    mark_step();
    testing::WaitForCompiler();
  }
  at::removeCallback(handle);
  const Stats did = stats() - before;
  ASSERT_GT(did.groups_run, 3);
  int prepared = 0;
  std::vector<double> code_ms;
  for (const std::string& span : spans) {
    if (span == "tjit: prepare 4 ops mul ... mul_") ++prepared;
    double ms = 0;
    if (std::sscanf(span.c_str(),
                    "tjit: code for 4 of 4 ops mul ... mul_ after %lf ms",
                    &ms) == 1) {
      code_ms.push_back(ms);
    }
  }
  EXPECT_EQ(prepared, 1);
  ASSERT_EQ(code_ms.size(), 1u) << ::testing::PrintToString(spans);
  EXPECT_NEAR(code_ms[0], 1e-6 * static_cast<double>(did.compile_ns), 0.051);
  // It is prepared within its first run, and the others are runs.
  const auto first =
      std::find(spans.begin(), spans.end(), "tjit: prepare 4 ops mul ... mul_");
  ASSERT_NE(first, spans.begin());
  EXPECT_EQ(*(first - 1), "tjit: 4 ops mul ... mul_");
  EXPECT_EQ(OpsIn(spans), did.ops_replayed);
}

std::atomic<int> seen_elsewhere{0};

// Finding functions with eager's bits means calling eager.
TEST_F(ObserversTest, SeeNothingOfTheWorker) {
  static thread_local bool is_here = false;
  is_here = true;
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        if (!is_here) ++seen_elsewhere;
        return nullptr;
      }));
  const Tensor x = torch::rand({100});
  ASSERT_TRUE(enable(MachineCodeAtOnce()));
  const Stats before = stats();
  for (int i = 0; i < 24; ++i) {
    const Tensor y = torch::log1p(torch::asin(torch::cosh(x) * x) + x) + x;
    sync();
    mark_step();
    testing::WaitForCompiler();
  }
  at::removeCallback(handle);
  EXPECT_GT((stats() - before).groups_run, 3);
  EXPECT_EQ(seen_elsewhere, 0);
}

}  // namespace
}  // namespace tjit
