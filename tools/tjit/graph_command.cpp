#include "tools/tjit/graph_command.h"

#include <charconv>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/inspect/dump_reader.h"
#include "compiler/inspect/graph.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/dump_file.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Prints the functions of FILE: what a run wrote as TJIT_DUMP_FILE=FILE "
    "(with\nTJIT_DUMP=ir or passes), or a function of the compiler's IR. "
    "-: standard input.\n";

enum class Form { kText, kDot, kSvg, kList };

struct Request {
  Form form = Form::kText;
  std::size_t pick = 0;  // 0: all
  std::string path;
};

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit graph: %s\n", text);
  return kUsageStatus;
}

// "" or what is wrong.
std::string SetPick(const std::string& value, std::size_t* pick) {
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, *pick);
  if (parsed.ec == std::errc() && parsed.ptr == end && *pick > 0) return "";
  return absl::StrCat("--pick=", value, ": accepted is a number from 1 on");
}

void AddOptions(Arguments* line, Request* request) {
  const auto add = [&](const char* name, const char* what, Form form) {
    line->AddFlag(name, what, [request, form] { request->form = form; });
  };
  add("--text", "with names and readers behind each line (the default)",
      Form::kText);
  add("--dot", "a graph for Graphviz", Form::kDot);
  add("--svg", "a picture", Form::kSvg);
  add("--list", "a numbered line for each function", Form::kList);
  line->AddValue("--pick", "N",
                 "only function number N; --dot and --svg take one",
                 [request](const std::string& value) {
                   return SetPick(value, &request->pick);
                 });
  line->AddHelp();
  line->AddFile(&request->path, "one file is wanted");
}

std::string TitleOf(const DumpedFunction& f) {
  return f.title.empty() ? "func " + f.function.name : f.title;
}

void List(const std::vector<DumpedFunction>& functions) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    absl::PrintF("%d: %s, %d ops\n", i + 1, TitleOf(functions[i]),
                 functions[i].function.body.size());
  }
}

void PrintText(const DumpedFunction& f) {
  if (!f.title.empty()) absl::PrintF("; ==== %s\n", f.title);
  for (const auto& [what, name] : f.names) {
    absl::PrintF("; name %s = %s\n", what, name);
  }
  std::fputs(ToListing(f).c_str(), stdout);
}

int Print(const Request& request, std::vector<DumpedFunction> functions) {
  const std::size_t count = functions.size();
  if (request.pick > count) {
    return Fail(request.path + " has " + std::to_string(count) +
                " functions, not " + std::to_string(request.pick));
  }
  if (request.form == Form::kList) {
    List(functions);
    return 0;
  }
  if (request.pick > 0) functions = {functions[request.pick - 1]};
  if (request.form == Form::kText) {
    for (const DumpedFunction& f : functions) PrintText(f);
    return 0;
  }
  if (functions.size() > 1) {
    return Fail(request.path + " has " + std::to_string(count) +
                " functions: choose one with --pick=N; --list shows them");
  }
  const Graph graph = GraphOf(functions[0]);
  std::fputs((request.form == Form::kDot ? ToDot(graph) : ToSvg(graph)).c_str(),
             stdout);
  return 0;
}

}  // namespace

int GraphCommand(int count, char** arguments) {
  Arguments line("tjit graph", "[options] FILE", kWhat);
  Request request;
  AddOptions(&line, &request);
  if (const auto status = line.Read(count, arguments)) return *status;
  std::vector<DumpedFunction> functions;
  const std::string wrong = ReadDumpedFunctions(request.path, &functions);
  if (!wrong.empty()) return Fail(wrong);
  return Print(request, std::move(functions));
}

}  // namespace tjit::tools
