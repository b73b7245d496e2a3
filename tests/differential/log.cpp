// Comparison of logs. See log.h.
#include "tests/differential/log.h"

#include <algorithm>
#include <cstring>

namespace tjit::differential {
namespace {

std::string Hex(const std::string& bytes, std::size_t from, std::size_t count) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = from + count; i-- > from;) {  // little endian
    unsigned char c = i < bytes.size() ? bytes[i] : 0;
    text += {kDigits[c >> 4], kDigits[c & 15]};
  }
  if (count == sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + from, sizeof value);
    text += " (" + std::to_string(value) + ")";
  }
  return text;
}

std::string Place(const LogEntry& entry) {
  std::string place = "iteration " + std::to_string(entry.it);
  if (entry.statement >= 0) {
    place += ", statement " + std::to_string(entry.statement);
  }
  return place + ": " + entry.what;
}

bool IsNan(const LogEntry& e, std::size_t from) {
  if (e.fraction_bits == 0) return false;
  std::uint64_t bits = 0;  // little endian
  std::memcpy(&bits, &e.bytes[from], static_cast<std::size_t>(e.element_bytes));
  const std::uint64_t sign = std::uint64_t{1} << (8 * e.element_bytes - 1);
  const std::uint64_t infinity = sign - (std::uint64_t{1} << e.fraction_bits);
  return (bits & (sign - 1)) > infinity;
}

// "" if only NaNs differ that are equal.
std::string ByteDifference(const LogEntry& a, const LogEntry& b, Nans nans) {
  std::size_t size = std::min(a.bytes.size(), b.bytes.size());
  std::size_t width = static_cast<std::size_t>(a.element_bytes);
  std::size_t differing = 0;
  std::size_t first = size;
  for (std::size_t i = 0; i + width <= size; i += width) {
    if (std::memcmp(&a.bytes[i], &b.bytes[i], width) == 0) continue;
    if (nans == Nans::kAreEqual && IsNan(a, i) && IsNan(b, i)) continue;
    if (first == size) first = i;
    ++differing;
  }
  if (first == size) {
    return a.bytes.size() == b.bytes.size() ? "" : "another number of bytes";
  }
  return std::to_string(differing) + " of " + std::to_string(size / width) +
         " elements, first [" + std::to_string(first / width) + "]: eager " +
         Hex(a.bytes, first, width) + ", tested " + Hex(b.bytes, first, width);
}

// Without what the sign of a NaN shows: its minus and the width of its column.
std::string WithoutNanSigns(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (c == ' ' && (plain.empty() || plain.back() == ' ')) continue;
    plain += c;
  }
  for (auto at = plain.find("-nan"); at != std::string::npos;
       at = plain.find("-nan", at)) {
    plain.erase(at, 1);
  }
  return plain;
}

bool IsSameText(const std::string& a, const std::string& b, Nans nans) {
  if (a == b) return true;
  if (nans != Nans::kAreEqual || a.find("nan") == std::string::npos) {
    return false;
  }
  return WithoutNanSigns(a) == WithoutNanSigns(b);
}

}  // namespace

std::string FirstDifference(const Log& eager, const Log& other, Nans nans) {
  std::size_t size = std::min(eager.size(), other.size());
  for (std::size_t i = 0; i < size; ++i) {
    const LogEntry& a = eager[i];
    const LogEntry& b = other[i];
    if (a.it != b.it || a.statement != b.statement || a.what != b.what) {
      return "other events: eager " + Place(a) + " " + a.text + "; tested " +
             Place(b) + " " + b.text;
    }
    if (!IsSameText(a.text, b.text, nans)) {
      return Place(a) + ": eager " + a.text + "; tested " + b.text;
    }
    if (a.bytes == b.bytes) continue;
    const std::string difference = ByteDifference(a, b, nans);
    if (!difference.empty()) return Place(a) + ": " + difference;
  }
  if (eager.size() == other.size()) return "";
  const Log& longer = eager.size() > size ? eager : other;
  return std::string("only in ") + (&longer == &eager ? "eager" : "tested") +
         ": " + Place(longer[size]) + " " + longer[size].text;
}

}  // namespace tjit::differential
