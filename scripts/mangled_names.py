#!/usr/bin/env python3
"""The mangled names in runtime/intercept/direct_calls.def and interposed.def,
from the symbols that libtorch defines.

scripts/mangled_names.py [--write] LIBRARY...

Without --write it compares the two files with the libraries (libtorch_cpu.so,
libc10.so), prints what differs, and ends with status 1 if anything does. With
--write it writes the names into the files. Only the names are written:

  direct_calls.def   the name behind the op, in a line TJIT_DIRECT...(op, name.
                     The name is that of at::_ops::op::call().
  interposed.def     the lines that stand under a comment. The comment's last
                     line is a function as `nm -DC` prints it, where * stands
                     for any text; each function that it fits gets a line.

To add a function, write its line with an empty name, and run the script.
Tested by: tests/setup/mangled_names_test.py
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = pathlib.Path("runtime/intercept")
DIRECT = re.compile(r"^(TJIT_DIRECT\w*\((?:at::Tensor&?, )?)(\w+), \w*", re.M)
GROUP = re.compile(r"^// (.+)\n((?:TJIT_\w+\(\w*\)\n)+)", re.M)


class Problem(Exception):
    pass


def run(*command):
    try:
        return subprocess.run(command, text=True, capture_output=True,
                              check=True).stdout
    except OSError as error:
        raise Problem(f"{command[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise Problem(error.stderr.strip()) from error


def symbols_of(libraries):
    """Mangled -> demangled, of all functions that the libraries define."""
    nm = [os.environ.get("NM", "nm"), "-D", "-p", "-P", "--defined-only"]
    names = {}
    for library in libraries:
        mangled, plain = ([line.split(" ", 1)[0] if not flags else line
                           for line in run(*nm, *flags, library).splitlines()]
                          for flags in ([], ["-C"]))
        for name, line in zip(mangled, plain):
            # "at::mm(at::Tensor const&) T 1234 5678"
            names[name] = re.sub(r" [A-Za-z]( [0-9a-f]*)*$", "", line)
    return names


def direct_calls(text, symbols):
    calls = {}
    for name in symbols:
        found = re.match(r"_ZN2at4_ops(\d+)(\w+)", name)
        if found:
            length = int(found[1])
            op, rest = found[2][:length], found[2][length:]
            if rest.startswith("4callE"):
                calls[op] = name

    def line(found):
        if found[2] not in calls:
            raise Problem(f"at::_ops::{found[2]}::call is in no library")
        return f"{found[1]}{found[2]}, {calls[found[2]]}"
    return DIRECT.sub(line, text)


def interposed(text, symbols):
    def group(found):
        parts = map(re.escape, found[1].split("*"))
        function = re.compile(".*".join(parts))
        names = sorted(mangled for mangled, plain in symbols.items()
                       if function.fullmatch(plain))
        if not names:
            raise Problem(f"{found[1]} is in no library")
        macro = found[2].split("(", 1)[0]
        lines = [f"{macro}({name})\n" for name in names]
        return f"// {found[1]}\n{''.join(lines)}"
    return GROUP.sub(group, text)


def main():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--source", type=pathlib.Path, default=ROOT)
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    arguments = parser.parse_args()
    symbols = symbols_of(arguments.libraries)
    status = 0
    for name, rule in (("direct_calls.def", direct_calls),
                       ("interposed.def", interposed)):
        file = arguments.source / FOLDER / name
        before = file.read_text()
        after = rule(before, symbols)
        if arguments.write:
            if after != before:
                file.write_text(after)
                print(f"{FOLDER / name}: written")
            continue
        old, new = before.splitlines(), after.splitlines()
        for line in [l for l in old if l not in new]:
            print(f"{FOLDER / name}: not as the libraries say: {line}")
        for line in [l for l in new if l not in old]:
            print(f"{FOLDER / name}: missing: {line}")
        status |= before != after
    if status:
        print("The names are written by: scripts/mangled_names.py --write "
              + " ".join(arguments.libraries))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(f"mangled_names.py: {problem}")
