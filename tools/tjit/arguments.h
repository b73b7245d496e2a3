// The command line of a subcommand: what may stand there, in one place.
//
// CLI11 reads the words. This class says what is common to all subcommands: a
// value stands behind "=", the help has one form, and what is wrong is said in
// one sentence that names what is accepted.
//   Arguments line("tjit log", "[options] FILE", "Prints a log.");
//   line.AddFlag("--follow", "go on while the program runs", &follow);
//   line.AddFile(&file, "one file at a time");
//   if (const auto status = line.Read(count, words)) return *status;
// CLI11 takes seconds to compile, so its headers are included in one source.
// Tested by: tests/acceptance/arguments_test.py, run_test.py, log_test.py
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tjit::tools {

class Arguments {
 public:
  // Stores a value; returns "" or a sentence that says what is wrong with it.
  using Set = std::function<std::string(const std::string& value)>;

  // `name`: "tjit log"; `words`: what follows it in the line of usage; `what`
  // the subcommand does, a text of lines.
  Arguments(const std::string& name, const std::string& words,
            const std::string& what);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // The options are listed in the order in which they are added. `names` may
  // have commas between; `what` may have several lines.
  void AddHelp();  // --help and -h
  void AddFlag(const std::string& names, const std::string& what,
               std::function<void()> set);
  void AddFlag(const std::string& names, const std::string& what, bool* flag) {
    AddFlag(names, what, [flag] { *flag = true; });
  }
  // --name, or --name=VALUE; the first stands for `--name=1`.
  void AddSwitch(const std::string& name, const std::string& what, Set set);
  // --name, for which `set` gets "", or --name=VALUE.
  void AddOptionalValue(const std::string& name, const std::string& value,
                        const std::string& what, Set set);
  // --name=VALUE, where `value` is what to call it.
  void AddValue(const std::string& name, const std::string& value,
                const std::string& what, Set set);

  // A path, which mostly is needed: "-o PATH", "-oPATH" or "--output=PATH".
  void AddOutput(std::string* path, const std::string& what,
                 bool is_needed = true);

  // The words that are no options, one of:
  // One word, which is needed. `too_many`: what is wrong with a second one.
  void AddFile(std::string* file, const std::string& too_many);
  // One word or more.
  void AddManyFiles(std::vector<std::string>* files);
  // The same as AddFile(), where it may be left out.
  void AddOptionalFile(std::string* file, const std::string& too_many);
  // Two words, which are needed.
  void AddFiles(std::string* first, std::string* second);
  // An action, and a folder that may be left out.
  void AddAction(std::string* action, std::string* folder);
  // Everything from the first word on that is no option, or behind "--".
  void AddProgram(std::vector<std::string>* program, bool is_needed);

  // None if all is well. Else the subcommand ends with that status: the help
  // was printed on stdout, or on stderr what is wrong.
  std::optional<int> Read(int count, char** words);
  // Says what is wrong, and returns the status for that.
  int Fail(const std::string& text) const;

 private:
  CLI::Option* Add(const std::string& names, const std::string& what, Set set);
  void PrintHelp() const;
  // "--help, --json and a folder".
  std::string Accepted() const;
  // "" or what is wrong with the words that CLI11 had no use for.
  std::string ReadRest();

  const std::string name_, usage_, what_;
  std::unique_ptr<CLI::App> app_;
  CLI::Option* last_word_ = nullptr;
  std::string also_accepted_, too_many_;
  std::string missing_ = "no file given";
  const std::string* output_ = nullptr;
  std::vector<std::string>* program_ = nullptr;
  bool needs_program_ = false;
};

}  // namespace tjit::tools
