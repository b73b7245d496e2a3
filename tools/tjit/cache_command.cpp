#include "tools/tjit/cache_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/cache/entry.h"
#include "compiler/cache/folder.h"
#include "recorder/profile_text.h"
#include "support/env.h"
#include "support/process_info.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/json.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

using Files = std::vector<cache::FileInfo>;

constexpr char kWhat[] =
    "  list    the entries: bytes, when they were last used (to the hour), "
    "name,\n          of a hot profile its sequences, program and script, of "
    "verdicts of\n          probes how many\n"
    "  verify  reads every entry; status 1 if some would not be used\n"
    "  clear   removes the entries, and nothing else in the folder\n\n"
    "DIR is the folder of compiled code, verdicts of probes and hot "
    "profiles;\nwithout it that of TJIT_CACHE_DIR, else $XDG_CACHE_HOME/tjit "
    "or\n~/.cache/tjit.\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit cache: %s\n", text);
  return kUsageStatus;
}

std::string_view SuffixOf(std::string_view name) {
  return name.substr(name.find('.'));  // IsFileName() has seen to it
}

bool IsProfile(std::string_view name) {
  return name.ends_with(cache::kProfileSuffix);
}

// The sequences of a profile: "" or what is wrong with it. What contexts stand
// for does not matter here.
std::string ReadSequences(std::string_view text, Profile* profile) {
  return ParseProfile(
      text, [](const ContextWords&) { return 1u; }, profile);
}

// "" or what is wrong with the entry.
std::string Verify(const std::string& folder, const std::string& name) {
  std::string bytes;
  bool is_there = false;
  std::string error = cache::Read(folder + "/" + name, &bytes, &is_there);
  cache::Entry entry;
  if (error.empty() && is_there) error = cache::Decode(bytes, &entry);
  if (!error.empty() || !is_there) return error;
  if (cache::FileNameOf(entry.key, SuffixOf(name)) != name) {
    return "it is that of another key";
  }
  Profile profile;
  return IsProfile(name) ? ReadSequences(entry.object, &profile) : "";
}

// "  12 verdicts", of the lines of the entry.
std::string CountOfVerdicts(const cache::Entry& entry) {
  const auto count =
      std::count(entry.object.begin(), entry.object.end(), '\n');
  return absl::StrCat("  ", count, count == 1 ? " verdict" : " verdicts");
}

// "  2 sequences of /bin/python3, script /home/me/a.py", "  12 verdicts", "" for
// code.
std::string Contents(const std::string& folder, const std::string& name) {
  constexpr std::string_view kProgram = "\nprogram ";
  const bool is_verdicts = SuffixOf(name) == cache::kVerdictsSuffix;
  if (!IsProfile(name) && !is_verdicts) return "";
  std::string bytes;
  bool is_there = false;
  cache::Entry entry;
  Profile profile;
  if (!cache::Read(folder + "/" + name, &bytes, &is_there).empty() ||
      !cache::Decode(bytes, &entry).empty()) {
    return "  damaged";
  }
  if (is_verdicts) return CountOfVerdicts(entry);
  if (!ReadSequences(entry.object, &profile).empty()) return "  damaged";
  const std::size_t count = profile.ends().size();
  std::string text = absl::StrCat("  ", count);
  text += count == 1 ? " sequence of " : " sequences of ";
  const std::size_t begin = entry.key.find(kProgram);
  if (begin == std::string_view::npos) return text + "?";
  std::string_view program = entry.key.substr(begin + kProgram.size());
  const std::size_t end = std::min(program.find('\n'), program.size());
  std::string_view script = program.substr(std::min(end + 1, program.size()));
  script = script.substr(0, script.find('\n'));
  // Behind the last blank is the build-id of the program.
  text.append(program.substr(0, program.substr(0, end).rfind(' ')));
  return script.empty() ? text : text.append(", ").append(script);
}

void PrintSum(std::size_t count, std::uint64_t bytes, const char* what,
              const std::string& folder) {
  absl::PrintF("%d %s, %.1f MiB, %s %s\n", count,
               count == 1 ? "entry" : "entries",
               static_cast<double>(bytes) / (1 << 20), what, folder);
}

std::uint64_t Sum(const Files& files) {
  std::uint64_t sum = 0;
  for (const cache::FileInfo& file : files) sum += file.bytes;
  return sum;
}

// One object: the folder, and what `add` says of each file.
template <class Add>
void PrintJson(const std::string& folder, const Files& files, const Add& add) {
  Json entries = Json::array();
  for (const cache::FileInfo& file : files) {
    Json& entry = entries.emplace_back(Json{
        {"name", file.name}, {"bytes", file.bytes}, {"used", file.used}});
    add(file, &entry);
  }
  Json json = JsonHead(Version(), CommandLine());
  json["wall_ns"] = WallNs();
  json["folder"] = folder;
  json["bytes"] = Sum(files);
  json["entries"] = std::move(entries);
  std::puts(JsonText(json).c_str());
}

int ListAll(const std::string& folder, const Files& files, bool json) {
  if (json) {
    PrintJson(folder, files, [&](const cache::FileInfo& file, Json* entry) {
      std::string text = Contents(folder, file.name);
      absl::StripLeadingAsciiWhitespace(&text);
      (*entry)["contents"] = text;
    });
    return 0;
  }
  for (const cache::FileInfo& file : files) {
    const std::time_t used = file.used;
    std::tm local;
    char text[32] = "?";
    if (localtime_r(&used, &local) != nullptr) {
      std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
    }
    absl::PrintF("%10d  %s  %s%s\n", file.bytes, text, file.name,
                 Contents(folder, file.name));
  }
  PrintSum(files.size(), Sum(files), "in", folder);
  return 0;
}

int VerifyAll(const std::string& folder, const Files& files, bool json) {
  int bad = 0;
  if (json) {
    PrintJson(folder, files, [&](const cache::FileInfo& file, Json* entry) {
      const std::string error = Verify(folder, file.name);
      bad += error.empty() ? 0 : 1;
      (*entry)["error"] = error;
    });
    return bad == 0 ? 0 : kBadEntriesStatus;
  }
  for (const cache::FileInfo& file : files) {
    const std::string error = Verify(folder, file.name);
    if (error.empty()) continue;
    ++bad;
    absl::PrintF("%s: %s\n", file.name, error);
  }
  PrintSum(files.size(), Sum(files), "in", folder);
  if (bad == 0) return 0;
  absl::PrintF(
      "%d of them would not be used; programs remove them, and so does "
      "tjit cache clear\n",
      bad);
  return kBadEntriesStatus;
}

int ClearAll(const std::string& folder, const Files& files, bool json) {
  for (const cache::FileInfo& file : files) {
    const std::string path = absl::StrCat(folder, "/", file.name);
    if (unlink(path.c_str()) == 0 || errno == ENOENT) continue;
    return Fail("cannot remove " + path + ": " + std::strerror(errno));
  }
  if (json) {
    PrintJson(folder, files, [](const cache::FileInfo&, Json* entry) {
      (*entry)["removed"] = true;
    });
  } else {
    PrintSum(files.size(), Sum(files), "removed from", folder);
  }
  return 0;
}

struct Action {
  std::string_view name;
  int (*run)(const std::string& folder, const Files& files, bool json);
};
constexpr Action kActions[] = {
    {"list", ListAll}, {"verify", VerifyAll}, {"clear", ClearAll}};

int Run(const Action& action, std::string folder, bool json) {
  if (folder.empty()) folder = CacheFolder();
  if (folder.empty()) {
    return Fail("there is no cache: TJIT_CACHE_DIR is off, or HOME is not set; "
                "name the folder: tjit cache " + std::string(action.name) +
                " DIR");
  }
  bool is_there = false;
  std::string error = cache::CheckFolder(folder, &is_there);
  Files files;
  if (error.empty() && is_there) error = cache::List(folder, &files);
  if (!error.empty()) return Fail("cannot use " + folder + ": " + error);
  return action.run(folder, files, json);
}

}  // namespace

std::string CacheFolder() {
  const EnvOptions& env = Environment();
  if (!env.has_cache_dir) return env.user_cache_dir;
  return env.cache_dir == kCacheOff ? "" : env.cache_dir;
}

int CacheCommand(int count, char** arguments) {
  Arguments line("tjit cache", "list|verify|clear [--json] [DIR]", kWhat);
  bool json = false;
  std::string name, folder;
  line.AddHelp();
  line.AddFlag("--json", "says it as one object of JSON", &json);
  line.AddAction(&name, &folder);
  if (const auto status = line.Read(count, arguments)) return *status;
  for (const Action& action : kActions) {
    if (name == action.name) return Run(action, folder, json);
  }
  return Fail(name.empty()
                  ? "no action given; accepted are list, verify and clear"
                  : "accepted are list, verify, clear and --help, not " + name);
}

}  // namespace tjit::tools
