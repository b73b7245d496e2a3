#include "tools/tjit/doctor_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "runtime/preload/torch_version.h"
#include "tools/tjit/captured.h"
#include "tools/tjit/elf_file.h"
#include "tools/tjit/own_files.h"
#include "tools/tjit/program_file.h"
#include "tools/tjit/version.h"

namespace tjit::tools {
namespace {

using Words = std::vector<std::string>;

// Linux follows so many interpreters that are scripts themselves.
constexpr int kMaxInterpreters = 5;

constexpr char kPythonLoader[] = "/lib64/ld-linux-x86-64.so.2";

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string FolderOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

bool IsPython(const std::string& path) {
  const std::string name = NameOf(path);
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

// ----------------------------------------------------- what a command runs

// `env [-S] [NAME=value]... program`: sets the variables, leaves the program.
void TakeEnvOff(Words* words) {
  std::size_t i = 1;
  for (; i < words->size(); ++i) {
    const std::string word = (*words)[i];
    const std::size_t equals = word.find('=');
    if (word.starts_with("-S")) {
      // Its words are in one: "-S python3 -u".
      std::istringstream rest(word.substr(2));
      const Words inner{std::istream_iterator<std::string>(rest), {}};
      words->insert(words->begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    inner.begin(), inner.end());
    } else if (equals != std::string::npos && word[0] != '-') {
      setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(),
             1);
    } else if (word == "-u" || word == "-C") {
      ++i;  // the name of a variable, a folder
    } else if (word[0] != '-') {
      break;
    }
  }
  if (i < words->size()) {
    words->erase(words->begin(),
                 words->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Puts the interpreter that a "#!" line of `file` names before the words.
bool PutInterpreter(const std::string& file, Words* words) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  if (!std::getline(in, line) || !line.starts_with("#!")) return false;
  std::istringstream text(line.substr(2));
  std::string interpreter, argument;
  if (!(text >> interpreter)) return false;
  std::getline(text >> std::ws, argument);
  (*words)[0] = file;
  if (!argument.empty()) words->insert(words->begin(), argument);
  words->insert(words->begin(), interpreter);
  return true;
}

// Follows "#!" lines and `env` to what really runs.
void FindWhatRuns(Words* words) {
  for (int i = 0; i < kMaxInterpreters; ++i) {
    if (IsPython(words->front())) return;
    if (NameOf(words->front()) == "env" && words->size() > 1) {
      TakeEnvOff(words);
    } else if (!PutInterpreter(FindProgram(words->front()), words)) {
      return;
    }
  }
}

// ----------------------------------------------------- libraries

struct Libraries {
  std::map<std::string, std::string> paths;  // by name without version
  std::string missing;
};

// Of the lines of ldd: "libc10.so => /x/libc10.so (0x7f...)".
Libraries ParseList(const std::string& text) {
  Libraries libraries;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, arrow, path;
    words >> name >> arrow >> path;
    if (arrow != "=>") path = name;  // preloaded by its path
    if (path == "not") {
      libraries.missing += (libraries.missing.empty() ? "" : ", ") + name;
      continue;
    }
    std::string key = NameOf(path);
    key = key.substr(0, key.find(".so")) + ".so";
    libraries.paths.emplace(key, path);
  }
  return libraries;
}

Libraries LibrariesOf(const std::string& loader, const std::string& file) {
  return ParseList(OutputOf({loader, file}, "LD_TRACE_LOADED_OBJECTS"));
}

std::string BuildIdText(const std::string& id) {
  return id.empty() ? "without a build-id" : "with build-id " + id;
}

// Says whether tjit serves the libtorch among the libraries.
void CheckTorch(const Libraries& libraries, const std::string& who,
                DoctorReport* report) {
  const std::string& torch = libraries.paths.at("libtorch_cpu.so");
  const preload::TorchVersion version = preload::VersionBeside(torch.c_str());
  const std::string name =
      absl::StrCat("libtorch ", version.text,
                   version.text[0] == '\0' ? "of " : " of ", torch);
  if (preload::IsTooOld(version)) {
    report->No(who + " loads " + name + ", and tjit needs 2.13 or newer",
               "bring it up to date (`python3 -m pip install --upgrade "
               "torch`), then build tjit for it: scripts/quickstart.sh "
               "--torch=" + FolderOf(FolderOf(torch)));
    return;
  }
  const struct {
    const char* library;
    std::string built;
  } checks[] = {{"libtorch_cpu.so", kServedTorch.cpu_build_id},
                {"libc10.so", kServedTorch.c10_build_id}};
  bool is_known = true;
  for (const auto& check : checks) {
    const auto found = libraries.paths.find(check.library);
    if (found == libraries.paths.end()) continue;
    const std::string id = ReadElf(found->second).build_id;
    is_known = is_known && !id.empty() && !check.built.empty();
    if (id.empty() || check.built.empty() || id == check.built) continue;
    report->No(who + " loads " + name + ", whose " + check.library + " is " +
                   BuildIdText(id) + "; this tjit was built for libtorch " +
                   kServedTorch.version + " " + BuildIdText(check.built),
               "build tjit for that one: scripts/quickstart.sh --torch=" +
                   FolderOf(FolderOf(torch)));
    return;
  }
  if (is_known) {
    report->Ok(who + " loads " + name + ", which this tjit was built for");
  } else {
    report->Record(who + " loads " + name +
                   "; nobody can tell whether it is "
                   "the one that this tjit was built for, as there is no "
                   "build-id");
  }
}

// ----------------------------------------------------- programs

// Prints the folder of the torch package, then a library that needs libtorch.
constexpr char kAskPython[] = R"(import glob, importlib.util, sys
sys.path = sys.argv[1:] + [p for p in sys.path if p]
print(sys.executable)
spec = importlib.util.find_spec('torch')
if spec and spec.origin:
    folder = spec.submodule_search_locations[0]
    print(folder)
    print((glob.glob(folder + '/_C.*.so') +
           glob.glob(folder + '/lib/libtorch_cpu.so') + [''])[0])
)";

// The folder whose modules go first, that of the script; "" for none. Says so
// if the script cannot be read.
std::string FirstFolder(const Words& words, DoctorReport* report) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-c" || word == "-m") return ".";
    if (word == "-W" || word == "-X") ++i;  // a value follows
    if (word[0] == '-') continue;
    if (access(word.c_str(), R_OK) != 0) {
      report->No("the script " + word + " cannot be read: " +
                     std::strerror(errno),
                 "name the script that is to run");
    }
    return word.find('/') == std::string::npos ? "." : FolderOf(word);
  }
  return {};
}

// What a Python says of its torch.
struct PythonTorch {
  std::string executable;  // empty: it says nothing
  std::string folder;      // of the package; empty: it has none
  std::string library;     // needs libtorch; empty: there is none
};

PythonTorch AskPython(const Words& words, DoctorReport* report) {
  Words ask = {words.front(), "-c", kAskPython};
  const std::string first = FirstFolder(words, report);
  if (!first.empty()) ask.push_back(first);
  std::istringstream answer(OutputOf(ask));
  PythonTorch torch;
  std::getline(answer, torch.executable);
  std::getline(answer, torch.folder);
  std::getline(answer, torch.library);
  return torch;
}

void CheckPython(const Words& words, DoctorReport* report) {
  const std::string& python = words.front();
  const std::string look =
      absl::StrCat("see what `", python, " -c 'import torch'` says");
  const auto [executable, folder, library] = AskPython(words, report);
  if (executable.empty()) {
    report->No(python + " cannot be asked for its torch", look);
    return;
  }
  if (library.empty()) {
    report->No(folder.empty()
                   ? executable + " has no torch"
                   : executable + " has a torch without libtorch in " + folder,
               "activate the environment whose Python has it, or name that "
               "Python: tjit doctor -- /path/to/python ...");
    return;
  }
  const std::string why_not = WhyNotPreloaded(executable);
  if (!why_not.empty()) {
    report->No("nothing can be preloaded into " + executable + ": " + why_not,
               "run it by another Python");
    return;
  }
  const ElfFile elf = ReadElf(executable);
  Libraries libraries = LibrariesOf(
      elf.interpreter.empty() ? kPythonLoader : elf.interpreter, library);
  libraries.paths.emplace(NameOf(library), library);
  if (!libraries.paths.contains("libtorch_cpu.so")) {
    report->No(library + " of " + executable + " finds no libtorch_cpu.so" +
                   (libraries.missing.empty()
                        ? ""
                        : " (missing: " + libraries.missing + ")"),
               look);
    return;
  }
  CheckTorch(libraries, executable, report);
}

bool AllowsLinkOrder() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return options != nullptr &&
         std::strstr(options, "verify_asan_link_order=0") != nullptr;
}

void CheckLinked(const std::string& file, const ElfFile& elf,
                 DoctorReport* report) {
  const Libraries libraries = LibrariesOf(elf.interpreter, file);
  const auto find = [&](const char* name) -> const std::string* {
    const auto at = libraries.paths.find(name);
    return at == libraries.paths.end() ? nullptr : &at->second;
  };
  if (!libraries.missing.empty()) {
    report->No(file + " cannot start: the loader does not find " +
                   libraries.missing,
               "name their folder in LD_LIBRARY_PATH");
    return;
  }
  if (find("libasan.so") != nullptr && !AllowsLinkOrder()) {
    report->No(file + " is built with AddressSanitizer (" +
                   *find("libasan.so") + "), which wants to be the first "
                   "library of the process",
               "set ASAN_OPTIONS=verify_asan_link_order=0, or build the "
               "program without it");
    return;
  }
  if (find("libtorch_cpu.so") == nullptr) {
    report->No(file + " links no libtorch",
               "ask for the program that does, where this one starts it "
               "(tjit doctor -- PROGRAM); where it loads libtorch later, "
               "`tjit run --stats=- -- PROGRAM` tells");
    return;
  }
  const std::string* own = find("libtjit.so");
  const std::string ours = OwnLibrary("libtjit.so");
  char real[4096];
  if (own != nullptr &&
      (realpath(own->c_str(), real) == nullptr || ours != real)) {
    report->Record(
        file + " links " + *own +
            ", which serves it; it is none of "
            "this command's, which cannot tell what that one was built "
            "for",
        "ask the command `tjit` that lies beside it");
    return;
  }
  CheckTorch(libraries, file, report);
}

}  // namespace

void CheckProgram(std::vector<std::string> words, DoctorReport* report) {
  const std::string name = words.front();
  const std::string file = FindProgram(name);
  if (file.empty() || access(file.c_str(), F_OK) != 0) {
    report->No(file.empty() ? "no program " + name + " in PATH"
                            : file + " is not there",
               "name the program as a shell would start it");
    return;
  }
  struct stat info;
  if (access(file.c_str(), X_OK) != 0 || stat(file.c_str(), &info) != 0 ||
      !S_ISREG(info.st_mode)) {
    report->No(file + " is no program that can be started",
               "for a Python script: tjit doctor -- python3 " + file);
    return;
  }
  const std::string why_not = WhyNotPreloaded(file);
  if (!why_not.empty()) {
    report->No("nothing can be preloaded into " + file + ": " + why_not,
               "link the program to tjit::tjit, or build it as a dynamic "
               "x86-64 program without these rights");
    return;
  }
  FindWhatRuns(&words);
  if (IsPython(words.front())) {
    CheckPython(words, report);
    return;
  }
  const std::string runs = FindProgram(words.front());
  const ElfFile elf = ReadElf(runs);
  if (!elf.is_elf || elf.interpreter.empty()) {
    report->No(file + " is run by " + words.front() + ", of which nothing is "
               "known", "ask for the program that loads libtorch");
    return;
  }
  CheckLinked(runs, elf, report);
}

}  // namespace tjit::tools
