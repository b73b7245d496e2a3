// Every way to look into a tensor from C++ while its bytes are pending. Those
// that Python has too are in tests/acceptance/pending_reads.py.
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorAccessor.h>
#include <ATen/TensorIterator.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

struct Reader {
  const char* name;
  std::function<at::Tensor(const at::Tensor& y, const at::Tensor& x)> read;
};

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

at::Tensor Loaded(std::stringstream& stream) {
  at::Tensor t;
  torch::load(t, stream);
  return t;
}

// d(sum(leaf * y))/d(leaf) with a hook that looks into the gradient's memory.
at::Tensor HookThatReads(const at::Tensor& y, const at::Tensor& x) {
  at::Tensor leaf = x.clone().set_requires_grad(true);
  float seen = 0;
  at::Tensor z = leaf * y;
  z.register_hook([&](const at::Tensor& g) { seen = g.data_ptr<float>()[7]; });
  (z * z).sum().backward();
  return leaf.grad() + seen;
}

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx,
                            const at::Tensor& t) {
    ctx->save_for_backward({t});
    return t * 2;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx,
      torch::autograd::variable_list g) {
    const at::Tensor t = ctx->get_saved_variables()[0];
    return {g[0] * t.const_data_ptr<float>()[3]};
  }
};

at::Tensor OwnLoop(const at::Tensor& y) {
  at::Tensor out = at::empty_like(y);
  at::TensorIterator it = at::TensorIteratorConfig()
                              .add_output(out)
                              .add_const_input(y)
                              .build();
  it.serial_for_each(
      [](char** data, const std::int64_t* strides, std::int64_t columns,
         std::int64_t rows) {
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            float v = 0;
            std::memcpy(&v, data[1] + i * strides[3] + j * strides[1], 4);
            v *= 3;
            std::memcpy(data[0] + i * strides[2] + j * strides[0], &v, 4);
          }
        }
      },
      {0, it.numel()});
  return out;
}

at::Tensor ParallelSum(const at::Tensor& y) {
  return at::full({}, at::parallel_reduce(
                          0, y.numel(), 64, 0.0f,
                          [&](std::int64_t b, std::int64_t e, float sum) {
                            const float* p = y.const_data_ptr<float>();
                            for (std::int64_t i = b; i < e; ++i) sum += p[i];
                            return sum;
                          },
                          [](float a, float b) { return a + b; }));
}

std::vector<Reader> Readers() {
  return {
      {"accessor",
       [](const at::Tensor& y, const at::Tensor&) {
         const auto a = y.accessor<float, 2>();
         return at::full({}, a[2][3]);
       }},
      {"packed accessor",
       [](const at::Tensor& y, const at::Tensor&) {
         const auto a = y.packed_accessor64<float, 2>();
         return at::full({}, a[2][3]);
       }},
      {"typed pointers",
       [](const at::Tensor& y, const at::Tensor&) {
         return at::full({}, y.const_data_ptr<float>()[5] +
                                 y.mutable_data_ptr<float>()[6] +
                                 y.data_ptr<float>()[7]);
       }},
      {"untyped pointer",
       [](const at::Tensor& y, const at::Tensor&) {
         return at::full({}, static_cast<const float*>(y.data_ptr())[5]);
       }},
      {"pointer of a view",
       [](const at::Tensor& y, const at::Tensor&) {
         return at::full({}, y.t()[3].const_data_ptr<float>()[0]);
       }},
      {"storage pointer",
       [](const at::Tensor& y, const at::Tensor&) {
         return at::full(
             {}, static_cast<const float*>(y.storage().mutable_data())[5]);
       }},
      {"kernels called without the dispatcher",
       [](const at::Tensor& y, const at::Tensor& x) {
         const at::Tensor a = at::cpu::add(y, x, 0.5);
         const at::Tensor b = at::cpu::mm(y, x.t());
         const at::Tensor c = at::cpu::sum(y, at::IntArrayRef{0}, false,
                                           std::nullopt);
         return at::cat({a.flatten(), b.flatten(), c});
       }},
      {"in place without the dispatcher",
       [](const at::Tensor& y, const at::Tensor& x) {
         at::Tensor z = y;
         at::cpu::mul_(z, x);
         return z + y;
       }},
      {"a loop of its own", [](const at::Tensor& y, const at::Tensor&) {
         return OwnLoop(y);
       }},
      {"a parallel region", [](const at::Tensor& y, const at::Tensor&) {
         return ParallelSum(y);
       }},
      {"torch::save",
       [](const at::Tensor& y, const at::Tensor&) {
         std::stringstream stream;
         torch::save(y, stream);
         return Loaded(stream);
       }},
      {"torch::pickle_save",
       [](const at::Tensor& y, const at::Tensor&) {
         return torch::pickle_load(torch::pickle_save(y)).toTensor();
       }},
      {"an archive of a module",
       [](const at::Tensor& y, const at::Tensor&) {
         torch::nn::Linear from(32, 64), to(32, 64);
         torch::NoGradGuard no_grad;
         from->weight.copy_(y);
         std::stringstream stream;
         torch::save(from, stream);
         torch::load(to, stream);
         return to->weight.clone();
       }},
      {"operator<<",
       [](const at::Tensor& y, const at::Tensor&) {
         std::ostringstream text;
         text << y;
         const std::string s = text.str();
         at::Tensor bytes = at::empty({static_cast<std::int64_t>(s.size())},
                                      at::kChar);
         std::memcpy(bytes.data_ptr(), s.data(), s.size());
         return bytes;
       }},
      {"from_blob over it",
       [](const at::Tensor& y, const at::Tensor&) {
         const at::Tensor window = at::from_blob(y.data_ptr(), y.sizes());
         at::Tensor z = y;
         z.add_(1);
         return window * 2;
       }},
      {"set_data",
       [](const at::Tensor& y, const at::Tensor& x) {
         at::Tensor z = at::zeros({1});
         z.set_data(y);
         y.set_data(x);
         return z + y;
       }},
      {"set_ of a storage",
       [](const at::Tensor& y, const at::Tensor&) {
         at::Tensor z = at::empty({0});
         z.set_(y.storage(), 32, {4, 8}, {8, 1});
         return z * 2;
       }},
      {"resize_ that grows",
       [](const at::Tensor& y, const at::Tensor&) {
         at::Tensor z = y;
         z.resize_({128, 32});
         return z.narrow(0, 0, 64).clone();
       }},
      {"copy on write",
       [](const at::Tensor& y, const at::Tensor&) {
         at::Tensor z = at::_lazy_clone(y), u = at::_lazy_clone(z);
         z.add_(1);
         return at::cat({y, z, u, at::_lazy_clone(y)});
       }},
      {"swapped storages",
       [](const at::Tensor& y, const at::Tensor& x) {
         at::Tensor a = y, b = x.clone();
         c10::DataPtr old = a.storage().set_data_ptr(
             std::move(const_cast<c10::DataPtr&>(b.storage().data_ptr())));
         const float was = static_cast<const float*>(old.get())[9];
         return a + was;
       }},
      {"a hook", HookThatReads},
      {"a function of its own",
       [](const at::Tensor& y, const at::Tensor&) {
         const at::Tensor leaf = y.clone().set_requires_grad(true);
         Twice::apply(leaf).sum().backward();
         return leaf.grad();
       }},
      {"backward in another thread",
       [](const at::Tensor& y, const at::Tensor& x) {
         const at::Tensor leaf = x.clone().set_requires_grad(true);
         const at::Tensor loss = (leaf * y).sum();
         std::thread([&] { loss.backward(); }).join();
         return leaf.grad();
       }},
      {"a memory copy in another thread",
       [](const at::Tensor& y, const at::Tensor&) {
         at::Tensor out = at::empty_like(y);
         std::thread([&] {
           std::memcpy(out.data_ptr<float>(), y.const_data_ptr<float>(),
                       y.nbytes());
         }).join();
         return out;
       }},
  };
}

// [64, 32] f32: four ops, all deferrable.
at::Tensor Step(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor y = at::tanh(x * w);
  return at::add(y, x, 0.5) * 2;
}

class PendingReadsTest : public ::testing::TestWithParam<Reader> {
 protected:
  void TearDown() override {
    disable();
    clear();
  }
};

TEST_P(PendingReadsTest, HasEagersBits) {
  at::manual_seed(5);
  const at::Tensor base = at::randn({64, 32}), w = at::randn({32});
  const at::Tensor plain_x = base.clone();
  const at::Tensor want = GetParam().read(Step(plain_x, w), plain_x);

  Options fast;
  fast.hot_threshold = 2;
  ASSERT_TRUE(enable(fast));
  const at::Tensor x = base.clone();
  for (int i = 0; i < 20; ++i) Step(x, w)[0][0].item();
  const Stats before = stats();
  at::Tensor y = Step(x, w);
  const Stats now = stats() - before;
  ASSERT_EQ(now.ops_deferred, 4);
  ASSERT_EQ(now.ops_replayed + now.ops_drained, 0);
  const at::Tensor got = GetParam().read(y, x);
  sync();
  const Stats then = stats() - before;
  EXPECT_GE(then.ops_replayed + then.ops_drained, 4);
  EXPECT_EQ(then.side_exit_count("step_threw"), 0);
  ASSERT_EQ(got.sizes(), want.sizes());
  EXPECT_EQ(0, std::memcmp(got.contiguous().data_ptr(),
                           want.contiguous().data_ptr(), want.nbytes()));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, PendingReadsTest, ::testing::ValuesIn(Readers()),
    [](const ::testing::TestParamInfo<Reader>& info) {
      std::string name = info.param.name;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace tjit
