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
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kUsage[] =
    "usage: tjit explain FILE\n\n"
    "Prints what tjit did in a run and why not more. FILE is what the run "
    "wrote as\nTJIT_STATS=FILE or `tjit run --stats=FILE`; TJIT_STATS=- "
    "prints the same when the\nprogram ends.\n";

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
  s.left = Counts(node["left"]);
  s.at_call = Counts(node["at_call"]);
  return s;
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
    if (name == "why") {
      e.why = item.second.as<std::string>();
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

int Print(const std::string& path) {
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
    std::fputs(ToText(Read(text)).c_str(), stdout);
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
  const std::string_view first = count == 0 ? "" : arguments[0];
  if (first == "--help" || first == "-h") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (count != 1) {
    return Fail(count == 0 ? "no file given: tjit explain FILE"
                           : "one file is wanted: tjit explain FILE");
  }
  if (first.starts_with("-")) {
    return Fail("unknown option " + std::string(first) +
                "; accepted is --help");
  }
  errno = 0;
  return Print(arguments[0]);
}

}  // namespace tjit::tools
