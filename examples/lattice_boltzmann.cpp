// A lid that drives a fluid in a box, by the lattice Boltzmann method (D2Q9,
// BGK), as a list of computes of which each is a region of its own. The one
// that reports to the host is excluded. lattice_boltzmann [STEPS]
//
// Collision: Qian, d'Humieres, Lallemand (1992), Europhys. Lett. 17, 479.
// Walls: bounce-back, with the momentum of the lid.
//
// Tested by: tests/acceptance/examples_test.py
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <tjit/region.h>
#include <tjit/tjit.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kSize = 48;  // nodes a side, the walls among them
constexpr double kTau = 0.6, kSpeed = 0.1;  // relaxation; of the lid

// Direction d goes by (kX[d], kY[d]), and kBack[d] is the one against it.
constexpr std::array<int, 9> kX = {0, 1, 0, -1, 0, 1, -1, -1, 1};
constexpr std::array<int, 9> kY = {0, 0, 1, 0, -1, 1, 1, -1, -1};
constexpr std::array<std::int64_t, 9> kBack = {0, 3, 4, 1, 2, 7, 8, 5, 6};

// What the computes share.
struct Fields {
  at::Tensor f;        // f64 [9, kSize, kSize], by direction, y and x
  at::Tensor is_wall;  // bool [kSize, kSize]
  at::Tensor x, y, w;  // of the directions: f64 [9, 1, 1]
  at::Tensor back;     // kBack
  at::Tensor lid;      // what the lid adds: f64 [9, kSize, kSize]
  double most_speed = 0;
};

struct Compute {
  std::string name;
  std::function<void(Fields*)> run;
};

void Collide(Fields* s) {
  const at::Tensor density = s->f.sum(0);
  const at::Tensor ux = (s->f * s->x).sum(0) / density,
                   uy = (s->f * s->y).sum(0) / density;
  const at::Tensor along = 3 * (s->x * ux + s->y * uy);
  const at::Tensor equilibrium =
      s->w * density *
      (1 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy));
  const at::Tensor next = s->f + (equilibrium - s->f) / kTau;
  // In a wall what came goes back.
  s->f = at::where(s->is_wall, s->f.index_select(0, s->back) + s->lid, next);
}

void Stream(Fields* s) {
  std::vector<at::Tensor> moved;
  for (std::size_t d = 0; d < kX.size(); ++d) {
    moved.push_back(
        at::roll(s->f[static_cast<std::int64_t>(d)], {kY[d], kX[d]}, {0, 1}));
  }
  s->f = at::stack(moved);
}

void Report(Fields* s) {
  const at::Tensor ux = (s->f * s->x).sum(0) / s->f.sum(0);
  s->most_speed = at::where(s->is_wall, 0, ux).abs().max().item<double>();
}

template <class T>
at::Tensor Directions(const std::array<T, 9>& numbers) {
  const std::vector<double> values(numbers.begin(), numbers.end());
  return at::tensor(values, at::kDouble).view({9, 1, 1});
}

Fields Start() {
  Fields s;
  s.x = Directions(kX);
  s.y = Directions(kY);
  s.w = Directions(std::array<double, 9>{4. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 9,
                                         1. / 36, 1. / 36, 1. / 36, 1. / 36});
  s.back = at::tensor(std::vector<std::int64_t>(kBack.begin(), kBack.end()));
  s.is_wall = at::ones({kSize, kSize}, at::kBool);
  s.is_wall.narrow(0, 1, kSize - 2).narrow(1, 1, kSize - 2).fill_(false);
  s.lid = at::zeros({9, kSize, kSize}, at::kDouble);
  // The last row but for its corners.
  s.lid.select(1, kSize - 1)
      .narrow(1, 1, kSize - 2)
      .copy_((6 * kSpeed * s.w * s.x).view({9, 1}).expand({9, kSize - 2}));
  s.f = (s.w * at::ones({kSize, kSize}, at::kDouble)).contiguous();
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  const at::NoGradGuard no_grad;
  Fields s = Start();
  const std::vector<Compute> solve = {
      {"collide", &Collide}, {"stream", &Stream}, {"report", &Report}};

  tjit::set_region_options("solve", {.threshold = 3});
  tjit::set_region_options("solve/report", {.exclude = true});
  tjit::enable();
  for (int step = 0; step < steps; ++step) {
    const tjit::Region whole("solve");
    for (const Compute& compute : solve) {
      const tjit::Region region(compute.name);  // "solve/collide", ...
      compute.run(&s);
    }
  }
  std::printf("speed %a, mass %a\n", s.most_speed, s.f.sum().item<double>());

  for (const Compute& compute : solve) {
    const tjit::RegionStats did = tjit::region_stats("solve/" + compute.name);
    std::printf("%s: %lld of %lld ops were replayed\n", compute.name.c_str(),
                static_cast<long long>(did.ops_replayed),
                static_cast<long long>(did.ops_seen));
  }
}
