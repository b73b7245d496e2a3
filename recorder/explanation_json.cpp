// The JSON half of explanation.h.
#include <string>

#include "absl/strings/str_cat.h"
#include "recorder/explanation.h"
#include "support/json_text.h"

namespace tjit {
namespace {

std::string Json(const CountsByName& counts) {
  std::string json = "{";
  for (const auto& [name, count] : counts) {
    if (json.size() > 1) json += ", ";
    absl::StrAppend(&json, Quoted(name), ": ", count);
  }
  return json + "}";
}

std::string Json(const ExplainedSequence& s) {
  return absl::StrCat(
      "{\"id\": ", s.id, ", \"name\": ", Quoted(s.name), ", \"ops\": ", s.ops,
      ", \"first_ops\": ", Quoted(s.first_ops),
      ", \"region\": ", Quoted(s.region), ", \"state\": ", Quoted(s.state),
      ", \"sightings\": ", s.sightings, ", \"threshold\": ", s.threshold,
      ", \"replays\": ", s.replays, ", \"skip\": ", s.skip,
      ", \"eager_ns\": ", s.eager_ns, ", \"replay_ns\": ", s.replay_ns,
      ", \"executed_ns\": ", s.executed_ns, ", \"won_ns\": ", s.won_ns(),
      ", \"left\": ", Json(s.left), ", \"at_call\": ", Json(s.at_call),
      ", \"why_at_call\": ", JsonObject(s.why_at_call), "}");
}

std::string Json(const ExplainedRegion& r) {
  return absl::StrCat(
      "{\"name\": ", Quoted(r.name),
      ", \"excluded\": ", r.is_excluded ? "true" : "false",
      ", \"entries\": ", r.entries, ", \"ops_seen\": ", r.ops_seen,
      ", \"ops_eager\": ", r.ops_eager, ", \"ops_replayed\": ", r.ops_replayed,
      ", \"ops_drained\": ", r.ops_drained, ", \"bodies\": ", r.bodies,
      ", \"sequences\": ", r.sequences, ", \"ops_at_call\": ", r.ops_at_call,
      ", \"at_call\": ", JsonObject(r.at_call), "}");
}

std::string Json(const ExplainedExit& exit) {
  return absl::StrCat(
      "{\"sequence\": ", exit.sequence, ", \"after_ops\": ", exit.after_ops,
      ", \"reason\": ", Quoted(exit.reason), ", \"op\": ", Quoted(exit.op),
      ", \"expected\": ", Quoted(exit.expected),
      ", \"actual\": ", Quoted(exit.actual),
      ", \"place\": ", Quoted(exit.place), "}");
}

std::string Json(const ExplainedCode& code) {
  return absl::StrCat("{\"ops\": ", code.ops,
                      ", \"first_op\": ", Quoted(code.first_op),
                      ", \"sequence\": ", Quoted(code.sequence),
                      ", \"pays\": ", code.pays ? "true" : "false",
                      ", \"compile_ns\": ", code.compile_ns,
                      ", \"library_ns\": ", code.library_ns,
                      ", \"compiled_ns\": ", code.compiled_ns,
                      ", \"break_even_runs\": ", code.break_even_runs(), "}");
}

std::string Json(const ExplainedFunction& f) {
  return absl::StrCat("{\"name\": ", Quoted(f.name),
                      ", \"dtype\": ", Quoted(f.dtype),
                      ", \"from\": ", Quoted(f.from), "}");
}

std::string Json(const ExplainedOp& op) {
  return absl::StrCat("{\"name\": ", Quoted(op.name), ", \"calls\": ", op.calls,
                      ", \"why\": ", Quoted(op.why), "}");
}

std::string Json(const ExplainedExposure& e) {
  return absl::StrCat("{\"place\": ", Quoted(e.place), ", \"times\": ", e.times,
                      ", \"bytes\": ", e.bytes,
                      ", \"tensor\": ", Quoted(e.tensor), "}");
}

std::string Json(const ExplainedJit& f) {
  return absl::StrCat("{\"name\": ", Quoted(f.name), ", \"calls\": ", f.calls,
                      ", \"replays\": ", f.replays, ", \"ways\": ", f.ways,
                      ", \"why\": ", Quoted(f.why),
                      ", \"parts\": ", Quoted(f.parts), "}");
}

template <class T>
std::string JsonList(const std::vector<T>& items) {
  std::string json = "[";
  for (const T& item : items) {
    json += json.size() > 1 ? ",\n    " : "\n    ";
    json += Json(item);
  }
  return json + (items.empty() ? "]" : "\n  ]");
}

}  // namespace

std::string WithLists(std::string stats_json, const Explanation& explanation) {
  const std::size_t end = stats_json.rfind("\n}");
  stats_json.resize(end);
  return absl::StrCat(
      stats_json, ",\n  \"schema\": ", kJsonSchema,
      ",\n  \"tjit\": ", Quoted(explanation.version),
      ",\n  \"program\": ", Quoted(explanation.program),
      ",\n  \"wall_ns\": ", explanation.wall_ns,
      ",\n  \"sequence_details\": ", JsonList(explanation.sequences),
      ",\n  \"regions\": ", JsonList(explanation.regions),
      ",\n  \"exits\": ", JsonList(explanation.exits),
      ",\n  \"compiled_segments\": ", JsonList(explanation.compiled_segments),
      ",\n  \"not_compiled\": ", Json(explanation.not_compiled),
      ",\n  \"functions\": ", JsonList(explanation.functions),
      ",\n  \"eager_ops\": ", JsonList(explanation.eager_ops),
      ",\n  \"exposures\": ", JsonList(explanation.exposures),
      ",\n  \"jit_functions\": ", JsonList(explanation.jit_functions),
      (explanation.why.empty() ? ""
                               : ",\n  \"why\": " + Quoted(explanation.why)),
      "\n}\n");
}

}  // namespace tjit
