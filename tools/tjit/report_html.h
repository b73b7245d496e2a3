// The parts that the page of `tjit report` is written with: text, tables, bars.
//
// Whatever comes from a run passes through Escaped() here, so that a program
// whose name is "<script>" is only shown.
//   Table table("eager", "Ops that ran eagerly", {{"op", "Op"},
//                                                 {"calls", "Calls", true}});
//   table.AddRow({Text("aten::mul"), Count(3)});
//   page += table.Html();
// A column's first name stands in the page as data-key, and the value behind a
// number as data-value, for tests and for whoever reads the page by a program.
// Tested by: tests/acceptance/report_test.py
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tjit::tools {

// For text between tags and in quoted attributes. Bytes that HTML forbids
// become U+FFFD.
std::string Escaped(std::string_view text);

// `<h2 id="memory">Memory</h2>`.
std::string Heading(const std::string& id, std::string_view text);
std::string Paragraph(std::string_view text);

struct Cell {
  std::string html;
  std::optional<std::int64_t> value;  // by which rows are sorted
};
Cell Text(std::string_view text);
Cell Code(std::string_view text);
Cell Count(std::int64_t value);      // "12,345"
Cell Duration(std::int64_t ns);      // "1.5 ms", "-1.5 ms"
Cell MeasuredTime(std::int64_t ns);  // as Duration; 0: "not measured"
Cell Bytes(std::int64_t bytes);      // "1.5 MiB"
Cell Share(std::int64_t part, std::int64_t whole);  // "12.5 %", by `part`

struct Column {
  std::string key;
  std::string title;
  bool is_number = false;
};

class Table {
 public:
  Table(std::string id, std::string caption, std::vector<Column> columns);
  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<Cell> cells);
  bool is_empty() const { return rows_.empty(); }
  // With a button in each head, by which the rows are sorted.
  std::string Html() const;

 private:
  std::string HeadHtml() const;

  const std::string id_, caption_;
  const std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

constexpr int kGray = 4;
struct BarPart {
  std::string key;
  std::string name;
  std::int64_t value = 0;
  int color = kGray;  // of those in report_assets.cpp
};

// A bar of parts, and a table that says in words and figures what they are.
// `show`: how a value is written. A bar of nothing is left out.
std::string Bar(const std::string& id, const std::string& caption,
                const std::vector<BarPart>& parts, Cell (*show)(std::int64_t));

// A figure with its name, for the head of the page.
std::string Tile(const std::string& key, const std::string& name,
                 const Cell& cell);

}  // namespace tjit::tools
