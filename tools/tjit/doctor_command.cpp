#include "tools/tjit/doctor_command.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/cache/folder.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/cache_command.h"
#include "tools/tjit/doctor_program.h"
#include "tools/tjit/doctor_report.h"
#include "tools/tjit/elf_file.h"
#include "tools/tjit/own_files.h"
#include "tools/tjit/run_command.h"
#include "tools/tjit/version.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "Says whether tjit is complete here and would serve the program, C++ or "
    "Python, and\nif not, what to do. Nothing of the program is run. Exit "
    "status: 0 yes, 1 no.\n";

// What follows `begin` in the first line of a file that begins with it.
std::string ValueIn(const char* path, std::string_view begin) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    const std::size_t from = line.find_first_not_of(":\t \"=", begin.size());
    if (from == std::string::npos) return {};
    return line.substr(from, line.find_last_not_of('"') + 1 - from);
  }
  return {};
}

void CheckPlatform(DoctorReport* report) {
  utsname name;
  if (uname(&name) != 0) std::memset(&name, 0, sizeof(name));
  std::string system = ValueIn("/etc/os-release", "PRETTY_NAME");
  if (system.empty()) system = name.sysname;
  const std::string text = absl::StrCat(system, ", ", name.machine);
  const bool is_tested = system.find("Debian") != std::string::npos &&
                         (system.find(" 12") != std::string::npos ||
                          system.find(" 13") != std::string::npos);
  if (is_tested) {
    report->Ok(text);
  } else {
    report->Record(text + "; what is tested is Debian 12 and 13");
  }
  const std::string model = ValueIn("/proc/cpuinfo", "model name");
  if (__builtin_cpu_supports("avx512f")) {
    report->Ok("processor with AVX-512: " + model);
  } else if (__builtin_cpu_supports("avx2")) {
    report->Ok("processor with AVX2: " + model);
  } else {
    report->Record("processor without AVX2: " + model +
                   "; it works, but little of it is tested");
  }
}

// A library that was installed, and was built with this command.
void CheckLibrary(const std::string& name, const std::string& has,
                  DoctorReport* report) {
  const std::string path = OwnLibrary(name);
  if (path.empty()) {
    report->No(name + " does not lie in " TJIT_BIN_TO_LIB " beside " +
                   OwnPath(),
               "build or install tjit completely: cmake --build, cmake "
               "--install");
  } else if (!FileHas(path, has)) {
    report->No(path + " is of another build than " + OwnPath(),
               "build or install both again");
  } else if (name == "libtjit_preload.so" &&
             path.find_first_of(" :") != std::string::npos) {
    report->No("the loader cannot preload " + path +
                   ": its path has a space or a colon",
               "install tjit somewhere else");
  } else {
    report->Ok(path);
  }
}

void CheckInstallation(DoctorReport* report) {
  const std::string id = kServedTorch.cpu_build_id;
  CheckLibrary("libtjit_preload.so", id, report);
  CheckLibrary("libtjit.so", id, report);
  const std::string llvm = OwnLibrary("libtjit_llvm.so");
  if (llvm.empty()) {
    report->Record(
        "libtjit_llvm.so is not there: hot sequences are replayed, "
        "but not compiled",
        "install llvm-19-dev, then build and install tjit again");
  } else {
    report->Ok(llvm + ", LLVM " + kLlvmVersion);
  }
  if (OwnLibrary("libtjit_yaml.so").empty()) {
    report->Record(
        "libtjit_yaml.so is not there: files of options "
        "(TJIT_CONFIG) cannot be read",
        "build or install tjit completely");
  }
}

// The folder, or the nearest one above it that is there.
std::string Nearest(std::string folder) {
  while (folder.size() > 1 && access(folder.c_str(), F_OK) != 0) {
    folder = folder.substr(0, std::max<std::size_t>(folder.rfind('/'), 1));
  }
  return folder;
}

void CheckCache(DoctorReport* report) {
  constexpr char kRemedy[] =
      "set TJIT_CACHE_DIR to a folder of yours, outside of which nobody "
      "writes";
  const std::string folder = CacheFolder();
  if (folder.empty()) {
    report->Record(
        "compiled code is not kept: TJIT_CACHE_DIR is off, or HOME "
        "is not set");
    return;
  }
  bool is_there = false;
  const std::string error = cache::CheckFolder(folder, &is_there);
  if (!error.empty()) {
    report->Record("compiled code cannot be kept in " + folder + ": " + error,
                   kRemedy);
  } else if (access(Nearest(folder).c_str(), W_OK) != 0) {
    report->Record("compiled code cannot be kept in " + folder + ": " +
                       Nearest(folder) + " cannot be written to",
                   kRemedy);
  } else {
    report->Ok("compiled code is kept in " + folder);
  }
}

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0';
}

// As support/env.cpp reads a switch.
bool IsOff(std::string_view value) {
  return value == "0" || value == "false" || value == "no" || value == "off";
}

void CheckEnvironment(DoctorReport* report) {
  if (IsSet("TJIT_DISABLE") && !IsOff(std::getenv("TJIT_DISABLE"))) {
    report->No("TJIT_DISABLE is set, which switches tjit off everywhere",
               "unset TJIT_DISABLE");
  }
  if (IsSet("TJIT_AUTO_COMPILE") && IsOff(std::getenv("TJIT_AUTO_COMPILE"))) {
    report->No("TJIT_AUTO_COMPILE=" +
                   std::string(std::getenv("TJIT_AUTO_COMPILE")) +
                   " is set, which `tjit run` leaves as it is",
               "unset TJIT_AUTO_COMPILE");
  }
  if (!IsSet("LD_PRELOAD")) return;
  const std::string all = std::getenv("LD_PRELOAD");
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find_first_of(": ", at), all.size());
    const std::string path = all.substr(at, end - at);
    const std::string name = path.substr(path.rfind('/') + 1);
    at = end + 1;
    if (path.empty() || path == OwnLibrary(name)) continue;
    if (name == "libtjit.so" || name == "libtjit_preload.so") {
      report->No("LD_PRELOAD names another tjit: " + path,
                 "unset LD_PRELOAD; `tjit run` sets it");
    } else {
      report->Record("LD_PRELOAD names " + path + ": it stays behind tjit's");
    }
  }
}

}  // namespace

int DoctorCommand(int count, char** arguments) {
  Arguments line("tjit doctor", "[-- program [arguments]]", kWhat);
  std::vector<std::string> words;
  line.AddHelp();
  line.AddProgram(&words, /*is_needed=*/false);
  if (const auto status = line.Read(count, arguments)) return *status;
  std::fputs(VersionText().c_str(), stdout);
  DoctorReport report;
  CheckPlatform(&report);
  CheckInstallation(&report);
  CheckCache(&report);
  CheckEnvironment(&report);
  std::string what = "program";
  if (!words.empty()) {
    what = words[0];
    for (std::size_t i = 1; i < words.size(); ++i) what += " " + words[i];
    std::fflush(stdout);
    CheckProgram(words, &report);
  }
  if (!report.serves()) {
    std::puts(words.empty() ? "tjit is not ready: see NO above"
                            : "tjit does not serve this program: see NO above");
    return kNotServedStatus;
  }
  absl::PrintF("tjit %s: %s run -- %s\n",
               words.empty() ? "is ready" : "serves this program", OwnPath(),
               what);
  return 0;
}

}  // namespace tjit::tools
