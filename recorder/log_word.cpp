#include "recorder/log_word.h"

#include <charconv>

#include "absl/strings/str_format.h"

namespace tjit {

std::string LogWordOf(std::string_view text) {
  constexpr char kDelete = 0x7f;
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || c == kDelete || c == '=' || c == '%') {
      absl::StrAppendFormat(&word, "%%%02x", byte);
    } else {
      word += c;
    }
  }
  return word;
}

std::string TextOfLogWord(std::string_view word) {
  constexpr int kHexadecimal = 16;
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    unsigned byte = 0;
    const char* const begin = word.data() + i + 1;
    const bool is_escape =
        word[i] == '%' && i + 2 < word.size() &&
        std::from_chars(begin, begin + 2, byte, kHexadecimal).ptr == begin + 2;
    text += is_escape ? static_cast<char>(byte) : word[i];
    if (is_escape) i += 2;
  }
  return text;
}

}  // namespace tjit
