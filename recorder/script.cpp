#include "recorder/script.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tjit {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr std::string_view kInterpreters[] = {
    "R",    "Rscript", "ash",  "bash", "dash", "fish",   "ipython", "julia",
    "ksh",  "lua",     "luajit", "node", "octave", "perl", "php", "pypy",
    "python", "ruby",  "sh",   "zsh"};

std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// "python" of "python3.11d".
std::string_view WithoutVersion(std::string_view name) {
  const std::size_t digit = name.find_first_of("0123456789");
  std::string_view stem = name.substr(0, digit);
  while (stem.ends_with('-') || stem.ends_with('.')) stem.remove_suffix(1);
  return stem;
}

// The file or folder that a word names; empty if there is none.
std::string Existing(const std::string& word, const std::string& folder) {
  if (word.empty()) return "";
  std::error_code error;
  const fs::path path = fs::path(word).is_absolute() ? fs::path(word)
                                                     : fs::path(folder) / word;
  const fs::path found = fs::canonical(path, error);
  return error ? "" : found.string();
}

std::string Code(std::string code) {
  // What multiprocessing starts says in its code by which descriptors it talks.
  if (code.starts_with("from multiprocessing")) {
    std::erase_if(code, [](char c) { return c >= '0' && c <= '9'; });
  }
  return absl::StrFormat("code %016x",
                         XXH3_64bits(code.data(), code.size()));
}

// A module of the working folder is another one than its namesake elsewhere.
std::string Module(const std::string& name, const std::string& folder) {
  const std::string first = name.substr(0, name.find('.'));
  std::string place = Existing(first + ".py", folder);
  if (place.empty()) place = Existing(first, folder);
  return absl::StrCat("module ", name, place.empty() ? "" : " in ", place);
}

std::string Script(const std::string& word, const std::string& folder) {
  const std::string found = Existing(word, folder);
  // The program has gone to another folder meanwhile.
  return absl::StrCat("script ", found.empty() ? word : found);
}

// python [-OPTIONS] [-c CODE | -m MODULE | SCRIPT | -] ...
std::string OfPython(const Arguments& arguments, const std::string& folder) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-" || word.empty()) return "";
    if (word[0] != '-') return Script(word, folder);
    if (word.starts_with("--")) {
      if (word == "--check-hash-based-pycs") ++i;
      continue;
    }
    // Letters; some take the rest of the word, or the next one.
    const std::size_t at = word.find_first_of("cmWX", 1);
    if (at == std::string::npos) continue;
    const bool is_next = at + 1 == word.size();
    if (is_next && ++i == arguments.size()) return "";
    const std::string value = is_next ? arguments[i] : word.substr(at + 1);
    if (word[at] == 'c') return Code(value);
    if (word[at] == 'm') return Module(value, folder);
  }
  return "";
}

// The first word that names a file, or code behind -c or -e.
std::string OfAnother(const Arguments& arguments, const std::string& folder) {
  constexpr std::string_view kFile = "--file=";
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if ((word == "-c" || word == "-e") && i + 1 < arguments.size()) {
      return Code(arguments[i + 1]);
    }
    if (word.starts_with(kFile)) {
      return Script(word.substr(kFile.size()), folder);
    }
    if (word.starts_with('-')) continue;
    const std::string found = Existing(word, folder);
    if (!found.empty()) return absl::StrCat("script ", found);
  }
  return "";
}

// A line of a key.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

bool IsInterpreter(std::string_view executable) {
  const std::string_view name = WithoutVersion(NameOf(executable));
  return std::find(std::begin(kInterpreters), std::end(kInterpreters), name) !=
         std::end(kInterpreters);
}

std::string ScriptOf(std::string_view executable, const Arguments& arguments,
                     const std::string& folder) {
  if (!IsInterpreter(executable)) return "";
  const std::string_view name = WithoutVersion(NameOf(executable));
  return OneLine(name == "python" || name == "pypy"
                     ? OfPython(arguments, folder)
                     : OfAnother(arguments, folder));
}

std::string ScriptOfProcess(std::string_view executable) {
  if (!IsInterpreter(executable)) return "";
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Arguments arguments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::error_code none;
  return ScriptOf(executable, arguments, fs::current_path(none).string());
}

}  // namespace tjit
