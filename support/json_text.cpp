#include "support/json_text.h"

#include "absl/strings/str_format.h"

namespace tjit {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", c);
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

std::string JsonObject(const std::map<std::string, std::string>& texts) {
  std::string json = "{";
  for (const auto& [name, text] : texts) {
    if (json.size() > 1) json += ", ";
    json += Quoted(name) + ": " + Quoted(text);
  }
  return json + "}";
}

}  // namespace tjit
