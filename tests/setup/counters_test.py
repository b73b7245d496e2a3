#!/usr/bin/env python3
"""docs/counters.md lists what support/'s tables list.

What it proves: the page has each counter, flush reason and bail reason of
counters.def, flush_reasons.def, backward_reasons.def and bail_reasons.def, in
their order and with their texts, and nothing else; behind each counter, flush
reason and backward reason stands what to do. A self-test changes a name, a text and an order in memory.

Usage: counters_test.py <project folder>
"""
import pathlib
import re
import sys

TEXT = r'"((?:[^"\\]|\\.)*)"'
TABLES = (  # heading of the page, table, pattern of a row: cells of the page
    ("All counters", "counters.def", rf"TJIT_COUNTER\((\w+),\s*{TEXT}\)"),
    ("Flushes", "flush_reasons.def",
     rf"TJIT_FLUSH_REASON\(\w+,\s*(\w+),\s*{TEXT}\)"),
    ("Backward passes", "backward_reasons.def",
     rf"TJIT_BACKWARD_REASON\(\w+,\s*(\w+),\s*{TEXT}\)"),
    ("Side exits", "bail_reasons.def",
     rf"TJIT_BAIL\(\w+,\s*(\w+),\s*(\w+),\s*{TEXT},\s*{TEXT}\)"),
)


def section(page, heading):
  found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
  return found[1] if found else ""


def differences(page, texts):
  """What the page says and the tables do not, or the other way round."""
  result = []
  for heading, name, pattern in TABLES:
    wanted = re.findall(pattern, texts[name])
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", section(page, heading),
                      re.M)
    if len(wanted) < 10:
      result.append(f"{name} has only {len(wanted)} rows")
    if name == "bail_reasons.def":
      items = re.sub(r"\n  (?=\S)", " ", section(page, heading))
      remedies = re.findall(r"^- `(\w+)`: (.*)$", items, re.M)
      if remedies != [(row[0], row[3]) for row in wanted]:
        result.append(f"the remedies below '{heading}' are not those of {name}")
      wanted = [(row[0], row[2], row[1]) for row in wanted]
    said = [row[:len(wanted[0])] for row in rows]
    result += [f"'{heading}' lacks {row} of {name}"
               for row in wanted if row not in said]
    result += [f"'{heading}' has {row}, {name} does not"
               for row in said if row not in wanted]
    if not result and said != list(wanted):
      result.append(f"'{heading}' is not in the order of {name}")
    result += [f"'{heading}' does not say what to do about {row[0]}"
               for row in rows if not row[2].strip()]
  return result


def self_test(page, texts):
  first, second = re.findall(r"^\| `ops_\w+` .*\n", page, re.M)[:2]
  changes = {
      "a name": page.replace("| `evictions` |", "| `eviction` |"),
      "a text": page.replace("segments executed by tier 1", "segments of tier 1"),
      "an order": page.replace(first + second, second + first),
      "a reason": re.sub(r"^\| `item` .*\n", "", page, flags=re.M),
      "a remedy": re.sub(r"^- `op_differs`: .*\n", "", page, flags=re.M),
      "a kind": page.replace("| unexpected |", "| expected |"),
  }
  return [f"self-test: {what} of the page is changed, and nothing is said"
          for what, changed in changes.items()
          if changed == page or not differences(changed, texts)]


def main():
  root = pathlib.Path(sys.argv[1])
  page = (root / "docs" / "counters.md").read_text()
  texts = {name: (root / "support" / name).read_text() for _, name, _ in TABLES}
  problems = differences(page, texts) or self_test(page, texts)
  for line in problems:
    print(f"FAILED: {line}")
  if not problems:
    print("docs/counters.md: ok")
  return 1 if problems else 0


if __name__ == "__main__":
  sys.exit(main())
