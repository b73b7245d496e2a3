// TJIT_NAN: the op that makes NaN or infinity out of numbers is named, ops that
// only pass them on are not, and the program has eager's bits.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/region.h>
#include <tjit/tjit.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class NanCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.nan = true;
    ASSERT_TRUE(enable(options));
    before_ = stats();
  }
  void TearDown() override { disable(); }

  std::int64_t Findings() const { return (stats() - before_).nan_findings; }
  std::int64_t Checks() const { return (stats() - before_).nan_checks; }

  // What is said on stderr while `run` runs.
  static std::string Said(const std::function<void()>& run) {
    ::testing::internal::CaptureStderr();
    run();
    return ::testing::internal::GetCapturedStderr();
  }

  Stats before_;
};

TEST_F(NanCheckTest, NamesOpPlaceAndInputs) {
  const at::Tensor x = at::tensor({1.0f, -2.0f, 0.0f, 4.0f}).view({2, 2});
  mark_step();
  const std::string said = Said([&] {
    const Region region("solve");
    const at::Tensor y = at::relu(x) + 1;
    const at::Tensor z = x.log();
    const at::Tensor passed_on = (z * y).sum();
  });
  EXPECT_EQ(Findings(), 1) << said;
  EXPECT_THAT(said,
              HasSubstr("TJIT_NAN: op 3 of step 2 in region solve, aten::log, "
                        "made NaN: 1 of the 4 numbers of f32[2,2], the first "
                        "at [0,1]; from f32[2,2] in -2 to 4, 1 zero\n"));
}

TEST_F(NanCheckTest, EachEnableCountsAnew) {
  for (int i = 0; i < 5; ++i) mark_step();
  at::ones({3}) + 1;
  disable();
  SetUp();
  const std::string said = Said([] { at::zeros({9}).log(); });
  EXPECT_THAT(said, HasSubstr("TJIT_NAN: op 2, aten::log"));
}

TEST_F(NanCheckTest, SaysEachOpAndShapeOnce) {
  const at::Tensor zero = at::zeros({5}), other = at::zeros({6});
  const std::string said = Said([&] {
    for (int i = 0; i < 10; ++i) at::reciprocal(zero);
    at::reciprocal(other);
  });
  EXPECT_EQ(Findings(), 11);
  const std::string name = "aten::reciprocal, made infinity: ";
  const std::size_t first = said.find(name),
                    second = said.find(name, first + 1);
  ASSERT_NE(second, std::string::npos) << said;
  EXPECT_EQ(said.find(name, second + 1), std::string::npos) << said;
}

struct Case {
  const char* name;
  std::function<void()> run;
  const char* made;  // "" if nothing
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class NanCases : public NanCheckTest,
                 public ::testing::WithParamInterface<Case> {};

TEST_P(NanCases, AreFoundOrNot) {
  const std::string said = Said(GetParam().run);
  EXPECT_GT(Checks(), 0);
  const std::string made = GetParam().made;
  EXPECT_EQ(Findings(), made.empty() ? 0 : 1) << said;
  if (!made.empty()) {
    EXPECT_THAT(said, HasSubstr(", made " + made));
  }
}

const Case kCases[] = {
    {"in_place",
     [] {
       at::Tensor x = at::ones({3});
       x.div_(at::zeros({3})).add_(1);
     },
     "infinity: 3 of the 3 numbers of f32[3], the first at [0]; from f32[3] in "
     "1 to 1; f32[3] in 0 to 0, 3 zeros"},
    {"list_in_place",
     [] {
       std::vector<at::Tensor> list = {at::ones({3}), at::full({2}, -1.0)};
       at::_foreach_sqrt_(list);
     },
     "NaN: 2 of the 2"},
    {"out",
     [] {
       at::Tensor out = at::full({3}, std::nan(""));
       at::log_out(out, at::zeros({3}));
     },
     "infinity: 3 of the 3"},
    {"old_contents_of_a_copy",
     [] {
       at::Tensor x = at::full({3}, std::nan(""));
       x.copy_(at::ones({3}));
       at::sqrt(x - 2);
     },
     "NaN: 3 of the 3"},
    {"masked_attention",
     [] {
       const at::Tensor mask =
           at::full({4, 4}, -kInfinity).triu(1) + at::ones({4, 4});
       at::softmax(mask, 1).matmul(at::ones({4, 4}));
     },
     ""},
    {"row_that_is_masked_out",
     [] {
       at::Tensor scores = at::zeros({2, 3});
       scores.select(0, 1).fill_(-kInfinity);
       at::softmax(scores, 1) * 2;
     },
     "NaN: 3 of the 6 numbers of f32[2,3], the first at [1,0]"},
    {"number_among_the_arguments", [] { at::ones({2}) * kInfinity; }, ""},
    {"nan_among_the_arguments", [] { at::ones({2}) + std::nan(""); }, ""},
    {"host_data",
     [] {
       const std::vector<double> data = {1, kInfinity};
       at::tensor(data) - at::tensor({0.0, kInfinity});
     },
     "NaN: 1 of the 2"},
    {"half", [] { at::full({4}, 1e6).to(at::kHalf) * 2; },
     "infinity: 4 of the 4 numbers of f16[4]"},
    {"bfloat16", [] { at::full({4}, 3e38, at::kBFloat16) * 2; },
     "infinity: 4 of the 4 numbers of bf16[4]"},
    {"complex",
     [] {
       const at::Tensor x = at::complex(at::zeros({2}), at::ones({2}));
       x / at::zeros({2});
     },
     "NaN: "},
    {"view_with_gaps",
     [] {
       const at::Tensor x = at::ones({3, 4});
       at::Tensor column = x.select(1, 2);
       column.div_(at::tensor({1.0f, 0.0f, 1.0f}));
     },
     "infinity: 1 of the 3 numbers of f32[3](4)+2, the first at [1]"},
    {"integers",
     [] {
       const at::Tensor x = at::ones({3}, at::kLong);
       (x + 1).sum();
     },
     ""},
    {"empty_memory",
     [] {
       at::full({1000}, std::nan(""));  // whose memory comes again
       const at::Tensor x = at::empty({1000});
       x.view({10, 100}).select(0, 1).zero_();
     },
     ""},
    {"ctc",
     [] {
       const at::Tensor p = at::log_softmax(at::zeros({5, 1, 3}), 2);
       at::ctc_loss(p, at::ones({1, 2}, at::kLong), {5}, {2}) + 1;
     },
     ""},
    {"backward",
     [] {
       at::Tensor x = at::zeros({3}).requires_grad_();
       x.sqrt().sum().backward();
     },
     "infinity: 3 of the 3 numbers of f32[3]"},
    {"standard_deviation_of_one", [] { at::ones({1}).std(); },
     "NaN: 1 of the 1"},
};
INSTANTIATE_TEST_SUITE_P(All, NanCases, ::testing::ValuesIn(kCases),
                         [](const auto& i) {
                           return std::string(i.param.name);
                         });

at::Tensor Train() {
  at::manual_seed(1);
  at::Tensor w = at::rand({8, 8}) * 0.1, x = at::rand({4, 8});
  w.requires_grad_();
  for (int i = 0; i < 30; ++i) {
    const at::Tensor loss = at::gelu(x.matmul(w)).pow(2).mean();
    w.mutable_grad() = at::Tensor();
    loss.backward();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    mark_step();
  }
  return w.detach();
}

TEST_F(NanCheckTest, ProgramsHaveEagersBits) {
  disable();
  const at::Tensor want = Train();
  SetUp();
  EXPECT_TRUE(at::equal(Train(), want));
  const Stats s = stats() - before_;
  EXPECT_EQ(s.nan_findings, 0);
  EXPECT_GT(s.nan_checks, 30 * 5);
  EXPECT_EQ(s.ops_deferred, 0);
}

TEST_F(NanCheckTest, LooksIntoFunctionsThatWereReplayed) {
  disable();
  auto f =
      jit([](const at::Tensor& x) { return (x - 1).log() + 2; }, {.name = "f"});
  ASSERT_TRUE(enable());
  for (int i = 0; i < 20; ++i) f(at::full({3}, 2));
  SetUp();
  const std::string said = Said([&] { f(at::full({3}, 0.5)); });
  EXPECT_EQ(Findings(), 1);
  EXPECT_THAT(said, HasSubstr("aten::log, made NaN"));
}

TEST_F(NanCheckTest, IsAnErrorWithStrict) {
  Options options;
  options.nan = options.strict = true;
  ASSERT_TRUE(enable(options));
  const at::Tensor x = at::zeros({3});
  at::Tensor y = at::ones({3});
  try {
    y.div_(x);
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("tjit: TJIT_NAN: op "),
                                HasSubstr("aten::div_.Tensor, made infinity")));
  }
  // The op has run, and the program may go on.
  EXPECT_TRUE(std::isinf(y[0].item<float>()));
  EXPECT_EQ((at::ones({3}) + 1).sum().item<float>(), 6);
}

TEST(NanCheckOff, CountsNothing) {
  const Stats before = stats();
  ASSERT_TRUE(enable());
  const std::string said = [&] {
    ::testing::internal::CaptureStderr();
    at::zeros({7}).log();
    return ::testing::internal::GetCapturedStderr();
  }();
  disable();
  EXPECT_EQ((stats() - before).nan_checks, 0);
  EXPECT_THAT(said, Not(HasSubstr("TJIT_NAN")));
}

}  // namespace
}  // namespace tjit
