// Phase separation by the Cahn-Hilliard equation, as a list of computes of
// which each is a region of its own. Two of them are excluded: the transforms
// stay with libtorch, at the call. cahn_hilliard [STEPS]
//
//   dc/dt = laplace(c^3 - c - kappa laplace(c)) on a torus, kappa implicit
//
// Tested by: tests/acceptance/examples_test.py
#include <tjit/region.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr double kDt = 1e-3, kKappa = 1e-3;

// What the computes share. The squared wave numbers and 1 + dt kappa k^4 stay.
struct Fields {
  torch::Tensor c, mu;          // concentration, potential
  torch::Tensor c_bar, mu_bar;  // both in Fourier space
  torch::Tensor k2, denominator;
};

struct Compute {
  std::string name;
  std::function<void(Fields*)> run;
};

void Potential(Fields* f) { f->mu = f->c * f->c * f->c - f->c; }

void Transform(Fields* f) {
  f->c_bar = torch::fft::rfft2(f->c);
  f->mu_bar = torch::fft::rfft2(f->mu);
}

void Update(Fields* f) {
  f->c_bar = (f->c_bar - f->mu_bar * f->k2 * kDt) / f->denominator;
}

void TransformBack(Fields* f) { f->c = torch::fft::irfft2(f->c_bar); }

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  Fields f;
  f.c = torch::rand({64, 64}) * 0.2 - 0.1;
  const torch::Tensor kx = torch::fft::fftfreq(64, 1.0 / 64, torch::kFloat)
                               .unsqueeze(1),
                      ky = torch::fft::rfftfreq(64, 1.0 / 64, torch::kFloat);
  f.k2 = kx * kx + ky * ky;
  f.denominator = f.k2 * f.k2 * (kDt * kKappa) + 1;
  const std::vector<Compute> solve = {{"potential", &Potential},
                                      {"fft_forward", &Transform},
                                      {"update", &Update},
                                      {"fft_back", &TransformBack}};

  // A file of options says the same under `regions`, by the same names.
  tjit::set_region_options("solve", {.threshold = 3});
  tjit::set_region_options("solve/fft*", {.exclude = true});
  tjit::enable();
  for (int step = 0; step < steps; ++step) {
    const tjit::Region whole("solve");
    for (const Compute& compute : solve) {
      const tjit::Region region(compute.name);  // "solve/potential", ...
      compute.run(&f);
    }
  }
  std::printf("c %a\n", f.c.square().sum().item<float>());

  for (const Compute& compute : solve) {
    const tjit::RegionStats did = tjit::region_stats("solve/" + compute.name);
    std::printf("%s: %lld of %lld ops were replayed\n", compute.name.c_str(),
                static_cast<long long>(did.ops_replayed),
                static_cast<long long>(did.ops_seen));
  }
}
