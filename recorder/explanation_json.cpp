// The JSON half of explanation.h.
#include <string>

#include "recorder/explanation.h"
#include "support/json_text.h"

namespace tjit {
namespace {

std::string Text(std::int64_t n) { return std::to_string(n); }

std::string Json(const CountsByName& counts) {
  std::string json = "{";
  for (const auto& [name, count] : counts) {
    if (json.size() > 1) json += ", ";
    json += Quoted(name) + ": " + Text(count);
  }
  return json + "}";
}

std::string Json(const ExplainedSequence& s) {
  return "{\"id\": " + Text(s.id) + ", \"ops\": " + Text(s.ops) +
         ", \"first_ops\": " + Quoted(s.first_ops) +
         ", \"state\": " + Quoted(s.state) +
         ", \"sightings\": " + Text(s.sightings) +
         ", \"threshold\": " + Text(s.threshold) +
         ", \"replays\": " + Text(s.replays) + ", \"skip\": " + Text(s.skip) +
         ", \"eager_ns\": " + Text(s.eager_ns) +
         ", \"replay_ns\": " + Text(s.replay_ns) +
         ", \"executed_ns\": " + Text(s.executed_ns) +
         ", \"won_ns\": " + Text(s.won_ns()) + ", \"left\": " + Json(s.left) +
         ", \"at_call\": " + Json(s.at_call) + "}";
}

std::string Json(const ExplainedExit& exit) {
  return "{\"sequence\": " + Text(exit.sequence) +
         ", \"after_ops\": " + Text(exit.after_ops) +
         ", \"reason\": " + Quoted(exit.reason) +
         ", \"op\": " + Quoted(exit.op) +
         ", \"expected\": " + Quoted(exit.expected) +
         ", \"actual\": " + Quoted(exit.actual) +
         ", \"place\": " + Quoted(exit.place) + "}";
}

std::string Json(const ExplainedCode& code) {
  return "{\"ops\": " + Text(code.ops) +
         ", \"first_op\": " + Quoted(code.first_op) +
         ", \"pays\": " + (code.pays ? "true" : "false") +
         ", \"compile_ns\": " + Text(code.compile_ns) +
         ", \"library_ns\": " + Text(code.library_ns) +
         ", \"compiled_ns\": " + Text(code.compiled_ns) +
         ", \"break_even_runs\": " + Text(code.break_even_runs()) + "}";
}

std::string Json(const ExplainedFunction& f) {
  return "{\"name\": " + Quoted(f.name) + ", \"dtype\": " + Quoted(f.dtype) +
         ", \"from\": " + Quoted(f.from) + "}";
}

std::string Json(const ExplainedOp& op) {
  return "{\"name\": " + Quoted(op.name) + ", \"calls\": " + Text(op.calls) +
         ", \"why\": " + Quoted(op.why) + "}";
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
  return stats_json + ",\n  \"schema\": " + Text(kJsonSchema) +
         ",\n  \"tjit\": " + Quoted(explanation.version) +
         ",\n  \"program\": " + Quoted(explanation.program) +
         ",\n  \"wall_ns\": " + Text(explanation.wall_ns) +
         ",\n  \"sequence_details\": " + JsonList(explanation.sequences) +
         ",\n  \"exits\": " + JsonList(explanation.exits) +
         ",\n  \"compiled_segments\": " +
         JsonList(explanation.compiled_segments) +
         ",\n  \"not_compiled\": " + Json(explanation.not_compiled) +
         ",\n  \"functions\": " + JsonList(explanation.functions) +
         ",\n  \"eager_ops\": " + JsonList(explanation.eager_ops) +
         (explanation.why.empty() ? ""
                                  : ",\n  \"why\": " + Quoted(explanation.why)) +
         "\n}\n";
}

}  // namespace tjit
