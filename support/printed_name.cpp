#include "support/printed_name.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tjit {
namespace {

bool IsAlnum(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c));
}

bool IsBare(char c) {
  return IsAlnum(c) || std::string_view("_.:/-").find(c) != std::string::npos;
}

// Bytes of the character that begins there, 0 if that is no UTF-8.
std::size_t CharacterAt(std::string_view text, std::size_t at) {
  struct Form {
    unsigned char mask, mark;
    std::uint32_t least;
  };
  constexpr Form kForms[] = {{0x80, 0x00, 0},
                             {0xe0, 0xc0, 0x80},
                             {0xf0, 0xe0, 0x800},
                             {0xf8, 0xf0, 0x10000}};
  const auto first = static_cast<unsigned char>(text[at]);
  for (std::size_t more = 0; more < std::size(kForms); ++more) {
    const Form& form = kForms[more];
    if ((first & form.mask) != form.mark) continue;
    if (at + more >= text.size()) return 0;
    std::uint32_t code = first & static_cast<unsigned char>(~form.mask);
    for (std::size_t i = 1; i <= more; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xc0) != 0x80) return 0;
      code = code << 6 | (next & 0x3f);
    }
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < form.least || code > 0x10ffff || is_surrogate ? 0 : more + 1;
  }
  return 0;
}

}  // namespace

std::string WhatIsWrongWithName(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kLongestName) {
    return absl::StrCat("has ", name.size(), " bytes; ", kLongestName,
                        " are accepted");
  }
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t bytes = CharacterAt(name, at);
    if (bytes == 0) return absl::StrCat("is no UTF-8 at byte ", at);
    at += bytes;
  }
  return "";
}

std::string PrintedName(std::string_view name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), IsBare)) {
    return std::string(name);
  }
  return absl::StrCat("\"", absl::Utf8SafeCEscape(std::string(name)), "\"");
}

bool ConsumePrintedName(TextCursor* cursor, std::string* name) {
  cursor->SkipBlanks();
  const std::string_view rest = cursor->rest();
  const std::size_t begin = cursor->position();
  if (rest.empty() || rest[0] != '"') {
    const std::size_t size = static_cast<std::size_t>(
        std::find_if_not(rest.begin(), rest.end(), IsBare) - rest.begin());
    if (size == 0) return cursor->Fail("expected a name");
    *name = rest.substr(0, size);
    cursor->set_position(begin + size);
    return cursor->ok();
  }
  std::size_t end = 1;
  while (end < rest.size() && rest[end] != '"' && rest[end] != '\n') {
    end += rest[end] == '\\' ? 2 : 1;
  }
  if (end >= rest.size() || rest[end] != '"') {
    return cursor->Fail("expected a closing '\"'");
  }
  std::string error;
  if (!absl::CUnescape(std::string(rest.substr(1, end - 1)), name, &error)) {
    return cursor->Fail(absl::StrCat("a quoted name: ", error));
  }
  cursor->set_position(begin + end + 1);
  return cursor->ok();
}

std::string IdentifierOf(std::string_view name) {
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !IsAlnum(c); }, '_');
  return text;
}

}  // namespace tjit
