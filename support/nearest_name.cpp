#include "support/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace tjit {
namespace {

// Levenshtein's distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(std::string_view name,
                       const std::vector<std::string_view>& known) {
  std::string_view nearest;
  std::size_t least = name.size() / 3;  // further is no typing mistake
  std::string list;
  for (const std::string_view candidate : known) {
    if (!list.empty()) list += ", ";
    list += candidate;
    // Long garbage is near to nothing, and costly to compare.
    if (name.size() > 2 * candidate.size()) continue;
    const std::size_t distance = EditDistance(name, candidate);
    if (distance > least || (!nearest.empty() && distance == least)) continue;
    least = distance;
    nearest = candidate;
  }
  std::string text;
  if (!nearest.empty()) text = ", did you mean " + std::string(nearest) + "?";
  return text + " (known: " + list + ")";
}

}  // namespace tjit
