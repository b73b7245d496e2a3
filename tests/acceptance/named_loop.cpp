// A loop over tensors that have names, for names_test.py. Prints the bits of
// what it computed. Arguments: "unnamed" gives no names; else "named".
#include <ATen/ATen.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "tjit/name.h"
#include "tjit/tjit.h"

namespace {

bool has_names = true;

void Name(const at::Tensor& tensor, std::string_view name) {
  if (has_names) tjit::name(tensor, name);
}

at::Tensor Step(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& last) {
  const at::Tensor hidden = at::relu(at::mul(x, w));
  Name(hidden, "two \"words\"\n; name %0 = x");
  const at::Tensor y = at::add(at::mul(hidden, 0.5), last);
  Name(y, "<b>&amp;</b>");
  return y;
}

}  // namespace

int main(int argc, char** argv) {
  has_names = argc < 2 || std::string_view(argv[1]) != "unnamed";
  const at::Tensor x = at::arange(64, at::kFloat), w = x * 0.25 - 3,
                   one = at::ones({1});
  Name(x, "eq::state/a");
  Name(w, "layer1.weight");
  Name(one, "rest<i>");
  at::Tensor y;
  for (int i = 0; i < 40; ++i) {
    y = Step(x, w, x);
    tjit::mark_step();
    if (i == 20) tjit::wait_until_compiled();
  }
  Step(x, w, one);  // leaves the sequence
  tjit::mark_step();
  const float* const taken = w.mutable_data_ptr<float>();
  unsigned long hash = taken == nullptr ? 0 : 14695981039346656037ul;
  const auto* bytes = static_cast<const unsigned char*>(y.const_data_ptr());
  for (std::size_t i = 0; i < y.nbytes(); ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211ul;
  }
  std::printf("%lx\n", hash);
}
