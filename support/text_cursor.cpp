#include "support/text_cursor.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tjit {

void TextCursor::SkipBlanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
    ++at_;
  }
}

void TextCursor::SkipLines() {
  while (true) {
    SkipBlanks();
    if (at_ == text_.size()) return;
    if (text_[at_] == ';') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (text_[at_] == '\n' || text_[at_] == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool TextCursor::Sees(std::string_view word) {
  SkipBlanks();
  return ok() && text_.substr(at_, word.size()) == word;
}

bool TextCursor::Try(std::string_view word) {
  if (!Sees(word)) return false;
  at_ += word.size();
  return true;
}

bool TextCursor::Consume(std::string_view word) {
  return Try(word) || Fail("expected '" + std::string(word) + "'");
}

bool TextCursor::ConsumeName(std::string_view* name) {
  SkipBlanks();
  std::size_t end = at_;
  while (end < text_.size() &&
         (absl::ascii_isalnum(static_cast<unsigned char>(text_[end])) ||
          text_[end] == '_' || text_[end] == '.' || text_[end] == ':')) {
    ++end;
  }
  if (end == at_ ||
      absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) {
    return Fail("expected a name");
  }
  *name = text_.substr(at_, end - at_);
  at_ = end;
  return ok();
}

bool TextCursor::ConsumeQuoted(std::string* text) {
  if (!Consume("\"")) return false;
  const std::size_t end = text_.find_first_of("\"\n", at_);
  if (end == std::string_view::npos || text_[end] != '"') {
    return Fail("expected a closing '\"'");
  }
  *text = std::string(text_.substr(at_, end - at_));
  at_ = end + 1;
  return true;
}

template <class T>
bool TextCursor::ConsumeNumber(T* value) {
  SkipBlanks();
  const std::from_chars_result read =
      std::from_chars(text_.data() + at_, text_.data() + text_.size(), *value);
  if (read.ec == std::errc::result_out_of_range) {
    return Fail("a number that does not fit 64 bits");
  }
  if (read.ec != std::errc()) return Fail("expected a number");
  at_ = static_cast<std::size_t>(read.ptr - text_.data());
  return ok();
}

bool TextCursor::ConsumeInteger(std::int64_t* value) {
  return ConsumeNumber(value);
}

bool TextCursor::ConsumeUnsigned(std::uint64_t* value) {
  return ConsumeNumber(value);
}

bool TextCursor::ConsumeDouble(double* value) {
  SkipBlanks();
  const std::from_chars_result read =
      std::from_chars(text_.data() + at_, text_.data() + text_.size(), *value);
  if (read.ec != std::errc()) return Fail("expected a floating-point number");
  at_ = static_cast<std::size_t>(read.ptr - text_.data());
  return ok();
}

bool TextCursor::ConsumeHex(std::uint64_t* value) {
  const std::from_chars_result read = std::from_chars(
      text_.data() + at_, text_.data() + text_.size(), *value, 16);
  if (read.ec != std::errc()) return Fail("expected a hexadecimal number");
  at_ = static_cast<std::size_t>(read.ptr - text_.data());
  return ok();
}

bool TextCursor::ConsumeEndOfLine() {
  SkipBlanks();
  if (!ok()) return false;
  if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r' &&
      text_[at_] != ';') {
    return Fail("expected the end of the line");
  }
  SkipLines();
  return true;
}

bool TextCursor::AtEnd() {
  SkipLines();
  return at_ == text_.size();
}

bool TextCursor::Fail(std::string_view what) {
  if (!ok()) return false;
  std::size_t line = 1, start = 0;
  for (std::size_t i = 0; i < at_; ++i) {
    if (text_[i] != '\n') continue;
    ++line;
    start = i + 1;
  }
  error_ = absl::StrCat(line, ":", at_ - start + 1, ": ", std::string(what));
  return false;
}

}  // namespace tjit
