#include "recorder/schema_key.h"

#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace tjit {
namespace {

struct Table {
  absl::Mutex mutex;
  // A deque: the views below and those handed out stay valid.
  std::deque<std::string> names ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string_view, OpId> ids ABSL_GUARDED_BY(mutex);
};

// Never destroyed: ids are printed until the process ends.
Table& GlobalTable() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

OpId InternOp(std::string_view name) {
  Table& table = GlobalTable();
  absl::MutexLock lock(&table.mutex);
  auto known = table.ids.find(name);
  if (known != table.ids.end()) return known->second;
  table.names.emplace_back(name);
  const OpId id = static_cast<OpId>(table.names.size());
  table.ids.emplace(table.names.back(), id);
  return id;
}

std::string_view OpName(OpId op) {
  Table& table = GlobalTable();
  absl::MutexLock lock(&table.mutex);
  if (op == kNoOp || op > table.names.size()) return "?";
  return table.names[op - 1];
}

}  // namespace tjit
