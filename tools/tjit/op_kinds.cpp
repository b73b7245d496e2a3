#include "tools/tjit/op_kinds.h"

#include <iterator>
#include <utility>

namespace tjit::tools {
namespace {

constexpr std::pair<const char*, const char*> kKinds[] = {
#define TJIT_TIMELINE_KIND(suffix, name, colour) {name, colour},
    TJIT_TIMELINE_KINDS(TJIT_TIMELINE_KIND)
#undef TJIT_TIMELINE_KIND
};
static_assert(std::size(kKinds) == kSliceKinds);

// The name without overload: what is equal to it, or begins with a word that
// ends in "*", or has one between two of them. The first that fits.
constexpr std::pair<std::string_view, SliceKind> kPatterns[] = {
    {"mm", SliceKind::kProduct},
    {"bmm", SliceKind::kProduct},
    {"addmm", SliceKind::kProduct},
    {"addmm_", SliceKind::kProduct},
    {"_addmm*", SliceKind::kProduct},
    {"addmv*", SliceKind::kProduct},
    {"addr*", SliceKind::kProduct},
    {"addbmm*", SliceKind::kProduct},
    {"baddbmm*", SliceKind::kProduct},
    {"mv", SliceKind::kProduct},
    {"dot", SliceKind::kProduct},
    {"vdot", SliceKind::kProduct},
    {"linear*", SliceKind::kProduct},
    {"*conv*", SliceKind::kProduct},
    {"*mkldnn*", SliceKind::kProduct},
    {"*attention*", SliceKind::kProduct},
    {"*softmax*", SliceKind::kReduction},
    {"*_loss*", SliceKind::kReduction},
    {"*batch_norm*", SliceKind::kReduction},
    {"*layer_norm*", SliceKind::kReduction},
    {"*group_norm*", SliceKind::kReduction},
    {"*pool*", SliceKind::kReduction},
    {"sum", SliceKind::kReduction},
    {"nansum", SliceKind::kReduction},
    {"mean", SliceKind::kReduction},
    {"prod", SliceKind::kReduction},
    {"max", SliceKind::kReduction},
    {"min", SliceKind::kReduction},
    {"amax", SliceKind::kReduction},
    {"amin", SliceKind::kReduction},
    {"argmax", SliceKind::kReduction},
    {"argmin", SliceKind::kReduction},
    {"all", SliceKind::kReduction},
    {"any", SliceKind::kReduction},
    {"norm", SliceKind::kReduction},
    {"linalg_vector_norm", SliceKind::kReduction},
    {"var*", SliceKind::kReduction},
    {"std*", SliceKind::kReduction},
    {"logsumexp", SliceKind::kReduction},
    {"cumsum*", SliceKind::kReduction},
    {"topk", SliceKind::kReduction},
    {"sort", SliceKind::kReduction},
    {"copy*", SliceKind::kMemory},
    {"_copy*", SliceKind::kMemory},
    {"clone", SliceKind::kMemory},
    {"_to_copy", SliceKind::kMemory},
    {"fill*", SliceKind::kMemory},
    {"zero*", SliceKind::kMemory},
    {"cat", SliceKind::kMemory},
    {"stack", SliceKind::kMemory},
    {"*index*", SliceKind::kMemory},
    {"*gather*", SliceKind::kMemory},
    {"*scatter*", SliceKind::kMemory},
    {"*embedding*", SliceKind::kMemory},
    {"masked_*", SliceKind::kMemory},
    {"take", SliceKind::kMemory},
    {"roll", SliceKind::kMemory},
    {"flip", SliceKind::kMemory},
    {"_local_scalar_dense", SliceKind::kMemory},
    {"arange", SliceKind::kMemory},
    {"linspace", SliceKind::kMemory},
    {"eye", SliceKind::kMemory},
    {"tril*", SliceKind::kMemory},
    {"triu*", SliceKind::kMemory},
    {"uniform*", SliceKind::kRandom},
    {"normal*", SliceKind::kRandom},
    {"bernoulli*", SliceKind::kRandom},
    {"random*", SliceKind::kRandom},
    {"randperm*", SliceKind::kRandom},
    {"multinomial*", SliceKind::kRandom},
    {"exponential*", SliceKind::kRandom},
    {"native_dropout", SliceKind::kRandom},
};

bool Fits(std::string_view pattern, std::string_view name) {
  const bool is_inside = pattern.starts_with('*');
  if (is_inside) {
    return name.find(pattern.substr(1, pattern.size() - 2)) !=
           std::string_view::npos;
  }
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

const char* KindName(SliceKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].first;
}

const char* KindColour(SliceKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].second;
}

SliceKind KindOfOp(std::string_view op) {
  if (const auto colons = op.find("::"); colons != std::string_view::npos) {
    op.remove_prefix(colons + 2);
  }
  op = op.substr(0, op.find('.'));
  for (const auto& [pattern, kind] : kPatterns) {
    if (Fits(pattern, op)) return kind;
  }
  return SliceKind::kOther;
}

}  // namespace tjit::tools
