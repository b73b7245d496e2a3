// Process-global state that kernels read: ops deferred before a
// change run with the old state, what follows with the new one, and a step
// that was prepared under one state is not used under another. End to end,
// with eager's bits; every test asserts by counters that ops were replayed.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/div.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/put.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <xmmintrin.h>

#include <cstring>
#include <functional>
#include <vector>

namespace tjit {
namespace {

using at::Float32Backend, at::Float32Op, at::Float32Precision;
using Tensors = std::vector<at::Tensor>;

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(),
                     b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

// Gives the state back that the tests change.
class GlobalStateTest : public testing::Test {
 protected:
  void TearDown() override {
    disable();
    at::Context& c = at::globalContext();
    c.setFloat32MatmulPrecision("highest");
    c.setFloat32Precision(Float32Backend::MKLDNN, Float32Op::ALL,
                          Float32Precision::NONE);
    c.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL,
                          Float32Precision::NONE);
    c.setDeterministicAlgorithms(false, false);
    c.setUserEnabledMkldnn(true);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
    at::set_num_threads(1);
    _mm_setcsr(mxcsr_);
  }

  // Runs `loop` eagerly, then under tjit.
  Stats Compare(const std::function<Tensors()>& loop) {
    at::manual_seed(1);
    disable();
    const Tensors eager = loop();
    TearDown();
    clear();
    at::manual_seed(1);
    Options fast;
    fast.hot_threshold = 2;
    EXPECT_TRUE(enable(fast));
    const Stats before = stats();
    const Tensors ours = loop();
    sync();
    const Stats d = stats() - before;
    disable();
    EXPECT_EQ(eager.size(), ours.size());
    for (std::size_t i = 0; i < eager.size() && i < ours.size(); ++i) {
      EXPECT_TRUE(SameBits(eager[i], ours[i])) << "result " << i;
    }
    EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
    EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
    return d;
  }

 private:
  const unsigned mxcsr_ = _mm_getcsr();
};

// 40 steps of small products; `change(i)` before step i.
Tensors Products(const std::function<void(int)>& change) {
  Tensors results;
  at::Tensor x = at::randn({48, 48}), w = at::randn({48, 48});
  for (int i = 0; i < 40; ++i) {
    change(i);
    x = at::tanh(at::mm(x, w));
    x = at::add(x, x, 0.25);
    results.push_back(at::linear(x, w, w[0]));
    mark_step();
  }
  return results;
}

TEST_F(GlobalStateTest, ProductsFollowTheMatmulPrecision) {
  Compare([] {
    return Products([](int i) {
      const char* const precisions[] = {"highest", "medium", "high"};
      at::globalContext().setFloat32MatmulPrecision(precisions[i / 10 % 3]);
    });
  });
}

// Autocast casts above the kernels: what they get is another stream, in
// bfloat16.
TEST_F(GlobalStateTest, ProductsFollowAutocast) {
  Compare([] {
    Tensors results;
    const at::Tensor x = at::randn({48, 48}), w = at::randn({48, 48});
    for (int i = 0; i < 40; ++i) {
      at::autocast::set_autocast_enabled(at::kCPU, i % 10 >= 5);
      results.push_back(at::tanh(at::mm(x, w)));
      results.push_back(at::add(results.back(), x, 0.25));
      mark_step();
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    EXPECT_EQ(results[8].scalar_type(), at::kFloat);
    EXPECT_EQ(results[10].scalar_type(), at::kBFloat16);
    return results;
  });
}

// A conjugate or negative view is the same storage with a bit in its key set.
TEST_F(GlobalStateTest, ConjugateAndNegativeViewsAreNotTheirTensors) {
  Compare([] {
    Tensors results;
    const at::Tensor z = at::randn({48}, at::kComplexFloat), x = at::randn({48});
    for (int i = 0; i < 40; ++i) {
      const at::Tensor turned = i % 2 == 0 ? z : z.conj();
      results.push_back(at::view_as_real(at::add(turned, turned, 0.5)));
      results.push_back(at::add(x, at::imag(turned)));
      for (int k = 0; k < 4; ++k) results.push_back(at::tanh(results.back()));
      mark_step();
    }
    return results;
  });
}

TEST_F(GlobalStateTest, ProductsFollowTheFinerPrecisions) {
  // The getter of the older interface throws in this state.
  Compare([] {
    return Products([](int i) {
      at::globalContext().setFloat32Precision(
          Float32Backend::MKLDNN, Float32Op::MATMUL,
          i / 10 % 2 == 1 ? Float32Precision::BF16 : Float32Precision::IEEE);
    });
  });
  Compare([] {
    return Products([](int i) {
      at::Context& c = at::globalContext();
      // Inherited from all products' generic parent.
      c.setFloat32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL,
                            Float32Precision::NONE);
      c.setFloat32Precision(
          Float32Backend::GENERIC, Float32Op::ALL,
          i / 10 % 2 == 1 ? Float32Precision::BF16 : Float32Precision::NONE);
    });
  });
}

TEST_F(GlobalStateTest, PendingOpsRunAsTheyWereCalled) {
  Compare([] {
    return Products([](int i) {
      // The last linear of the step before is pending here.
      at::globalContext().setFloat32MatmulPrecision(i % 2 ? "medium"
                                                          : "highest");
    });
  });
}

TEST_F(GlobalStateTest, ThisMachineRoundsProductsInMedium) {
  // Else the tests above would pass with any state.
  const at::Tensor a = at::randn({48, 48}), b = at::randn({48, 48});
  const at::Tensor highest = at::mm(a, b);
  at::globalContext().setFloat32MatmulPrecision("medium");
  if (SameBits(highest, at::mm(a, b))) {
    GTEST_SKIP() << "no bfloat16 products on this CPU";
  }
}

TEST_F(GlobalStateTest, ThreadCountsThatChange) {
  Compare([] {
    Tensors sums;
    at::Tensor x = at::randn({100000});
    for (int i = 0; i < 40; ++i) {
      at::set_num_threads(1 + i / 8 % 2);
      x = at::tanh(at::add(x, x, 0.5));
      sums.push_back(at::sum(x));
      mark_step();
    }
    return sums;
  });
}

TEST_F(GlobalStateTest, DenormalsThatNobodyWasToldOf) {
  Compare([] {
    Tensors results;
    at::Tensor x = at::randn({64}), tiny = at::ones({64}) * 1e-30f;
    for (int i = 0; i < 40; ++i) {
      x = at::add(x, x, 0.25) * 0.5;
      results.push_back(x * tiny * 1e-9f);
      // Denormals are zeros from here: not for what is pending.
      _mm_setcsr(i % 4 == 3 ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
      mark_step();
    }
    return results;
  });
}

TEST_F(GlobalStateTest, OnednnSwitch) {
  Compare([] {
    return Products([](int i) {
      at::globalContext().setUserEnabledMkldnn(i / 10 % 2 == 0);
      at::globalContext().setFloat32MatmulPrecision("medium");
    });
  });
}

TEST_F(GlobalStateTest, DefaultDtypeDecidesResults) {
  Compare([] {
    Tensors results;
    at::Tensor n = at::ones({16}, at::kLong) * 3, m = at::ones({16}, at::kLong);
    for (int i = 0; i < 60; ++i) {
      c10::set_default_dtype(i / 20 % 2 == 1 ? caffe2::TypeMeta::Make<double>()
                                             : caffe2::TypeMeta::Make<float>());
      m = at::add(m, n);
      results.push_back(at::div(m, n));
      mark_step();
    }
    return results;
  });
}

TEST_F(GlobalStateTest, DeterministicModeRefusesAtTheCall) {
  Compare([] {
    Tensors results;
    int refused = 0;
    at::Tensor x = at::zeros({8}), v = at::randn({2});
    const at::Tensor where = at::ones({2}, at::kLong);
    for (int i = 0; i < 60; ++i) {
      at::globalContext().setDeterministicAlgorithms(i / 20 % 2 == 1, false);
      x = at::tanh(at::add(x, x, 0.25));
      try {
        x.put_(where, v);
      } catch (const c10::Error&) {
        ++refused;
      }
      results.push_back(at::add(x, x));
      mark_step();
    }
    EXPECT_EQ(refused, 20);
    return results;
  });
}

}  // namespace
}  // namespace tjit
