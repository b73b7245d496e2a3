#include "support/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "support/nearest_name.h"

namespace tjit {
namespace {

enum class Kind : std::uint8_t { kSwitch, kNumber, kText };

struct Key {
  std::string_view name;
  std::string_view variable;
  Kind kind;
};

constexpr Key kKeys[] = {
#define TJIT_CONFIG_KEY(key, variable, kind) {#key, #variable, Kind::kind},
#include "support/config_keys.def"
#undef TJIT_CONFIG_KEY
};

// A file of options is some lines long; this is a disk image or /dev/zero.
constexpr std::size_t kMaxBytes = 1 << 20;

constexpr std::string_view kRegions = "regions";

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string UnknownKey(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Key& key : kKeys) known.push_back(key.name);
  known.push_back(kRegions);
  std::sort(known.begin(), known.end());
  std::string text(1, '"');
  text += name;
  text += "\" is not an option of tjit";
  return text + DidYouMean(name, known);
}

class Reader {
 public:
  explicit Reader(ConfigFile* file) : file_(file) {}

  static void OnEntry(void* context, const char* key, const char* value,
                      bool is_text, int line, int column) {
    static_cast<Reader*>(context)->Read(key, value, is_text, line, column);
  }
  static void OnNested(void* context, const char* key, const char* name,
                       const char* option, const TjitYamlValue* value) {
    if (key != kRegions) return;  // said of the key itself
    static_cast<Reader*>(context)->ReadRegion(name, option, *value);
  }
  static void OnError(void* context, const char* what, int line, int column) {
    static_cast<Reader*>(context)->Complain(
        line, column,
        std::string(what) + "; a file of options is YAML with lines " +
            "`key: value`, and nothing of this one is used");
  }

 private:
  std::string Place(int line, int column) const {
    return absl::StrCat(file_->path, ":", line, ":", column);
  }

  void Complain(int line, int column, const std::string& text) {
    file_->options.complaints.push_back("TJIT_CONFIG: " + Place(line, column) +
                                        ": " + text);
  }

  void Read(std::string_view name, const char* value, bool is_text, int line,
            int column) {
    if (name == kRegions) return ReadRegions(value, is_text, line, column);
    const Key* key = FindKey(name);
    if (key == nullptr) return Complain(line, column, UnknownKey(name));
    const auto before = file_->where.find(name);
    if (before != file_->where.end()) {
      return Complain(line, column, std::string(name) +
                                        " is not used: it is set already at " +
                                        before->second);
    }
    std::string accepted;
    if (Set(*key, value, is_text, &accepted)) {
      file_->where.emplace(name, Place(line, column));
      return;
    }
    Complain(line, column, std::string(name) + ": " + Shown(value, is_text) +
                               " is not used, accepted is " + accepted);
  }

  // The entry itself: what a map holds comes to ReadRegion(), and so does a
  // list. Nothing is fine.
  void ReadRegions(const char* value, bool is_text, int line, int column) {
    if (value == nullptr || (*value == '\0' && !is_text)) return;
    ComplainOfRegions(value, is_text, line, column);
  }
  void ComplainOfRegions(const char* value, bool is_text, int line,
                         int column) {
    Complain(line, column,
             absl::StrCat("regions: ", Shown(value, is_text),
                          " is not used, accepted is a map of "
                          "names of regions to their options"));
  }

  void ReadRegion(const std::string& pattern, const char* option,
                  const TjitYamlValue& value) {
    if (value.kind == TjitYamlValue::kItem) return ReadOp(pattern, value);
    takes_ops_ = false;
    if (pattern.empty() && option == nullptr &&
        value.kind == TjitYamlValue::kList) {
      return ComplainOfRegions(nullptr, false, value.line, value.column);
    }
    if (pattern.empty()) {
      return Complain(value, "regions: the name of a region is empty");
    }
    if (option == nullptr) return ReadNoMap(pattern, value);
    std::string accepted;
    RegionSettings unused;
    const std::string_view name = option;
    if (SetRegionOption(name, "", &unused, &accepted) == SetResult::kUnknown) {
      return Complain(value,
                      absl::StrCat(Shown(option, /*is_text=*/true),
                                   " is not an option of a region",
                                   DidYouMean(name, RegionOptionNames())));
    }
    const std::string key = absl::StrCat("regions.", pattern, ".", option);
    const std::string where = Place(value.line, value.column);
    const auto before = file_->where.find(key);
    if (before != file_->where.end()) {
      return Complain(value, absl::StrCat(key,
                                          " is not used: it is set already "
                                          "at ",
                                          before->second));
    }
    takes_ops_ = name == "exclude" && value.kind == TjitYamlValue::kList;
    // In quotes, 5 and true are texts like any other.
    const bool is_word = name == "backend" || name == "shapes";
    const bool has_quotes = value.is_text && !is_word;
    std::string word;
    if (value.text != nullptr && !has_quotes) word = value.text;
    RegionSettings* const settings = SettingsOf(pattern);
    if (takes_ops_) {
      settings->exclude = RegionExclusion{};
      word = "[]";
    } else if (SetRegionOption(name, word, settings, &accepted) !=
               SetResult::kSet) {
      if (has_quotes) accepted += ", without quotes";
      return Complain(value,
                      absl::StrCat(key, ": ", Shown(value.text, value.is_text),
                                   " is not used, accepted is ", accepted));
    }
    file_->region_lines.push_back({pattern, option, word, where});
    file_->where.emplace(key, where);
  }

  // A region whose value is no map of options. Nothing is fine.
  void ReadNoMap(const std::string& pattern, const TjitYamlValue& value) {
    const bool is_nothing =
        value.text != nullptr && *value.text == '\0' && !value.is_text;
    if (is_nothing) return;
    std::string options;
    for (const std::string_view name : RegionOptionNames()) {
      if (!options.empty()) options += ", ";
      options += name;
    }
    Complain(value, absl::StrCat("regions.", pattern, ": ",
                                 Shown(value.text, value.is_text),
                                 " is not used, accepted is a map of options "
                                 "(",
                                 options, ")"));
  }

  // An item of a list; one of `exclude` is the name of an op.
  void ReadOp(const std::string& pattern, const TjitYamlValue& value) {
    if (!takes_ops_) return;  // the list itself was wrong
    if (value.text == nullptr || *value.text == '\0') {
      return Complain(value, absl::StrCat("regions.", pattern, ".exclude: ",
                                          Shown(value.text, value.is_text),
                                          " is not used, accepted is the name "
                                          "of an op, like aten::add"));
    }
    SettingsOf(pattern)->exclude->ops.emplace_back(value.text);
    std::string& shown = file_->region_lines.back().value;
    shown.pop_back();
    absl::StrAppend(&shown, shown.size() > 1 ? ", " : "", value.text, "]");
  }

  void Complain(const TjitYamlValue& value, const std::string& text) {
    Complain(value.line, value.column, text);
  }

  RegionSettings* SettingsOf(const std::string& pattern) {
    for (RegionRule& rule : file_->region_rules) {
      if (rule.pattern == pattern) return &rule.settings;
    }
    file_->region_rules.push_back({pattern, {}, /*is_from_program=*/false});
    return &file_->region_rules.back().settings;
  }

  static std::string Shown(const char* value, bool is_text) {
    if (value == nullptr) return "a list or a map";
    if (!is_text) return *value == '\0' ? "nothing" : value;
    std::string quoted(1, '"');
    quoted += value;
    quoted += '"';
    return quoted;
  }

  bool Set(const Key& key, const char* value, bool is_text,
           std::string* accepted) {
    std::string_view word = value == nullptr ? "" : value;
    // In quotes, 5 and true are texts like any other.
    const bool has_quotes = is_text && key.kind != Kind::kText;
    if (has_quotes) word = "";
    const SetResult result =
        SetByVariable(key.variable, word, &file_->options, accepted);
    if (has_quotes) *accepted += ", without quotes";
    return result == SetResult::kSet;
  }

  ConfigFile* const file_;
  bool takes_ops_ = false;  // the items that come are names of ops
};

}  // namespace

std::string_view VariableOfKey(std::string_view key) {
  const Key* found = FindKey(key);
  return found == nullptr ? std::string_view() : found->variable;
}

ConfigFile ParseConfig(const std::string& path, const std::string& text,
                       decltype(&tjit_read_yaml) read) {
  ConfigFile file;
  file.path = path;
  Reader reader(&file);
  const TjitYamlSink sink{&reader, &Reader::OnEntry, &Reader::OnNested,
                          &Reader::OnError};
  read(text.data(), text.size(), &sink);
  return file;
}

std::string ReadConfig(const std::string& path, std::string* text) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  std::string why;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) why = std::strerror(errno);
    if (n <= 0) break;
    text->append(buffer, static_cast<std::size_t>(n));
    if (text->size() > kMaxBytes) {
      why = "it is longer than a file of options can be (1 MiB)";
      break;
    }
  }
  close(fd);
  return why;
}

}  // namespace tjit
