#include "tools/tjit/log_summary.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

double Percent(double part, double whole) {
  return whole == 0 ? 0 : 100 * part / whole;
}

}  // namespace

void LogSummary::Add(const LogRow& row) {
  last_ns_ = std::max(last_ns_, row.time_ns);
  if (row.event == LogEvent::kOp) {
    Op& op = ops_[row.command];
    ++op.calls;
    op.deferred += row.is_compiled ? 1 : 0;
    op.bytes += row.bytes;
    op.eager_ns += row.took_ns;
    return;
  }
  if (row.event == LogEvent::kWait) {
    Wait& wait = waits_[row.details];
    ++wait.times;
    wait.ns += row.took_ns;
    return;
  }
  const std::string id = ValueOf(row.details, "sequence");
  // Of a thread, not of a sequence.
  if (row.event == LogEvent::kDetect && id == "none") return;
  Sequence& s = sequences_[id];
  switch (row.event) {
    case LogEvent::kReplay:
      ++s.replays;
      s.replayed_ops +=
          std::strtoull(ValueOf(row.details, "ops").c_str(), nullptr, 10);
      s.replay_ns += row.took_ns;
      break;
    case LogEvent::kDrain:
      ++s.drains;
      s.drain_ns += row.took_ns;
      break;
    case LogEvent::kCompile:
      s.compile_ns += row.took_ns;
      break;
    case LogEvent::kExit:
      ++s.exits;
      break;
    case LogEvent::kDetect:
      AddDetect(row, &s);
      break;
    case LogEvent::kOp:
    case LogEvent::kWait:
    case LogEvent::kCount:
      break;
  }
}

void LogSummary::AddDetect(const LogRow& row, Sequence* sequence) {
  if (const std::string ops = OpsOf(row.details); !ops.empty()) {
    sequence->what = ops;
  }
  sequence->won.Add(WonRow(row.command, row.details), row.time_ns);
}

void LogSummary::Print() const {
  Op all;
  std::vector<std::pair<std::string, Op>> ops(ops_.begin(), ops_.end());
  for (const auto& [name, op] : ops) {
    all.calls += op.calls;
    all.deferred += op.deferred;
    all.bytes += op.bytes;
    all.eager_ns += op.eager_ns;
  }
  double replay_ns = 0;
  for (const auto& [id, s] : sequences_) replay_ns += s.replay_ns;
  absl::PrintF(
      "%d ops in %.3f s: %d deferred (%.1f %%), %.3f ms eager, %.3f ms "
      "replayed\n",
      all.calls, 1e-9 * static_cast<double>(last_ns_), all.deferred,
      Percent(static_cast<double>(all.deferred),
              static_cast<double>(all.calls)),
      1e-6 * all.eager_ns, 1e-6 * replay_ns);
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.eager_ns, a.second.calls) >
           std::pair(b.second.eager_ns, b.second.calls);
  });
  absl::PrintF("\n%10s %10s %14s %12s  op\n", "calls", "deferred", "bytes",
               "eager ms");
  for (const auto& [name, op] : ops) {
    absl::PrintF("%10d %10d %14d %12.3f  %s\n", op.calls, op.deferred, op.bytes,
                 1e-6 * op.eager_ns, name);
  }
  if (!waits_.empty()) {
    absl::PrintF("\n%10s %12s  waits\n", "times", "ms");
  }
  for (const auto& [what, wait] : waits_) {
    absl::PrintF("%10d %12.3f  %s\n", wait.times, 1e-6 * wait.ns,
                 Printable(what));
  }
  if (sequences_.empty()) return;
  absl::PrintF("\n%10s %10s %12s %10s %10s %8s %8s  sequence\n", "replays",
               "ops", "replay ms", "won ms", "compile ms", "drains", "exits");
  std::vector<std::pair<std::string, Sequence>> sequences(sequences_.begin(),
                                                          sequences_.end());
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.replay_ns > b.second.replay_ns;
                   });
  for (const auto& [id, s] : sequences) {
    const std::string won =
        s.won.is_known() ? absl::StrFormat("%.3f", 1e-6 * s.won.won_ns()) : "-";
    absl::PrintF("%10d %10d %12.3f %10s %10.3f %8d %8d  %s %s\n", s.replays,
                 s.replayed_ops, 1e-6 * s.replay_ns, won, 1e-6 * s.compile_ns,
                 s.drains, s.exits, id, s.what);
  }
}

void LogSummary::AddTo(Json* json) const {
  const auto ns = [](double value) {
    return static_cast<std::int64_t>(value);
  };
  Json& ops = (*json)["ops"] = Json::array();
  for (const auto& [name, op] : ops_) {
    ops.push_back({{"name", name},
                   {"calls", op.calls},
                   {"deferred", op.deferred},
                   {"bytes", op.bytes},
                   {"eager_ns", ns(op.eager_ns)}});
  }
  Json& waits = (*json)["waits"] = Json::array();
  for (const auto& [what, wait] : waits_) {
    waits.push_back(
        {{"details", what}, {"times", wait.times}, {"wait_ns", ns(wait.ns)}});
  }
  Json& sequences = (*json)["sequences"] = Json::array();
  for (const auto& [id, s] : sequences_) {
    sequences.push_back({{"id", id},
                         {"ops", s.what},
                         {"replays", s.replays},
                         {"replayed_ops", s.replayed_ops},
                         {"replay_ns", ns(s.replay_ns)},
                         {"compile_ns", ns(s.compile_ns)},
                         {"drains", s.drains},
                         {"exits", s.exits}});
    if (s.won.is_known()) sequences.back()["won_ns"] = ns(s.won.won_ns());
  }
}

}  // namespace tjit::tools
