// The number of a named region (region_table.h). 0: outside of all.
#pragma once

#include <cstdint>

namespace tjit {

using RegionId = std::uint32_t;
inline constexpr RegionId kNoRegion = 0;

}  // namespace tjit
