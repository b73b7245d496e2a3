#include "compiler/functions/mersenne_twister.h"

namespace tjit {

bool HasMersenneTwister() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

}  // namespace tjit
