#include "support/config.h"

#include <fcntl.h>
#include <unistd.h>

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

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string UnknownKey(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Key& key : kKeys) known.push_back(key.name);
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
  const TjitYamlSink sink{&reader, &Reader::OnEntry, &Reader::OnError};
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
