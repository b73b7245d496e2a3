// The walk-through of ARCHITECTURE.md, section 3: nine ops, from the op stream
// to the prepared segment. The document holds what this test prints; with
// TJIT_BLESS=1 the test writes it there.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "recorder/trace_text.h"
#include "recorder/trace_verifier.h"
#include "runtime/platform/thread_context.h"
#include "runtime/runtime.h"
#include "runtime/thread/thread_state.h"
#include "support/env.h"

namespace tjit {
namespace {

constexpr int kSteps = 30;
const char kBegin[] = "<!-- written by tests/runtime/walkthrough_test.cpp -->"
                      "\n```text\n";
const char kEnd[] = "```\n";

// A linear layer with ReLU, its loss and gradients, and a step of SGD.
class Training {
 public:
  void Step() {
    at::relu(at::linear(x_, w_, b_)).sum().backward();
    {
      const at::NoGradGuard no_grad;
      w_.add_(w_.grad(), -0.125);
      b_.add_(b_.grad(), -0.125);
    }
    w_.mutable_grad().reset();
    b_.mutable_grad().reset();
    mark_step();
  }

 private:
  at::Tensor x_ = at::ones({8, 4});
  at::Tensor w_ = at::full({3, 4}, 0.5).requires_grad_();
  at::Tensor b_ = at::zeros({3}).requires_grad_();
};

// What a step did, without the steps before it.
std::string RowOf(const Stats& d) {
  std::ostringstream row;
  row << d.ops_seen << " ops: " << d.ops_eager << " eager, " << d.ops_replayed
      << " replayed";
  if (d.sequences != 0) row << "; sequence found";
  if (d.traces != 0) row << "; promoted to a trace of " << d.trace_steps;
  if (d.memory_plans != 0) row << "; segment prepared";
  return row.str();
}

// One line for each run of steps that did the same.
std::string Stream() {
  std::ostringstream out;
  Training training;
  std::string row;
  int first = 1;
  for (int step = 1; step <= kSteps + 1; ++step) {
    std::string now;
    if (step <= kSteps) {
      const Stats before = stats();
      training.Step();
      now = RowOf(stats() - before);
    }
    if (now == row) continue;
    if (step > 1) {
      out << "  step " << first;
      if (first != step - 1) out << " to " << step - 1;
      out << ": " << row << "\n";
    }
    row = now;
    first = step;
  }
  return out.str();
}

// The numbers of ops and of dispatch keys are this build's.
std::string WithoutNumbersOfTheBuild(const std::string& text) {
  return std::regex_replace(text, std::regex(" (key|ks)=[0-9a-f]+"), "");
}

std::string Walkthrough() {
  disable();
  clear();
  EXPECT_TRUE(enable());
  const Stats before = stats();
  std::string text = "1. the op stream, detected and promoted\n" + Stream();
  const Stats d = stats() - before;
  const TraceStore& store = *runtime::Runtime::Get().threads().store();
  text += "2. the trace\n";
  for (const Trace* trace : store.traces()) {
    const std::vector<const TraceNode*> path = store.PathOf(trace);
    EXPECT_EQ(VerifyPath(path), std::vector<std::string>());
    text += WithoutNumbersOfTheBuild(ToText(*trace, path));
  }
  text += "3. the prepared segment\n" +
          runtime::t_context.state->SegmentsToText();
  std::ostringstream counters;
  counters << "4. the counters\n  ops_seen " << d.ops_seen << " = ops_eager "
           << d.ops_eager << " + ops_replayed " << d.ops_replayed
           << " + ops_drained " << d.ops_drained << "\n  segments "
           << d.segments << ", flushes by mark_step "
           << d.flush_count("mark_step") << " of " << d.flush_count()
           << ", memory_plans " << d.memory_plans << "\n";
  disable();
  return text + counters.str();
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Walkthrough, ArchitectureShowsWhatHappens) {
  at::set_num_threads(1);
  const std::string now = Walkthrough();
  std::string document = ReadFile(TJIT_ARCHITECTURE);
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << "no block in " << TJIT_ARCHITECTURE;
  const std::size_t from = begin + sizeof(kBegin) - 1;
  const std::size_t to = document.find(kEnd, from);
  ASSERT_NE(to, std::string::npos);
  if (Environment().bless) {
    document.replace(from, to - from, now);
    std::ofstream(TJIT_ARCHITECTURE) << document;
    return;
  }
  EXPECT_EQ(document.substr(from, to - from), now)
      << "run this test with TJIT_BLESS=1, and read what changed";
}

TEST(Walkthrough, NineOpsAStep) {
  const std::string now = Walkthrough();
  EXPECT_NE(now.find("9 ops: 0 eager, 9 replayed"), std::string::npos) << now;
}

}  // namespace
}  // namespace tjit
