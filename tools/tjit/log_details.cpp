#include "tools/tjit/log_details.h"

#include <cstddef>

#include "absl/strings/numbers.h"

namespace tjit::tools {

std::string ValueOf(const std::string& details, const std::string& name) {
  std::size_t at = details.find(name + "=");
  if (at == std::string::npos) return {};
  at += name.size() + 1;
  return details.substr(at, details.find(' ', at) - at);
}

std::int64_t NumberOf(const std::string& details, const std::string& name) {
  std::int64_t number = 0;
  return absl::SimpleAtoi(ValueOf(details, name), &number) ? number : 0;
}

std::string OpsOf(const std::string& details) {
  const std::size_t last = details.rfind('=');
  const std::size_t space = details.find(' ', last);
  return space == std::string::npos ? "" : details.substr(space + 1);
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace tjit::tools
