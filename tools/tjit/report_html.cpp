#include "tools/tjit/report_html.h"

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "recorder/explanation_parts.h"
#include "support/assert.h"

namespace tjit::tools {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";  // U+FFFD

std::string ValueAttribute(const Cell& cell) {
  return cell.value ? absl::StrCat(" data-value=\"", *cell.value, "\"") : "";
}

// Digits in groups of three.
std::string Grouped(std::int64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool begins_group = (digits.size() - i) % 3 == 0;
    if (begins_group && i > 0 && digits[i - 1] != '-') grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string CellHtml(const Column& column, const Cell& cell) {
  return absl::StrCat("<td data-key=\"", column.key, "\"",
                      column.is_number ? " class=\"number\"" : "",
                      ValueAttribute(cell), ">", cell.html, "</td>");
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (is_control && c != '\n' && c != '\t') {
      safe += kReplacement;
    } else {
      safe += c;
    }
  }
  return absl::StrReplaceAll(safe, {{"&", "&amp;"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"\"", "&quot;"},
                                    {"'", "&#39;"}});
}

std::string Heading(const std::string& id, std::string_view text) {
  return absl::StrCat("<h2 id=\"", id, "\">", Escaped(text), "</h2>\n");
}

std::string Paragraph(std::string_view text) {
  return absl::StrCat("<p>", Escaped(text), "</p>\n");
}

Cell Text(std::string_view text) { return {Escaped(text), std::nullopt}; }

Cell Code(std::string_view text) {
  if (text.empty()) return {};
  return {absl::StrCat("<code>", Escaped(text), "</code>"), std::nullopt};
}

Cell Count(std::int64_t value) { return {Grouped(value), value}; }

Cell Duration(std::int64_t ns) {
  return {absl::StrCat(ns < 0 ? "-" : "", DurationText(ns)), ns};
}

Cell MeasuredTime(std::int64_t ns) {
  return ns == 0 ? Cell{"not measured", 0} : Duration(ns);
}

Cell Bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB",
                                                 "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(size) >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  return {absl::StrFormat("%.4g %s", size, kUnits[unit]), bytes};
}

Cell Share(std::int64_t part, std::int64_t whole) {
  return {PercentText(part, whole), part};
}

Table::Table(std::string id, std::string caption, std::vector<Column> columns)
    : id_(std::move(id)),
      caption_(std::move(caption)),
      columns_(std::move(columns)) {}

void Table::AddRow(std::vector<Cell> cells) {
  TJIT_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::HeadHtml() const {
  std::string html = "<thead><tr>";
  for (const Column& column : columns_) {
    absl::StrAppend(&html, "<th scope=\"col\" data-key=\"", column.key, "\"",
                    column.is_number ? " class=\"number\"" : "",
                    "><button type=\"button\">", Escaped(column.title),
                    "</button></th>");
  }
  return html + "</tr></thead>";
}

std::string Table::Html() const {
  // The keyboard reaches what is wider than the window by the tabindex.
  std::string html = absl::StrCat(
      "<div class=\"scroll\" tabindex=\"0\"><table class=\"sortable\" id=\"",
      id_, "\">\n<caption><span>", Escaped(caption_), "</span></caption>",
      HeadHtml(), "\n<tbody>\n");
  for (const std::vector<Cell>& row : rows_) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += CellHtml(columns_[i], row[i]);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string Bar(const std::string& id, const std::string& caption,
                const std::vector<BarPart>& parts, Cell (*show)(std::int64_t)) {
  std::int64_t whole = 0;
  for (const BarPart& part : parts) whole += part.value;
  if (whole <= 0) return "";
  std::string bar, rows;
  for (const BarPart& part : parts) {
    const double percent =
        100.0 * static_cast<double>(part.value) / static_cast<double>(whole);
    if (part.value > 0) {
      absl::StrAppendFormat(
          &bar, "<span class=\"part%d\" style=\"width:%.3f%%\"></span>",
          part.color, percent);
    }
    const Cell cell = show(part.value);
    absl::StrAppend(
        &rows, "<tr><td data-key=\"part\"><span class=\"swatch part",
        part.color, "\"></span>", Escaped(part.name),
        "</td><td class=\"number\" data-key=\"", part.key, "\"",
        ValueAttribute(cell), ">", cell.html, "</td><td class=\"number\">",
        PercentText(part.value, whole), "</td></tr>\n");
  }
  return absl::StrCat(
      "<div class=\"bar\" aria-hidden=\"true\">", bar,
      "</div>\n<div class=\"scroll\" tabindex=\"0\"><table id=\"", id,
      "\">\n<caption><span>", Escaped(caption), "</span></caption><tbody>\n",
      rows, "</tbody></table></div>\n");
}

std::string Tile(const std::string& key, const std::string& name,
                 const Cell& cell) {
  return absl::StrCat("<div class=\"tile\"><dt>", Escaped(name),
                      "</dt><dd data-key=\"", key, "\"", ValueAttribute(cell),
                      ">", cell.html, "</dd></div>\n");
}

}  // namespace tjit::tools
