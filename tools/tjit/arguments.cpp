#include "tools/tjit/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/tjit/run_command.h"

namespace tjit::tools {
namespace {

constexpr char kNoOutput[] = "no output given: -o PATH";
constexpr char kMark[] = "--";  // what follows it is no option

bool IsOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != kMark;
}

// "--help", "--op=GLOB", "-v", "-o PATH".
std::string NameOf(const CLI::App& app, const CLI::Option& option) {
  const std::string value = option.get_type_name();
  if (&option != app.get_help_ptr() && !option.get_snames().empty()) {
    return absl::StrCat("-", option.get_snames()[0], value.empty() ? "" : " ",
                        value);
  }
  return absl::StrCat("--", option.get_lnames()[0], value.empty() ? "" : "=",
                      value);
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* option) { return option->nonpositional(); });
}

}  // namespace

Arguments::Arguments(const std::string& name, const std::string& words,
                     const std::string& what)
    : name_(name),
      usage_(name + " " + words),
      what_(what),
      app_(std::make_unique<CLI::App>()) {
  app_->set_help_flag();
}

Arguments::~Arguments() = default;

void Arguments::AddHelp() { app_->set_help_flag("-h,--help", "this text"); }

// CLI11 takes the next word for the value of an option that wants one. One that
// wants none may have one behind "=" all the same, which is all that is meant.
CLI::Option* Arguments::Add(const std::string& names, const std::string& what,
                            Set set) {
  const auto read = [set = std::move(set)](const CLI::results_t& values) {
    const std::string wrong = set(values.empty() ? "" : values.back());
    if (!wrong.empty()) throw CLI::ValidationError(wrong);
    return true;
  };
  CLI::Option* const option = app_->add_option(names, read, what);
  option->type_size(0)->type_name("");
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return option;
}

void Arguments::AddFlag(const std::string& names, const std::string& what,
                        std::function<void()> set) {
  Add(names, what, [names, set = std::move(set)](const std::string& value) {
    set();
    return value.empty() ? "" : names + " takes no value";
  });
}

void Arguments::AddSwitch(const std::string& name, const std::string& what,
                          Set set) {
  Add(name, what, [set = std::move(set)](const std::string& value) {
    return set(value.empty() ? "1" : value);
  });
}

void Arguments::AddValue(const std::string& name, const std::string& value,
                         const std::string& what, Set set) {
  const std::string missing =
      absl::StrCat(name, " needs a value: ", name, "=", value);
  CLI::Option* const option =
      Add(name, what, [set = std::move(set), missing](const std::string& text) {
        return text.empty() ? missing : set(text);
      });
  option->type_name(value);
}

void Arguments::AddOptionalValue(const std::string& name,
                                 const std::string& value,
                                 const std::string& what, Set set) {
  Add(name, what, std::move(set))->type_name(value);
}

void Arguments::AddOutput(std::string* path, const std::string& what,
                          bool is_needed) {
  app_->add_option("-o,--output", *path, what)->type_name("PATH");
  if (is_needed) output_ = path;
}

void Arguments::AddFiles(std::string* first, std::string* second) {
  app_->add_option("FIRST", *first)->required();
  last_word_ = app_->add_option("SECOND", *second)->required();
  missing_ = too_many_ = "two files are wanted";
}

void Arguments::AddFile(std::string* file, const std::string& too_many) {
  last_word_ = app_->add_option("FILE", *file)->required();
  too_many_ = too_many;
}

void Arguments::AddManyFiles(std::vector<std::string>* files) {
  last_word_ = app_->add_option("FILE", *files)->required();
}

void Arguments::AddOptionalFile(std::string* file,
                                const std::string& too_many) {
  last_word_ = app_->add_option("FILE", *file);
  too_many_ = too_many;
}

void Arguments::AddAction(std::string* action, std::string* folder) {
  app_->add_option("ACTION", *action);
  last_word_ = app_->add_option("DIR", *folder);
  also_accepted_ = "a folder";
  too_many_ = "one folder is wanted";
}

void Arguments::AddProgram(std::vector<std::string>* program, bool is_needed) {
  program_ = program;
  needs_program_ = is_needed;
  also_accepted_ = "a program";
  app_->prefix_command();
}

std::string Arguments::Accepted() const {
  std::vector<std::string> all;
  for (const CLI::Option* option : OptionsOf(*app_)) {
    all.push_back(NameOf(*app_, *option));
  }
  if (!also_accepted_.empty()) all.push_back(also_accepted_);
  const std::string last = all.back();
  all.pop_back();
  return absl::StrCat(absl::StrJoin(all, ", "), " and ", last);
}

void Arguments::PrintHelp() const {
  absl::PrintF("usage: %s\n\n%s\n", usage_, what_);
  const std::vector<const CLI::Option*> options = OptionsOf(*app_);
  std::size_t width = 0;
  for (const CLI::Option* option : options) {
    width = std::max(width, NameOf(*app_, *option).size());
  }
  for (const CLI::Option* option : options) {
    // Each further line of the text begins where the first does.
    const std::string what =
        absl::StrReplaceAll(option->get_description(),
                            {{"\n", "\n" + std::string(width + 4, ' ')}});
    absl::PrintF("  %-*s  %s\n", static_cast<int>(width),
                 NameOf(*app_, *option), what);
  }
}

std::string Arguments::ReadRest() {
  std::vector<std::string> rest = app_->remaining();
  const bool has_mark = !rest.empty() && rest[0] == kMark;
  // Of a program the first word decides, the others are its own.
  const auto option =
      program_ == nullptr ? std::find_if(rest.begin(), rest.end(), IsOption)
      : !has_mark && !rest.empty() && rest[0].starts_with("-") ? rest.begin()
                                                               : rest.end();
  if (option != rest.end()) {
    const std::size_t value = option->find('=', 2);  // not that of "-=1"
    return absl::StrCat("unknown option ", option->substr(0, value),
                        "; accepted are ", Accepted());
  }
  if (has_mark) rest.erase(rest.begin());
  if (program_ != nullptr) {
    *program_ = rest;
    const bool has_program = !rest.empty() && !rest[0].empty();
    return has_program || (!needs_program_ && rest.empty() && !has_mark)
               ? ""
               : "no program given: " + usage_;
  }
  if (last_word_ == nullptr || rest.empty()) return "";
  return absl::StrCat(too_many_, ", not ", last_word_->as<std::string>(),
                      " and ", rest[0]);
}

std::optional<int> Arguments::Read(int count, char** words) {
  // CLI11 takes them from the back.
  std::vector<std::string> all(words, words + count);
  std::reverse(all.begin(), all.end());
  std::string wrong;
  try {
    app_->parse(std::move(all));
    wrong = ReadRest();
  } catch (const CLI::RequiredError&) {
    wrong = ReadRest();
    if (wrong.empty()) wrong = missing_ + ": " + usage_;
  } catch (const CLI::ExtrasError&) {
    wrong = ReadRest();
  } catch (const CLI::ArgumentMismatch&) {
    wrong = kNoOutput;  // no other option takes the next word
  } catch (const CLI::ParseError& e) {
    wrong = e.what();
  }
  if (wrong.empty() && output_ != nullptr && output_->empty()) {
    wrong = kNoOutput;
  }
  // Whoever asks for help gets it, whatever else stands there.
  if (const CLI::Option* help = app_->get_help_ptr();
      help != nullptr && help->count() > 0) {
    PrintHelp();
    return 0;
  }
  if (wrong.empty()) return std::nullopt;
  return Fail(wrong);
}

int Arguments::Fail(const std::string& text) const {
  absl::FPrintF(stderr, "%s: %s\n", name_, text);
  return kUsageStatus;
}

}  // namespace tjit::tools
