#include "recorder/region_table.h"

#include <exception>

#include "absl/strings/str_cat.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tjit {
namespace {

std::uint64_t HashOfText(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

RegionTable& RegionTable::Get() {
  static auto* table = new RegionTable;
  return *table;
}

RegionTable::RegionTable() {
  const MutexLock lock(mutex_);
  SetNode(NewId(), std::make_unique<Node>());  // the outside
}

std::size_t RegionTable::BucketOf(RegionId outer, std::string_view part) {
  return XXH3_64bits_withSeed(part.data(), part.size(), outer) % kBuckets;
}

RegionId RegionTable::FindPart(RegionId outer, std::string_view part) const {
  for (std::size_t b = BucketOf(outer, part);; b = (b + 1) % kBuckets) {
    const RegionId id = buckets_[b].load(std::memory_order_acquire);
    if (id == kNoRegion) return kNoRegion;
    const Node& node = At(id);
    if (node.outer == outer && node.part == part) return id;
  }
}

RegionId RegionTable::NewId() {
  const RegionId id = count_.load(std::memory_order_relaxed);
  return id < kMaxRegions ? id : kNoRegion;
}

void RegionTable::SetNode(RegionId id, std::unique_ptr<Node> node) {
  all_nodes_.reserve(all_nodes_.size() + 1);
  Settle(node.get());
  nodes_[id].store(node.get(), std::memory_order_release);
  all_nodes_.push_back(std::move(node));
  if (id == count_.load(std::memory_order_relaxed)) {
    count_.store(id + 1, std::memory_order_release);
  }
}

RegionId RegionTable::AddPart(RegionId outer, std::string_view part) {
  const MutexLock lock(mutex_);
  const RegionId known = FindPart(outer, part);
  if (known != kNoRegion) return known;
  auto node = std::make_unique<Node>();
  node->outer = outer;
  node->part = part;
  const std::string& before = At(outer).name;
  node->name =
      before.empty() ? node->part : absl::StrCat(before, "/", node->part);
  node->hash = HashOfText(node->name);
  const auto nameless = nameless_.find(node->hash);
  const RegionId id = nameless != nameless_.end() ? nameless->second : NewId();
  if (id == kNoRegion || node->name.size() > kLongestRegionName) {
    return kNoRegion;
  }
  SetNode(id, std::move(node));
  if (nameless != nameless_.end()) nameless_.erase(nameless);
  std::size_t b = BucketOf(outer, part);
  while (buckets_[b].load(std::memory_order_relaxed) != kNoRegion) {
    b = (b + 1) % kBuckets;
  }
  buckets_[b].store(id, std::memory_order_release);
  return id;
}

RegionId RegionTable::FindInside(RegionId outer,
                                 std::string_view name) noexcept {
  Node& around = At(outer);
  const RegionId last = around.last_inner.load(std::memory_order_relaxed);
  if (last != kNoRegion) {
    const Node& inner = At(last);
    if (inner.outer == outer && inner.part == name) return last;
  }
  for (RegionId id = outer;;) {
    const std::size_t slash = name.find('/');
    id = FindPart(id, name.substr(0, slash));
    if (id == kNoRegion) return id;
    if (slash == std::string_view::npos) {
      around.last_inner.store(id, std::memory_order_relaxed);
      return id;
    }
    name.remove_prefix(slash + 1);
  }
}

RegionId RegionTable::Enter(RegionId outer, std::string_view name) noexcept {
  RegionId id = outer;
  for (;;) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    RegionId inner = FindPart(id, part);
    if (inner == kNoRegion) {
      try {
        inner = AddPart(id, part);
      } catch (const std::exception&) {  // no memory
      }
    }
    if (inner == kNoRegion) return outer;
    id = inner;
    if (slash == std::string_view::npos) return id;
    name.remove_prefix(slash + 1);
  }
}

std::string RegionTable::WhyNoName(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kLongestRegionName) {
    return absl::StrCat("it has ", name.size(), " characters, of ",
                        kLongestRegionName, " at most");
  }
  if (name.find_first_of("*?") != std::string_view::npos) {
    return "* and ? stand in patterns alone";
  }
  if (name.starts_with('/') || name.ends_with('/') ||
      name.find("//") != std::string_view::npos) {
    return "a part between two / is empty";
  }
  return "";
}

RegionId RegionTable::Find(std::string_view whole_name) {
  const RegionId n = size();
  for (RegionId id = 1; id < n; ++id) {
    if (At(id).name == whole_name) return id;
  }
  return kNoRegion;
}

std::string RegionTable::NameOf(RegionId id) const {
  return id < size() ? At(id).name : "";
}

std::uint64_t RegionTable::HashOf(RegionId id) const {
  return id < size() ? At(id).hash : 0;
}

RegionId RegionTable::OfHash(std::uint64_t hash) {
  if (hash == 0) return kNoRegion;
  const MutexLock lock(mutex_);
  for (RegionId id = 1; id < size(); ++id) {
    if (At(id).hash == hash) return id;
  }
  const RegionId id = NewId();
  if (id == kNoRegion) return kNoRegion;
  auto node = std::make_unique<Node>();
  node->hash = hash;
  SetNode(id, std::move(node));
  nameless_.emplace(hash, id);
  return id;
}

const RegionSettings& RegionTable::SettingsOf(RegionId id) const {
  return *At(id < size() ? id : kNoRegion)
              .settings.load(std::memory_order_acquire);
}

bool RegionTable::Settle(Node* node) {
  const RegionSettings* const before =
      node->settings.load(std::memory_order_relaxed);
  RegionSettings now;
  if (!node->name.empty()) now = SettleRegion(node->name, rules_);
  if (before != nullptr && *before == now) return false;
  all_settings_.push_back(
      std::make_unique<const RegionSettings>(std::move(now)));
  node->settings.store(all_settings_.back().get(), std::memory_order_release);
  return true;
}

bool RegionTable::SettleAll() {
  bool is_other = false;
  for (RegionId id = 1; id < size(); ++id) {
    is_other |= Settle(nodes_[id].load(std::memory_order_relaxed));
  }
  return is_other;
}

void RegionTable::SetFileRules(const std::vector<RegionRule>& rules) {
  const MutexLock lock(mutex_);
  rules_.insert(rules_.begin(), rules.begin(), rules.end());
  SettleAll();
}

bool RegionTable::AddRule(RegionRule rule) {
  const MutexLock lock(mutex_);
  for (auto it = rules_.begin(); it != rules_.end(); ++it) {
    if (!it->is_from_program || it->pattern != rule.pattern) continue;
    rules_.erase(it);
    break;
  }
  rules_.push_back(std::move(rule));
  return SettleAll();
}

void RegionTable::RecordAtCall(RegionId id, OpId op, const char* why) {
  const MutexLock lock(mutex_);
  at_call_[{id, op}] = why;
}

const char* RegionTable::WhyAtCall(RegionId id, OpId op) {
  const MutexLock lock(mutex_);
  const auto found = at_call_.find({id, op});
  return found == at_call_.end() ? "" : found->second;
}

bool RegionTable::IsFirstReplay(RegionId id) {
  Node* const node = nodes_[id].load(std::memory_order_acquire);
  return !node->is_replayed.load(std::memory_order_relaxed) &&
         !node->is_replayed.exchange(true);
}

}  // namespace tjit
