// The model of NEML2's tutorial on just-in-time compilation: the rates of three
// variables, which share one step of time. One function of named values; the
// graph of what was compiled has the names, and t - t_n once.
//
//   TJIT_DUMP=ir TJIT_DUMP_FILE=rates.txt build/release/bin/three_rates
//   build/release/bin/tjit graph rates.txt
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <tjit/jit.h>
#include <tjit/name.h>
#include <tjit/tjit.h>

#include <cstdio>
#include <cstring>

namespace {

// Of one time, at each of N points: f64 [N].
struct State {
  at::Tensor a, b, c;
};

}  // namespace
TJIT_FIELDS(State, a, b, c);

namespace {

at::Tensor Rate(const at::Tensor& now, const at::Tensor& before,
                const at::Tensor& t, const at::Tensor& t_before) {
  return (now - before) / (t - t_before);
}

State Rates(const State& now, const State& before, const at::Tensor& t,
            const at::Tensor& t_before) {
  State rates;
  rates.a = Rate(now.a, before.a, t, t_before);
  rates.b = Rate(now.b, before.b, t, t_before);
  rates.c = Rate(now.c, before.c, t, t_before);
  tjit::name(rates.a, "eq::state/a_rate");
  tjit::name(rates.b, "eq::state/b_rate");
  tjit::name(rates.c, "eq::state/c_rate");
  return rates;
}

State RandomState() {
  return {at::rand({1024}, at::kDouble), at::rand({1024}, at::kDouble),
          at::rand({1024}, at::kDouble)};
}

bool SameBits(const at::Tensor& x, const at::Tensor& y) {
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  at::manual_seed(5);
  auto rates = tjit::jit(Rates, {.name = "rates"});
  State before = RandomState();
  at::Tensor t_before = at::zeros({1024}, at::kDouble);
  bool same = true;
  for (int step = 1; step <= 3000; ++step) {
    const State now = RandomState();
    const at::Tensor t = t_before + 0.01 * step;
    tjit::name(now.a, "eq::state/a");
    tjit::name(now.b, "eq::state/b");
    tjit::name(now.c, "eq::state/c");
    tjit::name(t, "eq::forces/t");
    tjit::name(before.a, "eq::old_state/a");
    tjit::name(before.b, "eq::old_state/b");
    tjit::name(before.c, "eq::old_state/c");
    tjit::name(t_before, "eq::old_forces/t");
    const State fast = rates(now, before, t, t_before);
    const State eager = Rates(now, before, t, t_before);
    tjit::sync();
    same = same && SameBits(fast.a, eager.a) && SameBits(fast.b, eager.b) &&
           SameBits(fast.c, eager.c);
    before = now;
    t_before = t;
    if (step % 1000 == 0) tjit::wait_until_compiled();
  }
  const tjit::JitStats stats = rates.stats();
  std::printf("%lld of %lld calls replayed; %s bits%s%s\n",
              static_cast<long long>(stats.replays),
              static_cast<long long>(stats.calls), same ? "same" : "OTHER",
              stats.why.empty() ? "" : "; ", stats.why.c_str());
  return same && stats.replays > stats.calls * 9 / 10 ? 0 : 1;
}
