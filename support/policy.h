// The thresholds of support/policy.def as constants of the compiler.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tjit::policy {

#define TJIT_POLICY(type, name, value, unit, why) \
  inline constexpr type name = value;
#include "support/policy.def"

}  // namespace tjit::policy
