// Kernels of the program that do what schemas do not tell: throw, resize an
// argument, write through a raw pointer (with and without saying so), call
// back into torch. Tensors before and after have eager's bits, and the ops
// around go on being replayed.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/library.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tjit {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor Throws(const at::Tensor& t, std::int64_t i) {
  TORCH_CHECK(i % 7 != 3, "odd kernel: ", i);
  if (i % 7 == 5) throw std::runtime_error("odd kernel, std: " + t.toString());
  return t;
}

at::Tensor& Grows(at::Tensor& t) {
  const std::int64_t n = t.numel();
  t.resize_({n + 4});
  t.narrow(0, n, 4).fill_(0.5);
  return t;
}

// As extensions do it: inputs by pointer, writes that no schema tells of.
void Writes(const at::Tensor& t) {
  float* p = t.data_ptr<float>();
  for (std::int64_t i = 0; i < t.numel(); ++i) p[i] = p[i] * 0.5f + 1;
}

at::Tensor CallsBack(const at::Tensor& t) {
  at::Tensor y = t;
  for (int i = 0; i < 3; ++i) y = at::tanh(at::add(y, t));
  if (at::sum(y).item<float>() > 0) y = at::mul(y, t);
  return y;
}

TORCH_LIBRARY(tjit_odd_kernels_test, m) {
  m.def("throws(Tensor t, int i) -> Tensor");
  m.def("grows(Tensor(a!) t) -> Tensor(a!)");
  m.def("writes(Tensor(a!) t) -> ()");
  m.def("writes_quietly(Tensor t) -> ()");
  m.def("calls_back(Tensor t) -> Tensor");
}
TORCH_LIBRARY_IMPL(tjit_odd_kernels_test, CPU, m) {
  m.impl("throws", &Throws);
  m.impl("grows", &Grows);
  m.impl("writes", [](at::Tensor& t) { Writes(t); });
  m.impl("writes_quietly", &Writes);
  m.impl("calls_back", &CallsBack);
}

template <class Signature, class... Args>
auto Call(const char* name, Args&&... args) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(
          (std::string("tjit_odd_kernels_test::") + name).c_str(), "")
      .typed<Signature>()
      .call(std::forward<Args>(args)...);
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a._version() == b._version() &&
         std::memcmp(a.contiguous().const_data_ptr(),
                     b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

// Runs `loop` eagerly and under tjit.
void Compare(const std::function<Tensors()>& loop) {
  at::manual_seed(1);
  disable();
  const Tensors eager = loop();
  clear();
  at::manual_seed(1);
  Options fast;
  fast.hot_threshold = 2;
  ASSERT_TRUE(enable(fast));
  const Stats before = stats();
  const Tensors ours = loop();
  sync();
  const Stats d = stats() - before;
  disable();
  ASSERT_EQ(eager.size(), ours.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "result " << i;
  }
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
  EXPECT_EQ(d.side_exit_count("step_threw"), 0);
  EXPECT_GT(d.ops_replayed, d.ops_seen / 3) << d.to_json();
}

// 60 steps with `odd` between ops that read what it writes, before and after.
Tensors Loop(const std::function<at::Tensor(at::Tensor, int)>& odd) {
  Tensors results;
  at::Tensor x = at::randn({16}), sum = at::ones({});
  for (int i = 0; i < 60; ++i) {
    at::Tensor y = at::tanh(at::add(x, x, 0.25));
    const at::Tensor before = at::mul(y, y);
    const at::Tensor view = y.narrow(0, 2, 4);
    y = odd(y, i);
    x = at::add(y.narrow(0, 0, 16), before, 0.5);
    sum = at::add(sum, at::sum(at::mul(view, view)));
    results.insert(results.end(), {y, before, x, sum});
    mark_step();
  }
  return results;
}

TEST(OddKernelsTest, OneThatThrows) {
  int caught = 0;
  const auto run = [&] {
    return Loop([&](const at::Tensor& y, int i) {
      try {
        return Call<at::Tensor(const at::Tensor&, std::int64_t)>("throws", y,
                                                                 i);
      } catch (const c10::Error& e) {
        EXPECT_EQ(std::string(e.what_without_backtrace()),
                  "odd kernel: " + std::to_string(i));
        ++caught;
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "odd kernel, std: CPUFloatType");
        ++caught;
      }
      return at::add(y, y);
    });
  };
  Compare(run);
  EXPECT_EQ(caught, 2 * 17);
}

TEST(OddKernelsTest, OneThatResizesItsArgument) {
  Compare([] {
    return Loop([](at::Tensor y, int) {
      Call<at::Tensor&(at::Tensor&)>("grows", y);
      EXPECT_EQ(y.numel(), 20);
      return y;
    });
  });
}

TEST(OddKernelsTest, OneThatWritesThroughARawPointer) {
  Compare([] {
    return Loop([](at::Tensor y, int) {
      Call<void(at::Tensor&)>("writes", y);
      return y;
    });
  });
}

TEST(OddKernelsTest, OneThatWritesAndDoesNotSaySo) {
  Compare([] {
    return Loop([](at::Tensor y, int) {
      Call<void(const at::Tensor&)>("writes_quietly", y);
      return y;
    });
  });
}

TEST(OddKernelsTest, OneThatWritesAnOldTensorThatPendingOpsRead) {
  Compare([] {
    at::Tensor old = at::randn({16});
    return Loop([&](const at::Tensor& y, int) {
      const at::Tensor read = at::add(old, y);
      Call<void(const at::Tensor&)>("writes_quietly", old);
      return at::mul(read, old);
    });
  });
}

TEST(OddKernelsTest, OneThatCallsBack) {
  Compare([] {
    return Loop([](const at::Tensor& y, int) {
      return Call<at::Tensor(const at::Tensor&)>("calls_back", y);
    });
  });
}

}  // namespace
}  // namespace tjit
