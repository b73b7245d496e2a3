#include "tools/tjit/package_command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/tjit/arguments.h"
#include "tools/tjit/own_files.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kWhat[] =
    "FILE is what tjit::save_package() has written.\n"
    "  show     its arguments, tensors and compiled code\n"
    "  verify   checks the file, and that its example gives the same bits "
    "here\n"
    "  run      calls it with its example, and says how long a call takes\n"
    "  compile  adds compiled code for this machine; FILE is replaced\n";

int Fail(const std::string& text) {
  absl::FPrintF(stderr, "tjit package: %s\n", text);
  return kUsageStatus;
}

[[noreturn]] void Start(const std::string& program,
                        std::vector<std::string> words) {
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(Fail(absl::StrFormat("%s cannot be started: %s", program,
                             std::strerror(errno))));
}

// With an empty folder for compiled code, which is gone afterwards.
int Compile(const std::string& program, const std::vector<std::string>& words) {
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "tjit-package-XXXXXX")
          .string();
  if (error || mkdtemp(folder.data()) == nullptr) {
    return Fail(absl::StrFormat("no folder can be made in %s: %s", folder,
                                std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child == 0) {
    setenv("TJIT_CACHE_DIR", folder.c_str(), 1);
    setenv("TJIT_PROFILE", "off", 1);
    Start(program, words);
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  std::filesystem::remove_all(folder, error);
  if (child < 0) return Fail("no process can be had");
  if (WIFSIGNALED(status)) {
    return Fail(absl::StrFormat("tjit-package was ended by signal %d",
                                WTERMSIG(status)));
  }
  return WEXITSTATUS(status);
}

}  // namespace

int PackageCommand(int count, char** arguments) {
  Arguments line("tjit package", "show|verify|run|compile FILE [options]",
                 kWhat);
  std::string action, file;
  std::vector<std::string> options;
  const auto pass = [&options](const std::string& name) {
    return [&options, name](const std::string& value) {
      options.push_back(name + "=" + value);
      return std::string();
    };
  };
  line.AddHelp();
  line.AddValue("--tensors", "FILE",
                "a dictionary of tensors by name, as torch.save() writes it, "
                "for\nthose that the package has to be given",
                pass("--tensors"));
  line.AddValue("--runs", "N", "how often `run` calls it (1000)",
                [&options](const std::string& value) {
                  const bool is_number =
                      !value.empty() && value.size() < 9 && value != "0" &&
                      value.find_first_not_of("0123456789") ==
                          std::string::npos;
                  if (!is_number) {
                    return "--runs=" + value +
                           " is not used, accepted is a number from 1 on";
                  }
                  options.push_back("--runs=" + value);
                  return std::string();
                });
  line.AddFiles(&action, &file);
  if (const auto status = line.Read(count, arguments)) return *status;
  if (action != "show" && action != "verify" && action != "run" &&
      action != "compile") {
    return line.Fail("accepted are show, verify, run and compile, not " +
                     action);
  }
  const std::string own = OwnPath();
  const std::string program = own.substr(0, own.rfind('/')) + "/tjit-package";
  std::vector<std::string> words = {action, file};
  words.insert(words.end(), options.begin(), options.end());
  if (action == "compile") return Compile(program, words);
  // What is found there would count as the package's.
  if (action == "verify") setenv("TJIT_CACHE_DIR", "off", 1);
  Start(program, words);
}

}  // namespace tjit::tools
