#!/usr/bin/env python3
"""Checks two promises of ARCHITECTURE.md.

docs_test.sh runs it. The promises are:

- The reading list names at most ten files, which are there and have at most 1,500
  lines together.
- Each word in the glossary's third column occurs in the code.

The checks are tried on planted mistakes first.

Usage: docs_test_architecture.py <project folder>
"""

import pathlib
import re
import sys

MOST_FILES = 10
MOST_LINES = 1500
LIST = re.compile(r"<!-- reading list -->\n(.*?)<!-- end of it -->", re.DOTALL)
ITEM = re.compile(r"^\d+\. \[[^\]]*\]\(([^)]+)\)", re.MULTILINE)
GLOSSARY = re.compile(r"^## \d+\. Glossary$(.*?)^## ", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (?!term |---)(.*?) \| .*? \| (.*?) \|$", re.MULTILINE)
WORD = re.compile(r"`([A-Za-z0-9_]+)`")
CODE_FOLDERS = ("support", "recorder", "compiler", "runtime")
CODE_SUFFIXES = {".h", ".cpp", ".def"}


def too_long(document, lines_of):
    """`lines_of`: the number of a file's lines, None where it is not there."""
    found = LIST.search(document)
    files = ITEM.findall(found.group(1)) if found else []
    if not files:
        return ["there is no reading list"]
    mistakes = [f"the reading list names {file}, which is not there"
                for file in files if lines_of(file) is None]
    if len(files) > MOST_FILES:
        mistakes.append(f"the reading list has {len(files)} files")
    lines = sum(lines_of(file) or 0 for file in files)
    if lines > MOST_LINES:
        mistakes.append(f"the reading list has {lines} lines, not {MOST_LINES}: " +
                        ", ".join(f"{file} {lines_of(file)}" for file in files))
    return mistakes


def strange_words(document, known):
    """`known`: all words of the code."""
    found = GLOSSARY.search(document)
    rows = ROW.findall(found.group(1)) if found else []
    if not rows:
        return ["there is no glossary"]
    mistakes = []
    for term, cell in rows:
        words = WORD.findall(cell)
        if not words:
            mistakes.append(f"the glossary does not say where '{term}' is in code")
        mistakes += [f"the glossary has '{term}' as {word}, which no code has"
                     for word in words if word not in known]
    return mistakes


def list_of(*files):
    items = "".join(f"{i}. [x]({file}): x\n" for i, file in enumerate(files, 1))
    return f"<!-- reading list -->\n{items}<!-- end of it -->\n"


def try_checks():
    lines_of = {"a": 1500, "b": 1}.get
    good = list_of("a")
    bad = (list_of("a", "b"), list_of("c"), list_of(*["b"] * 11), list_of(), "")
    if too_long(good, lines_of) or not all(too_long(d, lines_of) for d in bad):
        yield "the check of the reading list does not work"
    head = "## 7. Glossary\n\n| term | meaning | in code |\n|---|---|---|\n"
    good = head + "| fork | a place | `kFork`, `Fork` |\n\n## 8.\n"
    bad = (good.replace("Fork`", "Tine`"), good.replace("`", ""), head + "## 8.\n")
    known = {"kFork", "Fork"}
    if strange_words(good, known) or not all(strange_words(d, known) for d in bad):
        yield "the check of the glossary does not work"


def main():
    root = pathlib.Path(sys.argv[1])
    document = (root / "ARCHITECTURE.md").read_text()

    def lines_of(file):
        path = root / file
        return len(path.read_text().splitlines()) if path.is_file() else None

    known = set()
    for folder in CODE_FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.suffix in CODE_SUFFIXES:
                known.update(re.findall(r"\w+", path.read_text(errors="replace")))
    failures = [*try_checks(), *too_long(document, lines_of),
                *strange_words(document, known)]
    for failure in failures:
        print(f"FAILED: ARCHITECTURE.md: {failure}")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
