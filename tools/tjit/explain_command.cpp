#include "tools/tjit/explain_command.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "recorder/explanation.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Prints what tjit won in a run, why not more, and what to do. FILE is what "
    "the run\nwrote as TJIT_STATS=FILE or `tjit run --stats=FILE`; "
    "TJIT_STATS=- prints the same\nwhen the program ends.\n";

int Fail(const std::string& text) {
  std::fprintf(stderr, "tjit explain: %s\n", text.c_str());
  return kUsageStatus;
}

CountsByName Counts(const YAML::Node& node) {
  return node ? node.as<CountsByName>() : CountsByName();
}

ExplainedSequence Sequence(const YAML::Node& node) {
  ExplainedSequence s;
  s.id = node["id"].as<std::int64_t>();
  s.ops = node["ops"].as<std::int64_t>();
  s.first_ops = node["first_ops"].as<std::string>();
  s.state = node["state"].as<std::string>();
  s.sightings = node["sightings"].as<std::int64_t>();
  s.threshold = node["threshold"].as<std::int64_t>();
  s.replays = node["replays"].as<std::int64_t>();
  s.skip = node["skip"].as<std::int64_t>();
  s.eager_ns = node["eager_ns"].as<std::int64_t>();
  s.replay_ns = node["replay_ns"].as<std::int64_t>();
  s.executed_ns = node["executed_ns"].as<std::int64_t>();
  s.left = Counts(node["left"]);
  s.at_call = Counts(node["at_call"]);
  return s;
}

ExplainedExit Exit(const YAML::Node& node) {
  ExplainedExit exit;
  exit.sequence = node["sequence"].as<std::int64_t>();
  exit.after_ops = node["after_ops"].as<std::int64_t>();
  exit.reason = node["reason"].as<std::string>();
  exit.op = node["op"].as<std::string>();
  exit.expected = node["expected"].as<std::string>();
  exit.actual = node["actual"].as<std::string>();
  exit.place = node["place"].as<std::string>();
  return exit;
}

ExplainedCode Code(const YAML::Node& node) {
  ExplainedCode code;
  code.ops = node["ops"].as<std::int64_t>();
  code.first_op = node["first_op"].as<std::string>();
  code.pays = node["pays"].as<bool>();
  code.compile_ns = node["compile_ns"].as<std::int64_t>();
  code.library_ns = node["library_ns"].as<std::int64_t>();
  code.compiled_ns = node["compiled_ns"].as<std::int64_t>();
  return code;
}

// JSON is YAML. THROWS: YAML::Exception, std::runtime_error.
Explanation Read(std::istream& file) {
  const YAML::Node top = YAML::Load(file);
  if (!top.IsMap() || !top["ops_seen"] || !top["sequence_details"]) {
    throw std::runtime_error("it is no file of TJIT_STATS");
  }
  Explanation e;
  for (const auto& item : top) {
    if (!item.second.IsScalar()) continue;
    const auto name = item.first.as<std::string>();
    if (name == "queue_length") continue;  // a mean, no counter
    if (name == "schema") continue;
    std::string* const text = name == "tjit"      ? &e.version
                              : name == "program" ? &e.program
                                  : name == "why"     ? &e.why
                                                  : nullptr;
    if (text != nullptr) {
      *text = item.second.as<std::string>();
      continue;
    }
    if (name == "wall_ns") {
      e.wall_ns = item.second.as<std::int64_t>();
      continue;
    }
    e.counters[name] = item.second.as<std::int64_t>();
  }
  e.flushes = Counts(top["flushes"]);
  e.left = Counts(top["side_exits"]);
  e.not_compiled = Counts(top["not_compiled"]);
  for (const auto& node : top["sequence_details"]) {
    e.sequences.push_back(Sequence(node));
  }
  for (const auto& node : top["exits"]) e.exits.push_back(Exit(node));
  for (const auto& node : top["compiled_segments"]) {
    e.compiled_segments.push_back(Code(node));
  }
  for (const auto& node : top["functions"]) {
    e.functions.push_back({node["name"].as<std::string>(),
                           node["dtype"].as<std::string>(),
                           node["from"].as<std::string>()});
  }
  for (const auto& node : top["eager_ops"]) {
    e.eager_ops.push_back({node["name"].as<std::string>(),
                           node["calls"].as<std::int64_t>(),
                           node["why"].as<std::string>()});
  }
  return e;
}

struct Wanted {
  bool verbose = false, json = false;
};

int Print(const std::string& path, Wanted wanted) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    // A file without a byte is read badly, too.
    if (file && file.peek() == EOF && errno == 0) {
      return Fail(path + " is empty: the program that writes it has not ended, "
                         "or was killed");
    }
    return Fail("cannot read " + path + ": " + std::strerror(errno));
  }
  try {
    const Explanation explanation = Read(text);
    std::fputs(wanted.json ? text.str().c_str()
                           : ToText(explanation, wanted.verbose).c_str(),
               stdout);
  } catch (const YAML::Exception& e) {
    std::string place = path;
    if (!e.mark.is_null()) {
      place += ":" + std::to_string(e.mark.line + 1) + ":" +
               std::to_string(e.mark.column + 1);
    }
    return Fail(place + ": this is no file of TJIT_STATS: " + e.msg);
  } catch (const std::runtime_error& e) {
    return Fail(path + ": " + e.what());
  }
  return 0;
}

}  // namespace

int ExplainCommand(int count, char** arguments) {
  Arguments line("tjit explain", "[options] FILE", kWhat);
  Wanted wanted;
  std::string file;
  line.AddHelp();
  line.AddFlag("-v,--verbose",
               "where the numbers of functions in compiled code come from, too",
               &wanted.verbose);
  line.AddFlag("--json", "the same as JSON, with version, program and wall time",
               &wanted.json);
  line.AddFile(&file, "one file is wanted");
  if (const auto status = line.Read(count, arguments)) return *status;
  errno = 0;
  return Print(file, wanted);
}

}  // namespace tjit::tools
