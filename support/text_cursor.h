// A place in a text that is being parsed, with the first error met.
//
// Every Take... returns false once an error is set, and sets one where it
// says so; the parser above stops at the first false.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tjit {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // Skips blanks and, between statements, comments and ends of lines.
  void SkipBlanks();
  void SkipLines();

  // Takes `word` if it is next, after blanks.
  bool Try(std::string_view word);
  // The same, an error if it is not.
  bool Consume(std::string_view word);
  // True if `word` is next, after blanks.
  bool Sees(std::string_view word);

  // Letters, digits, `_`, `.` and `:`, the first no digit. Errors if none.
  bool ConsumeName(std::string_view* name);
  // Up to the closing `"`. Errors if there is none on this line.
  bool ConsumeQuoted(std::string* text);
  // Decimal. Errors if there is none or it does not fit.
  bool ConsumeInteger(std::int64_t* value);
  bool ConsumeUnsigned(std::uint64_t* value);
  // A floating-point number or inf. Errors if there is none.
  bool ConsumeDouble(double* value);
  bool ConsumeHex(std::uint64_t* value);

  // Ends of the statement: blanks and a comment, then the end of the line.
  bool ConsumeEndOfLine();
  bool AtEnd();

  // Sets the error "line:column: what" unless there is one. Returns false.
  bool Fail(std::string_view what);
  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t position() const { return at_; }
  void set_position(std::size_t at) { at_ = at; }
  // What is left of the text.
  std::string_view rest() const { return text_.substr(at_); }

 private:
  template <class T>
  bool ConsumeNumber(T* value);

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

}  // namespace tjit
