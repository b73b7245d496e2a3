#include "tools/tjit/stats_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "support/json_text.h"
#include "tools/tjit/json.h"

namespace tjit::tools {
namespace {

template <class T>
void Get(const Json& node, const char* name, T* value) {
  node.at(name).get_to(*value);
}

// Of a list or an object that may be missing.
const Json& Find(const Json& node, const char* name) {
  static const Json kNone;
  const auto found = node.find(name);
  return found == node.end() ? kNone : *found;
}

CountsByName Counts(const Json& node) {
  return node.is_null() ? CountsByName() : node.get<CountsByName>();
}

void Read(const Json& node, ExplainedSequence* s) {
  Get(node, "id", &s->id);
  Get(node, "ops", &s->ops);
  Get(node, "first_ops", &s->first_ops);
  Get(node, "state", &s->state);
  Get(node, "sightings", &s->sightings);
  Get(node, "threshold", &s->threshold);
  Get(node, "replays", &s->replays);
  Get(node, "skip", &s->skip);
  Get(node, "eager_ns", &s->eager_ns);
  s->name = node.value("name", "");
  s->region = node.value("region", "");
  Get(node, "replay_ns", &s->replay_ns);
  Get(node, "executed_ns", &s->executed_ns);
  s->left = Counts(Find(node, "left"));
  s->at_call = Counts(Find(node, "at_call"));
  s->why_at_call = node.value("why_at_call", s->why_at_call);
}

void Read(const Json& node, ExplainedRegion* r) {
  Get(node, "name", &r->name);
  Get(node, "excluded", &r->is_excluded);
  Get(node, "entries", &r->entries);
  Get(node, "ops_seen", &r->ops_seen);
  Get(node, "ops_eager", &r->ops_eager);
  Get(node, "ops_replayed", &r->ops_replayed);
  Get(node, "ops_drained", &r->ops_drained);
  Get(node, "bodies", &r->bodies);
  Get(node, "sequences", &r->sequences);
  Get(node, "ops_at_call", &r->ops_at_call);
  Get(node, "at_call", &r->at_call);
}

void Read(const Json& node, ExplainedExit* exit) {
  Get(node, "sequence", &exit->sequence);
  Get(node, "after_ops", &exit->after_ops);
  Get(node, "reason", &exit->reason);
  Get(node, "op", &exit->op);
  Get(node, "expected", &exit->expected);
  Get(node, "actual", &exit->actual);
  Get(node, "place", &exit->place);
}

void Read(const Json& node, ExplainedCode* code) {
  Get(node, "ops", &code->ops);
  Get(node, "first_op", &code->first_op);
  code->sequence = node.value("sequence", "");
  Get(node, "pays", &code->pays);
  Get(node, "compile_ns", &code->compile_ns);
  Get(node, "library_ns", &code->library_ns);
  Get(node, "compiled_ns", &code->compiled_ns);
}

void Read(const Json& node, ExplainedFunction* function) {
  Get(node, "name", &function->name);
  Get(node, "dtype", &function->dtype);
  Get(node, "from", &function->from);
}

void Read(const Json& node, ExplainedExposure* exposure) {
  Get(node, "place", &exposure->place);
  Get(node, "times", &exposure->times);
  Get(node, "bytes", &exposure->bytes);
  Get(node, "tensor", &exposure->tensor);
}

void Read(const Json& node, ExplainedOp* op) {
  Get(node, "name", &op->name);
  Get(node, "calls", &op->calls);
  Get(node, "why", &op->why);
}

void Read(const Json& node, ExplainedJit* function) {
  Get(node, "name", &function->name);
  Get(node, "calls", &function->calls);
  Get(node, "replays", &function->replays);
  Get(node, "ways", &function->ways);
  Get(node, "parts", &function->parts);
  Get(node, "why", &function->why);
}

template <class T>
void ReadList(const Json& nodes, std::vector<T>* list) {
  for (const Json& node : nodes) Read(node, &list->emplace_back());
}

void ReadCounters(const Json& top, CountsByName* counters) {
  for (const auto& [name, value] : top.items()) {
    // A mean is no counter; "schema" and "wall_ns" count nothing.
    if (name == "queue_length" || name == "schema" || name == "wall_ns") {
      continue;
    }
    if (value.is_number()) value.get_to((*counters)[name]);
  }
}

std::vector<std::int64_t> Bins(const Json& node) {
  return node.is_null() ? std::vector<std::int64_t>()
                        : node.get<std::vector<std::int64_t>>();
}

// THROWS: std::runtime_error.
void CheckSchema(const Json& top) {
  const std::int64_t schema = top.value("schema", std::int64_t{0});
  if (schema == kJsonSchema) return;
  throw std::runtime_error(absl::StrCat(
      "it has schema ", schema, ", and this tjit reads schema ", kJsonSchema,
      ": use the command of the tjit that wrote it, version ",
      top.value("tjit", "unknown"), ", or run the program again"));
}

// THROWS: Json::exception, std::runtime_error.
void Read(const std::string& text, StatsFile* stats) {
  constexpr char kNoStats[] = "it is no file of TJIT_STATS";
  if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    throw std::runtime_error(kNoStats);
  }
  const Json top = ParseJson(text);
  if (!top.contains("ops_seen") || !top.contains("sequence_details")) {
    throw std::runtime_error(kNoStats);
  }
  CheckSchema(top);
  Explanation& e = stats->explanation;
  ReadCounters(top, &e.counters);
  e.version = top.value("tjit", "");
  e.program = top.value("program", "");
  e.why = top.value("why", "");
  e.wall_ns = top.value("wall_ns", std::int64_t{0});
  e.flushes = Counts(Find(top, "flushes"));
  e.left = Counts(Find(top, "side_exits"));
  e.backwards_left = Counts(Find(top, "backwards_left"));
  e.not_compiled = Counts(Find(top, "not_compiled"));
  ReadList(Find(top, "sequence_details"), &e.sequences);
  ReadList(Find(top, "regions"), &e.regions);
  ReadList(Find(top, "exits"), &e.exits);
  ReadList(Find(top, "compiled_segments"), &e.compiled_segments);
  ReadList(Find(top, "functions"), &e.functions);
  ReadList(Find(top, "eager_ops"), &e.eager_ops);
  ReadList(Find(top, "exposures"), &e.exposures);
  ReadList(Find(top, "jit_functions"), &e.jit_functions);
  stats->segment_length = Bins(Find(top, "segment_length"));
  stats->segment_ops = Bins(Find(top, "segment_ops"));
}

// What an exception of the library says, without its number and place.
std::string WhatOf(const Json::exception& e) {
  std::string_view what = e.what();
  what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
  if (what.starts_with("parse error at ")) {
    what.remove_prefix(std::min(what.find(": ") + 2, what.size()));
  }
  return std::string(what);
}

// ":3:17", lines and columns from 1, of the byte that was read last.
std::string PlaceOf(std::string_view text, std::size_t byte) {
  text = text.substr(0, byte);
  const std::size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none
  return absl::StrCat(":", 1 + std::count(text.begin(), text.end(), '\n'), ":",
                      std::max<std::size_t>(text.size() - line_begin, 1));
}

}  // namespace

std::string ReadStatsFile(const std::string& path, StatsFile* stats) {
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    // A file without a byte is read badly, too.
    if (file && file.peek() == EOF && errno == 0) {
      return path +
             " is empty: the program that writes it has not ended, or "
             "was killed";
    }
    return "cannot read " + path + ": " + std::strerror(errno);
  }
  stats->text = text.str();
  try {
    Read(stats->text, stats);
  } catch (const Json::parse_error& e) {
    return absl::StrCat(path, PlaceOf(stats->text, e.byte),
                        ": this is no file of TJIT_STATS: ", WhatOf(e));
  } catch (const Json::exception& e) {
    return absl::StrCat(path, ": this is no file of TJIT_STATS: ", WhatOf(e));
  } catch (const std::runtime_error& e) {
    return absl::StrCat(path, ": ", e.what());
  }
  return "";
}

}  // namespace tjit::tools
