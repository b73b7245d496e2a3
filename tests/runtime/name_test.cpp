// Names of tensors: what has which, what is refused, and that no result, no
// sequence and no tensor depends on them. What is printed of them:
// tests/acceptance/names_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tjit/jit.h>
#include <tjit/name.h>
#include <tjit/tjit.h>
#include <tjit/torchscript.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The first line of the error that `call` throws; "" if none.
std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

// GCC 12 warns of what is no fault where these are added by +.
std::string Numbered(const char* word, int number) {
  std::string text = word;
  text += std::to_string(number);
  return text;
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

struct Net : torch::nn::Module {
  Net() {
    layer1 = register_module("layer1", torch::nn::Linear(4, 3));
    scale = register_buffer("scale", torch::ones({3}));
  }
  at::Tensor forward(const at::Tensor& x) { return layer1(x) * scale; }
  torch::nn::Linear layer1{nullptr};
  at::Tensor scale;
};

class NameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    disable();
    clear();
  }
  void TearDown() override {
    disable();
    clear();
  }
};

TEST_F(NameTest, ATensorHasTheNameItWasGivenLast) {
  const at::Tensor x = torch::ones({4}), y = torch::ones({4});
  EXPECT_EQ(name_of(x), "");
  name(x, "x");
  EXPECT_EQ(name_of(x), "x");
  EXPECT_EQ(name_of(y), "");
  name(x, "eq::state/a");
  EXPECT_EQ(name_of(x), "eq::state/a");
  name(y, "eq::state/a");  // two may have one name
  EXPECT_EQ(name_of(y), "eq::state/a");
  EXPECT_EQ(name_of(at::Tensor()), "");
}

TEST_F(NameTest, ViewsHaveTheNameAndPartsTheirOwn) {
  const at::Tensor flat = torch::ones({8});
  name(flat, "flat");
  EXPECT_EQ(name_of(flat.view({2, 4})), "flat");
  const at::Tensor a = flat.slice(0, 0, 4), b = flat.slice(0, 4, 8);
  EXPECT_EQ(name_of(b), "flat");  // the memory has one name
  name(b, "b");
  EXPECT_EQ(name_of(b), "b");
  EXPECT_EQ(name_of(a), "flat");
  EXPECT_EQ(name_of(flat.slice(0, 2, 4)), "");  // neither of the two
}

TEST_F(NameTest, ANameDiesWithTheMemory) {
  // Storages of one size take one another's place in memory.
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor x = torch::empty({4});
    ASSERT_EQ(name_of(x), "") << i;
    name(x, Numbered("x", i));
  }
  ASSERT_TRUE(enable());
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor x = torch::empty({4});
    ASSERT_EQ(name_of(x), "") << i;
    name(x, Numbered("x", i));
  }
}

TEST_F(NameTest, AModuleNamesItsParametersAndBuffers) {
  const auto net = std::make_shared<Net>();
  name(*net);
  EXPECT_EQ(name_of(net->layer1->weight), "layer1.weight");
  EXPECT_EQ(name_of(net->layer1->bias), "layer1.bias");
  EXPECT_EQ(name_of(net->scale), "scale");
  name(net, "teacher");
  EXPECT_EQ(name_of(net->layer1->weight), "teacher.layer1.weight");
  torch::nn::Linear alone(2, 2);
  name(alone);
  EXPECT_EQ(name_of(alone->weight), "weight");
  const torch::nn::Linear without_bias(
      torch::nn::LinearOptions(2, 2).bias(false));
  name(without_bias, "w");
  EXPECT_EQ(name_of(without_bias->weight), "w.weight");
}

TEST_F(NameTest, BadInputSaysWhatToDo) {
  const at::Tensor x = torch::ones({4});
  EXPECT_EQ(ErrorOf([] { name(at::Tensor(), "x"); }),
            "tjit::name: x is to name an undefined tensor; name it once it is "
            "defined");
  EXPECT_EQ(ErrorOf([&] { name(x, ""); }),
            "tjit::name: the name is empty; write UTF-8 of 1 to 200 bytes");
  EXPECT_EQ(ErrorOf([&] { name(x, std::string(201, 'x')); }),
            "tjit::name: the name has 201 bytes; 200 are accepted; write UTF-8 "
            "of 1 to 200 bytes");
  EXPECT_EQ(ErrorOf([&] { name(x, "ab\xff"); }),
            "tjit::name: the name is no UTF-8 at byte 2; write UTF-8 of 1 to "
            "200 bytes");
  EXPECT_THAT(
      ErrorOf([&] { name(x.to_sparse(), "s"); }),
      AllOf(HasSubstr("tjit::name: s is to name a tensor of layout Sparse"),
            HasSubstr("name the tensors that it is made of")));
  EXPECT_EQ(name_of(x), "");
  name(x, std::string(200, 'x'));
  name(x, "a\n\"b\"\\\x01");
  EXPECT_EQ(name_of(x), "a\n\"b\"\\\x01");
}

TEST_F(NameTest, MoreNamesThanAreKeptAreSaidOnce) {
  constexpr int kMost = 65536;
  ::testing::internal::CaptureStderr();
  {
    std::vector<at::Tensor> all;
    for (int i = 0; i < kMost + 100; ++i) {
      all.push_back(torch::empty({1}));
      name(all.back(), "one");
    }
    EXPECT_EQ(name_of(all[0]), "one");
    EXPECT_EQ(name_of(all.back()), "");
    name(all[0], "again");  // has a place
    EXPECT_EQ(name_of(all[0]), "again");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("tjit::name: one and names behind it are not "
                              "kept: 65536 tensors"));
  EXPECT_EQ(said.find("not kept"), said.rfind("not kept"));
  const at::Tensor next = torch::ones({4}), flat = torch::ones({1000});
  name(next, "next");  // those have died
  EXPECT_EQ(name_of(next), "next");
  for (int i = 0; i < 300; ++i) name(flat[i], Numbered("part", i));
  EXPECT_EQ(name_of(flat[255]), "part255");
  EXPECT_EQ(name_of(flat[256]), "");
}

at::Tensor Step(const at::Tensor& x, const at::Tensor& w, bool names) {
  const at::Tensor hidden = at::relu(at::mul(x, w));
  if (names) name(hidden, "hidden");
  const at::Tensor y = at::add(at::mul(hidden, 0.5), x);
  if (names) name(y, "y");
  return y;
}

// Of twenty steps.
Stats RunSteps(bool names, std::vector<at::Tensor>* results) {
  disable();
  clear();
  const at::Tensor x = torch::arange(64, torch::kFloat32), w = x * 0.25 - 3;
  const Stats before = stats();
  Options options;
  options.hot_threshold = 2;
  EXPECT_TRUE(enable(options));
  if (names) {
    name(x, "x");
    name(w, "w");
  }
  for (int i = 0; i < 20; ++i) {
    results->push_back(Step(x, w, names));
    mark_step();
  }
  disable();
  return stats() - before;
}

TEST_F(NameTest, NamesChangeNoResultAndNoCounter) {
  std::vector<at::Tensor> named, unnamed;
  const Stats with = RunSteps(true, &named),
              without = RunSteps(false, &unnamed);
  EXPECT_GT(with.ops_replayed, 0);
  EXPECT_EQ(with.ops_seen, without.ops_seen);
  EXPECT_EQ(with.ops_replayed, without.ops_replayed);
  EXPECT_EQ(with.segments, without.segments);
  EXPECT_EQ(with.traces, without.traces);
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_TRUE(SameBits(named[i], unnamed[i])) << i;
  }
}

TEST_F(NameTest, TensorsOfOtherNamesShareASequence) {
  Options options;
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  const Stats before = stats();
  const at::Tensor a = torch::ones({64}), b = a * 2, w = a * 3;
  name(a, "a");
  name(b, "b");
  for (int i = 0; i < 20; ++i) {
    Step(a, w, false);
    mark_step();
  }
  const Stats middle = stats();
  for (int i = 0; i < 20; ++i) {
    Step(b, w, false);
    mark_step();
  }
  const Stats after = stats() - middle;
  EXPECT_EQ((middle - before).traces, 1);
  EXPECT_EQ(after.traces, 0);
  EXPECT_EQ(after.ops_replayed, 20 * 4);
}

TEST_F(NameTest, AnErrorTextHasTheNames) {
  Options options;
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  const at::Tensor x = torch::ones({64}), small = torch::ones({32}),
                   w = torch::ones({1});
  name(x, "the \"state\"");
  name(small, "eq::rest");
  for (int i = 0; i < 20; ++i) {
    const at::Tensor y = at::mul(at::relu(w), 2);
    if (i == 12) name(x, "renamed");  // the recorded one stays
    Step(i == 15 ? small : x, y, false);
    mark_step();
  }
  EXPECT_THAT(explain(),
              AllOf(HasSubstr("f32[64] recorded as \"the \\\"state\\\"\""),
                    HasSubstr("f32[32] called eq::rest")));
  const at::Tensor taken = torch::ones({77});
  name(taken, "taken/here");
  taken.data_ptr();
  EXPECT_THAT(explain(), HasSubstr("of taken/here"));
}

TEST_F(NameTest, AFileOfTorchscriptHasTheNamesThatCanStandThere) {
  ASSERT_TRUE(enable());
  const at::Tensor w = torch::ones({4}), other = w * 2, odd = w * 3,
                   free = w * 4;
  name(w, "layer.weight");
  name(other, "layer.weight");  // is taken
  name(odd, "eq::state/odd");   // is no name there
  auto function = jit([=](const at::Tensor& x) {
    return at::add(at::mul(at::mul(x, w), other), at::mul(odd, free));
  });
  const at::Tensor x = torch::ones({4});
  for (int i = 0; i < 8; ++i) function(x);
  ASSERT_GT(function.stats().replays, 0) << function.stats().why;
  const std::string path = ::testing::TempDir() + Numbered("names_", getpid());
  save_torchscript(path, function, x);
  torch::jit::Module loaded = torch::jit::load(path);
  unlink(path.c_str());
  std::vector<std::string> names;
  for (const auto& buffer : loaded.named_buffers()) {
    names.push_back(buffer.name);
    if (buffer.name == "layer.weight") {
      EXPECT_TRUE(SameBits(buffer.value, w));
    }
  }
  EXPECT_THAT(names, UnorderedElementsAre("layer.weight", "captured0",
                                          "captured1", "captured2"));
  EXPECT_TRUE(SameBits(loaded.forward({x}).toTensor(), function(x)));
}

TEST_F(NameTest, ThreadsNameAndRecordAtOnce) {
  Options options;
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  const at::Tensor shared = torch::ones({64});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string mine = Numbered("thread", t);
      const at::Tensor x = torch::ones({64}) * t;
      const at::Tensor expected = (x * shared).relu() * 0.5 + x;
      for (int i = 0; i < 200; ++i) {
        name(x, mine);
        name(shared, "shared");
        const at::Tensor y = Step(x, shared, true);
        if (name_of(x) != mine || name_of(y) != "y") ++wrong;
        if (i % 50 == 49 && !y.equal(expected)) ++wrong;
        mark_step();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(NameTest, AForkedChildNamesToo) {
  ASSERT_TRUE(enable());
  const at::Tensor x = torch::ones({64});
  name(x, "x");
  std::atomic<bool> stops{false};
  std::thread busy([&] {
    const at::Tensor y = torch::ones({64});
    while (!stops) name(y, "y");
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const bool had = name_of(x) == "x";
      name(x, "child");
      _exit(had && name_of(x) == "child" ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stops = true;
  busy.join();
  EXPECT_EQ(name_of(x), "x");
}

}  // namespace
}  // namespace tjit
