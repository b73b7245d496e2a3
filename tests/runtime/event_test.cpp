// What tjit::on_event() tells, compared with the counters; and callbacks that
// throw, are removed, call tjit and libtorch, or find themselves in a child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tjit/event.h>
#include <tjit/jit.h>
#include <tjit/region.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Keeps what it is told.
class Listener {
 public:
  Listener() {
    id_ = on_event([this](const Event& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    });
  }
  ~Listener() { remove_on_event(id_); }
  std::vector<Event> Of(EventKind kind) {
    EXPECT_TRUE(wait_for_events());
    const std::lock_guard lock(mutex_);
    std::vector<Event> some;
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(some),
                 [kind](const Event& event) { return event.kind == kind; });
    return some;
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  std::uint64_t id_ = 0;
};

class EventTest : public ::testing::Test {
 protected:
  void SetUp() override {
    disable();
    clear();
  }
  void TearDown() override {
    disable();
    clear();
  }
  static void Enable(Backend backend = Backend::kReplay) {
    Options options;
    options.hot_threshold = 2;
    options.backend = backend;
    ASSERT_TRUE(enable(options));
  }
};

// Four ops; another one as the third if `differs`.
at::Tensor Step(const at::Tensor& x, bool differs = false) {
  const at::Tensor y = at::mul(at::relu(x), 2);
  return at::add(differs ? at::tanh(y) : at::abs(y), x);
}

void Steps(const at::Tensor& x, int count) {
  for (int i = 0; i < count; ++i) {
    const at::Tensor y = Step(x);
    mark_step();
  }
}

TEST_F(EventTest, APromotionIsToldOnce) {
  Listener listener;
  Enable();
  const Stats before = stats();
  Steps(torch::ones({64}), 20);
  const Stats counted = stats() - before;
  ASSERT_EQ(counted.traces, 1);
  ASSERT_GT(counted.ops_replayed, 0);
  const auto told = listener.Of(EventKind::kPromoted);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].ops, 4);
  EXPECT_EQ(told[0].region, "");
  EXPECT_EQ(told[0].function, "");
  EXPECT_EQ(told[0].times, 1);
  EXPECT_EQ(told[0].missed, 0);
  EXPECT_THAT(told[0].sequence, MatchesRegex("[0-9a-f]{12}"));
  EXPECT_THAT(told[0].to_json(),
              AllOf(StartsWith("{\"kind\": \"promoted\", \"sequence\": \"" +
                               told[0].sequence + "\""),
                    HasSubstr("\"ops\": 4, ")));
  EXPECT_THAT(listener.Of(EventKind::kFellBack), IsEmpty());
}

TEST_F(EventTest, TheRegionIsNamed) {
  Listener listener;
  Enable();
  const at::Tensor x = torch::ones({64});
  for (int i = 0; i < 10; ++i) {
    const Region region("solve/\"newton\"");
    Step(x);
  }
  const auto told = listener.Of(EventKind::kPromoted);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].region, "solve/\"newton\"");
  EXPECT_THAT(told[0].to_json(),
              HasSubstr("\"region\": \"solve/\\\"newton\\\"\""));
}

TEST_F(EventTest, CompilationsAreThoseOfTheCounters) {
  Listener listener;
  Enable(Backend::kInterpreter);
  const Stats before = stats();
  const at::Tensor x = torch::ones({64});
  Steps(x, 20);
  ASSERT_TRUE(wait_until_compiled());
  Steps(x, 5);
  const Stats counted = stats() - before;
  ASSERT_GT(counted.replays_tier2, 0);
  std::int64_t compiled = 0, reused = 0, failed = 0, took_ns = 0;
  const auto promoted = listener.Of(EventKind::kPromoted);
  ASSERT_THAT(promoted, SizeIs(1));
  for (const Event& event : listener.Of(EventKind::kCompiled)) {
    compiled += event.kernels_compiled;
    reused += event.kernels_reused;
    failed += event.kernels_failed;
    took_ns += event.took_ns;
    EXPECT_EQ(event.sequence, promoted[0].sequence);
    EXPECT_GT(event.ops, 0);
  }
  EXPECT_GT(compiled, 0);
  EXPECT_EQ(compiled, counted.kernels_compiled);
  EXPECT_EQ(reused, counted.kernels_reused);
  EXPECT_EQ(failed, counted.compiles_failed);
  EXPECT_EQ(took_ns, counted.compile_ns);
}

TEST_F(EventTest, AFallbackSaysWhatDiffered) {
  Listener listener;
  Enable();
  const at::Tensor x = torch::ones({64});
  Steps(x, 10);
  const Stats before = stats();
  Step(x, /*differs=*/true);
  mark_step();
  const Stats counted = stats() - before;
  ASSERT_EQ(counted.side_exit_count("op_differs"), 1);
  const auto told = listener.Of(EventKind::kFellBack);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].ops, 2);
  EXPECT_EQ(told[0].reason, "op_differs");
  EXPECT_EQ(told[0].why, "another op was called");
  EXPECT_EQ(told[0].op, "aten::abs");
  EXPECT_EQ(told[0].expected, "aten::abs");
  EXPECT_EQ(told[0].actual, "aten::tanh");
  EXPECT_EQ(told[0].sequence, listener.Of(EventKind::kPromoted)[0].sequence);
}

TEST_F(EventTest, ManyFallbacksAreToldASecondApart) {
  Listener listener;
  Enable();
  const at::Tensor x = torch::ones({1024});
  const Stats before = stats();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) {
    const at::Tensor y = at::mul(at::relu(x), 2);
    // Another number each time, which no sequence has.
    at::add(at::roll(y, i < 10 ? 1 : i), x);
    mark_step();
  }
  const Stats counted = stats() - before;
  std::int64_t exits = 0, told_times = 0;
  for (const std::int64_t n : counted.side_exits) exits += n;
  const auto told = listener.Of(EventKind::kFellBack);
  const auto took = std::chrono::steady_clock::now() - began;
  for (const Event& event : told) told_times += event.times;
  // Some are bails of recording, which are no fallbacks.
  for (const char* name :
       {"not_repeated", "store_full", "trace_too_long", "blacklisted"}) {
    exits -= counted.side_exit_count(name);
  }
  EXPECT_GE(exits, 5);
  EXPECT_EQ(told_times, exits);
  // The first and the last of each reason, and one a second between.
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(took).count();
  EXPECT_LE(told.size(), 3 * static_cast<std::size_t>(2 + seconds));
}

TEST_F(EventTest, AFunctionIsNamed) {
  Listener listener;
  Enable();
  const at::Tensor x = torch::ones({64});
  JitOptions named;
  named.name = "predict";
  auto function = jit([](const at::Tensor& t) { return Step(t); }, named);
  for (int i = 0; i < 5; ++i) function(x);
  ASSERT_GT(function.stats().replays, 0);
  const auto told = listener.Of(EventKind::kPromoted);
  ASSERT_THAT(told, Not(IsEmpty()));
  EXPECT_EQ(told[0].function, "predict");
  EXPECT_EQ(told[0].ops, 4);
  EXPECT_THAT(told[0].sequence, Not(IsEmpty()));

  named.name = "reads";
  auto reads = jit(
      [](const at::Tensor& t) { return Step(t) * Step(t).sum().item<float>(); },
      named);
  for (int i = 0; i < 5; ++i) reads(x);
  const auto refused = listener.Of(EventKind::kGivenUp);
  ASSERT_THAT(refused, Not(IsEmpty()));
  EXPECT_EQ(refused[0].function, "reads");
  EXPECT_EQ(refused[0].reason, "jit_host_read");
  EXPECT_THAT(refused[0].why, HasSubstr("reads or writes values on the host"));
}

TEST_F(EventTest, ACallbackThatIsRemovedIsNotCalled) {
  std::atomic<int> first{0}, second{0};
  const auto a = on_event([&](const Event&) { ++first; });
  const auto b = on_event([&](const Event&) { ++second; });
  EXPECT_GT(b, a);
  EXPECT_TRUE(remove_on_event(a));
  EXPECT_FALSE(remove_on_event(a));
  EXPECT_FALSE(remove_on_event(0));
  Enable();
  Steps(torch::ones({64}), 10);
  EXPECT_TRUE(wait_for_events());
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_TRUE(remove_on_event(b));
  clear();
  Steps(torch::ones({64}), 10);
  EXPECT_TRUE(wait_for_events());
  EXPECT_EQ(second, 1);
}

// What it holds is destroyed where no lock of the events is held.
TEST_F(EventTest, WhatACallbackHeldMayCallTjitWhenItGoes) {
  struct CallsAtItsEnd {
    std::atomic<bool>* has_ended;
    ~CallsAtItsEnd() {
      remove_on_event(1u << 30);
      static_cast<void>(wait_for_events());
      has_ended->store(true);
    }
  };
  std::atomic<bool> has_ended{false};
  std::atomic<std::uint64_t> id{0};
  const Listener other;  // the thread lives on
  auto held = std::make_shared<CallsAtItsEnd>(&has_ended);
  id = on_event([&id, held](const Event&) { remove_on_event(id); });
  held.reset();
  Enable();
  Steps(torch::ones({64}), 10);
  EXPECT_TRUE(wait_for_events());
  for (int i = 0; i < 500 && !has_ended; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(has_ended);
}

TEST_F(EventTest, RemovingWaitsForTheCallbackThatRuns) {
  std::atomic<bool> is_inside{false}, is_over{false};
  const auto id = on_event([&](const Event&) {
    is_inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    is_over = true;
  });
  Enable();
  Steps(torch::ones({64}), 10);
  while (!is_inside) std::this_thread::yield();
  EXPECT_FALSE(wait_for_events(std::chrono::milliseconds(1)));
  EXPECT_TRUE(remove_on_event(id));
  EXPECT_TRUE(is_over);
}

TEST_F(EventTest, OneThatThrowsIsSaidAndCalledAgain) {
  std::atomic<int> calls{0}, others{0};
  const auto a = on_event([&](const Event&) {
    ++calls;
    throw std::runtime_error("a bug of the callback");
  });
  const auto b = on_event([&](const Event&) { ++others; });
  ::testing::internal::CaptureStderr();
  Enable();
  for (int i = 0; i < 3; ++i) {
    clear();
    Steps(torch::ones({64}), 10);
  }
  EXPECT_TRUE(wait_for_events());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(others, 3);
  EXPECT_THAT(said, HasSubstr("a callback of tjit::on_event() threw: a bug of "
                              "the callback; the program goes on"));
  EXPECT_EQ(said.find("threw"), said.rfind("threw"));
  EXPECT_TRUE(remove_on_event(a));
  EXPECT_TRUE(remove_on_event(b));
}

TEST_F(EventTest, InsideEverythingMayBeCalled) {
  const at::Tensor x = torch::arange(64, torch::kFloat32);
  at::Tensor inside;
  std::atomic<int> calls{0};
  std::atomic<bool> is_right{true};
  std::uint64_t id = 0;
  id = on_event([&](const Event&) {
    const Stats before = stats();
    inside = at::mul(at::relu(x), 2);  // pending work of others, too
    for (int i = 0; i < 20; ++i) inside = Step(inside) * 0.25;
    sync();
    mark_step();
    const Stats counted = stats() - before;
    if (counted.traces != 0 || wait_for_events() || explain().empty() ||
        !wait_until_compiled() || is_enabled()) {
      is_right = false;
    }
    if (++calls == 1) remove_on_event(id);
  });
  Enable();
  const Stats before = stats();
  at::Tensor expected, got;
  for (int i = 0; i < 50; ++i) {
    got = Step(x);
    mark_step();
  }
  EXPECT_TRUE(wait_for_events());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(is_right);
  const Stats counted = stats() - before;
  EXPECT_EQ(counted.traces, 1);
  EXPECT_GE(counted.ops_replayed, 40 * 4);
  disable();
  EXPECT_TRUE(SameBits(got, Step(x)));
  expected = at::mul(at::relu(x), 2);
  for (int i = 0; i < 20; ++i) expected = Step(expected) * 0.25;
  EXPECT_TRUE(SameBits(inside, expected));
}

TEST_F(EventTest, TwoThreadsAreToldOneAfterAnother) {
  std::atomic<int> inside{0}, most{0}, promoted{0};
  const auto id = on_event([&](const Event& event) {
    most = std::max(most.load(), ++inside);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (event.kind == EventKind::kPromoted) ++promoted;
    --inside;
  });
  Enable();
  const Stats before = stats();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([t] {
      // A sequence of its own each.
      at::Tensor x = torch::ones({64});
      for (int i = 0; i < 20; ++i) {
        at::Tensor y = t == 0 ? at::relu(x) : at::tanh(x);
        y = at::add(at::mul(y, 2), x);
        mark_step();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait_for_events());
  EXPECT_EQ(promoted, (stats() - before).traces);
  EXPECT_EQ(promoted, 2);
  EXPECT_EQ(most, 1);
  EXPECT_TRUE(remove_on_event(id));
}

TEST_F(EventTest, AForkedChildIsToldOfItsOwn) {
  std::atomic<int> promoted{0};
  const auto id = on_event([&](const Event& event) {
    if (event.kind == EventKind::kPromoted) ++promoted;
  });
  Enable();
  Steps(torch::ones({64}), 10);
  EXPECT_TRUE(wait_for_events());
  EXPECT_EQ(promoted, 1);
  const pid_t child = fork();
  if (child == 0) {
    clear();
    Steps(torch::ones({64}), 10);
    const bool told = wait_for_events(std::chrono::seconds(20));
    _exit(told && promoted == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(promoted, 1);
  EXPECT_TRUE(remove_on_event(id));
}

TEST_F(EventTest, TheProcessEndsWithACallbackThere) {
  for (const bool while_it_runs : {false, true}) {
    EXPECT_EXIT(
        {
          std::atomic<bool> is_inside{false};
          on_event([&](const Event&) {
            is_inside = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          });
          Enable();
          Steps(torch::ones({64}), 10);
          while (while_it_runs && !is_inside) std::this_thread::yield();
          std::exit(3);
        },
        ::testing::ExitedWithCode(3), "");
  }
  EXPECT_EXIT(
      {
        on_event([](const Event&) { std::exit(4); });
        Enable();
        Steps(torch::ones({64}), 10);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      ::testing::ExitedWithCode(4), "");
}

TEST_F(EventTest, BadInputSaysWhatToDo) {
  try {
    on_event(nullptr);
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("tjit::on_event: the callback is empty; "
                                    "pass a function"));
  }
}

}  // namespace
}  // namespace tjit
