#!/usr/bin/env python3
"""Checks that what comments and documents cite is there.

docs_test.sh runs it. It checks these citations:

- `Tested by:`. Each test that stands behind it is a file of the project. A name
  without a folder is in the folder of the name before it.
- `Note [X]`. A note begins a line of a comment: `// Note [X]. The text.` Whoever
  cites a note names one that exists, and the file that he names has it.
- paths and documents in comments. A path from the root of the project leads to
  a file. A comment names no document outside the project.
- headings in documents. A link to `page.md#heading` finds that heading.

Documents cite notes, too.

The checks are tried on planted mistakes first.

Usage: docs_test_citations.py <project folder>
"""

import fnmatch
import os
import pathlib
import posixpath
import re
import sys

THIS_FILE = pathlib.Path(__file__).name
SUFFIXES = {".md", ".h", ".cpp", ".def", ".py", ".sh", ".cmake", ".txt", ".inc"}
COMMENT = re.compile(r"^\s*(?://+|#)(?!include|define|if|el|endif|pragma) ?(.*)$")
TESTED = re.compile(r"Tested by:(.*?)(?:Source:|Tested by:|$)")
# A path below one of the folders with tests, or a file that is called a test.
TEST = re.compile(r"(?:tests|bench)/[A-Za-z0-9_./{},*-]*[A-Za-z0-9_/*]"
                  r"|[a-z0-9_]+_test\.(?:cpp|py|sh)\b")
BRACES = re.compile(r"\{([^{}]*)\}")
PATH = re.compile(r"(?<![A-Za-z0-9_./-])(?:bench|cmake|compiler|docs|examples"
                  r"|recorder|runtime|scripts|support|tests|tools)/"
                  r"[A-Za-z0-9_/-]+\.(?:cpp|h|def|py|sh|cmake|txt|md)\b")
HEADING = re.compile(r"^Note \[([^\]]+)\](?:[.:] .+|)$")
CITED = re.compile(r"Note \[([^\]]+)\](?:\)?,? (?:in |\()?([A-Za-z0-9_./]+\.(?:h"
                   r"|cpp|def))\b)?")
DOCUMENT = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z0-9_./-]+\.md)\b")
LINK = re.compile(r"\]\(([\w./-]*(?<=\.md)|)#([^)]+)\)")
# What lies outside the project, and what nobody finds who has the project only.
OUTSIDE = re.compile(r"(?<![A-Za-z0-9_./])(?:shared/|\.\./shared|[Ii]ssue \d+"
                     r"|[Hh]azards? [A-Z]?\d+)")


class Comment:
    """Lines of one comment, without what makes them one."""

    def __init__(self, path, line):
        self.path, self.line, self.lines = path, line, []

    def text(self):
        return " ".join(line.strip() for line in self.lines)


def plain(text):
    """A document without blocks of code, and links without their targets."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(text.split()))


def anchors_of(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def comments_of(path, text):
    found, comment = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = COMMENT.match(line)
        if not match:
            comment = None
            continue
        if comment is None:
            comment = Comment(path, number)
            found.append(comment)
        comment.lines.append(match.group(1))
    return found


class Project:
    """The names of all files, comments of code, and texts of documents."""

    def __init__(self, files):
        self.files = set(files)
        self.documents = {name: text for name, text in files.items()
                          if name.endswith(".md")}
        self.folders = {str(parent) for name in files
                        for parent in pathlib.PurePosixPath(name).parents}
        self.comments = [comment for name, text in files.items() if text
                         if not name.endswith(".md")
                         for comment in comments_of(name, text)]

    def has(self, name):
        if "*" in name:
            return bool(fnmatch.filter(self.files, name))
        return name in self.files or name.rstrip("/") in self.folders

    def ends_with(self, name):
        return {file for file in self.files
                if file == name or file.endswith("/" + name)}


def without_braces(name):
    match = BRACES.search(name)
    if not match:
        return [name]
    return [whole for choice in match.group(1).split(",")
            for whole in without_braces(name[:match.start()] + choice +
                                        name[match.end():])]


def untested(project):
    for comment in project.comments:
        for text in TESTED.findall(comment.text()):
            folder = ""
            names = TEST.findall(text)
            for name in [one for name in names for one in without_braces(name)]:
                name = name if "/" in name else folder + name
                folder = name[:name.rindex("/") + 1] if "/" in name else ""
                if not project.has(name):
                    yield f"{comment.path}: Tested by: {name} is not there"
            if not names:
                yield f"{comment.path}: Tested by: names no test ({text.strip()})"


def unwritten_notes(project):
    where = {}  # by title: the files with that note
    for comment in project.comments:
        for number, line in enumerate(comment.lines):
            match = HEADING.match(line)
            is_last = number + 1 == len(comment.lines)
            if match and not (is_last and line.endswith("]")):
                where.setdefault(match.group(1), set()).add(comment.path)
    texts = [(comment.path, comment.text()) for comment in project.comments]
    texts += [(name, plain(text)) for name, text in project.documents.items()]
    for path, text in texts:
        for title, file in CITED.findall(text):
            if title not in where:
                yield f"{path} cites Note [{title}], which nobody wrote"
            elif file and not project.ends_with(file) & where[title]:
                yield (f"{path} looks for Note [{title}] in {file}, but "
                       f"{', '.join(sorted(where[title]))} has it")
    if not where:
        yield "no notes were found at all"


def outside_documents(project):
    for comment in project.comments:
        text = comment.text()
        for match in OUTSIDE.finditer(text):
            yield f"{comment.path} cites {match.group(0)}, outside the project"
        for name in PATH.findall(text):
            if not project.has(name):
                yield f"{comment.path} names {name}, which is not there"
        for name in DOCUMENT.findall(text):
            if not project.ends_with(name):
                yield f"{comment.path} cites {name}, which is not there"


def missing_headings(project):
    for name, text in project.documents.items():
        for target, anchor in LINK.findall(text):
            folder = posixpath.dirname(name)
            page = posixpath.normpath(posixpath.join(folder, target)) \
                if target else name
            if anchor not in anchors_of(project.documents.get(page, "")):
                yield f"{name} links to {target}#{anchor}, which is not there"


CHECKS = (untested, unwritten_notes, outside_documents, missing_headings)

GOOD = {
    "a.h": "// Note [A]. It says a thing.\n// Tested by: tests/a_test.cpp,\n"
           "// b_test.cpp (all of c.h), tests/files/, tests/{a,b}_test.cpp,\n"
           "// tests/*_test.cpp\n",
    "b.h": "// See Note [A] in a.h, Note\n// [A] and README.md.\n",
    "tests/a_test.cpp": "", "tests/b_test.cpp": "", "tests/files/x": "",
    "README.md": "# Its `name`, and more\nSee Note [A] in [a.h](a.h),\n"
                 "[this](#its-name-and-more) and [more](docs/b.md#b).\n",
    "docs/b.md": "## B\n[up](../README.md#its-name-and-more)\n",
}
BAD = (
    (untested, "// Tested by: tests/c_test.cpp\n"),
    (untested, "// Tested by: tests/a_test.cpp,\n// c_test.cpp\n"),
    (untested, "// Any thread. Tested by:\n// tests/{a,c}_test.cpp\n"),
    (untested, "// Tested by: its users\n"),
    (unwritten_notes, "// See Note\n// [B].\nint b;\n"),
    (unwritten_notes, "// Note [B].\nint b;\n"),
    (unwritten_notes, "// See Note [A] in b.h.\n"),
    (outside_documents, "// as next.md says\n"),
    (outside_documents, "# as issue 7 says\n"),
    (outside_documents, "// See tests/c_test.cpp.\n"),
    (missing_headings, "[x](README.md#its-name)\n"),
    (missing_headings, "[x](#c)\n"),
    (unwritten_notes, "[x](a.h) has Note [B].\n"),
    (unwritten_notes, "[x](a.h) and Note [A] in\n[b.h](b.h).\n"),
)


def try_checks():
    for check in CHECKS:
        for mistake in check(Project(GOOD)):
            yield f"{check.__name__} finds a mistake where none is: {mistake}"
    for check, text in BAD:
        name = "c.md" if text.startswith("[") else "c.h"
        if not list(check(Project({**GOOD, name: text}))):
            yield f"{check.__name__} takes {text!r}"


def files_of(root):
    files = {}
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below
                    if name != "build" and not name.startswith(".")]
        for name in names:
            path = pathlib.Path(folder, name)
            # The planted mistakes are no citations.
            is_read = path.suffix in SUFFIXES and path.name != THIS_FILE
            files[path.relative_to(root).as_posix()] = \
                path.read_text(errors="replace") if is_read else ""
    return files


def main():
    failures = list(try_checks())
    project = Project(files_of(pathlib.Path(sys.argv[1])))
    for check in CHECKS:
        failures += check(project)
    for failure in failures:
        print(f"FAILED: {failure}")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
