#!/usr/bin/env python3
"""Builds tjit for several libtorch and LLVM, runs a short list of tests with
each, and writes docs/compatibility.md from what came out.

scripts/compatibility.py [--llvm N] [--folder DIR] [--build DIR] [--jobs N]
    [TORCH]...

TORCH is a version (2.14.1, 2.13.0+cpu), `newest` (what pip offers), or a
libtorch's folder; without one: 2.13.0+cpu, 2.14.1 and newest. A version is
fetched by pip into DIR/venv-VERSION. --llvm builds with that version of LLVM
instead of the newest that cmake/TjitLlvm.cmake takes. Builds lie in
DIR/build-VERSION; DIR is build/compatibility. --build names one that is there
already, of the one TORCH. Rows of what is not tried this
time stay. Each build takes as long as scripts/quickstart.sh says and a bit for
the tests; status 1 if something failed, and the table says what.
Tested by: tests/setup/compatibility_test.py
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "compatibility.md"
DEFAULT_TORCHES = ["2.13.0+cpu", "2.14.1", "newest"]

TARGETS = ["tjit_command", "tjit_preload", "digits", "unmodified", "embed"]
# Replays, machine code, modes, the API, single ops, the examples as they
# are, by the API and in Python.
TESTS = ["replay_test", "tier2_test", "modes_test", "front_door_test",
         "library_calls_test", "digits_test", "examples_test"]
NOT_TARGETS = ("digits_test", "examples_test")

HEAD = """# Compatibility

<!-- written by scripts/compatibility.py -->

tjit reaches into libtorch, so a build serves exactly the libtorch that it was
built for, told by build-ids; with any other it stays out of the way
(`tjit doctor` says which one a program loads, `tjit --version` which one a
build serves). This is what `scripts/compatibility.py` has built it for. *Tests*
are those that passed of
{tests}.

The column *CUDA* says whether the libtorch was built with CUDA. No machine with a
GPU was at hand, so what was tried there is that tjit builds and that programs on
the CPU are served.

| libtorch | build-id | CUDA | LLVM | compiler, system | builds | tests | commit |
|---|---|---|---|---|---|---|---|
"""
ROW = re.compile(r"^\| (\d[^|]*) \| `[0-9a-f]*` \| [^|]* \| ([^|]*) \|.*\|$")


def say(text):
    print(f"\n== {text}", flush=True)


def run(*command, **options):
    return subprocess.run([str(c) for c in command], text=True, check=False,
                          **options)


def output(*command):
    return run(*command, stdout=subprocess.PIPE,
               stderr=subprocess.DEVNULL).stdout.strip()


def fail(text):
    sys.exit(f"compatibility.py: {text}")


def newest():
    text = output(sys.executable, "-m", "pip", "index", "versions", "torch")
    match = re.search(r"^torch \(([^)]+)\)", text, re.M)
    return match.group(1) if match else fail(
        "pip does not say which torch is the newest; name a version")


def fetch(version, folder):
    """The torch package of that version; fetched if it is not there."""
    venv = folder / f"venv-{version}"
    packages = "lib/python*/site-packages/torch"
    if not list(venv.glob(packages)):
        say(f"fetching torch {version} into {venv}")
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin" / "python", "-m", "pip",
            "--disable-pip-version-check", "install", "-q", f"torch=={version}")
    found = list(venv.glob(packages))
    return found[0] if found else fail(
        f"pip could not install torch {version} (see above)")


def facts_of(torch):
    """version, build-id and "yes" or "no": with CUDA?"""
    library = torch / "lib" / "libtorch_cpu.so"
    notes = output("readelf", "-n", library)
    build_id = re.search("Build ID: ([0-9a-f]+)", notes)
    version = ""
    for name in ("version.py", "build-version"):
        if (torch / name).exists():
            text = (torch / name).read_text()
            match = re.search(r"^__version__ = '(.*)'|^(\d\S*)$", text, re.M)
            version = version or (match.group(1) or match.group(2))
    if not version:
        fail(f"{torch} does not say its version")
    return (version, build_id.group(1) if build_id else "",
            "yes" if (torch / "lib" / "libtorch_cuda.so").exists() else "no")


def build(torch, folder, llvm, jobs):
    """Returns "yes" or what failed."""
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Release", f"-DTJIT_TORCH={torch}"]
    if llvm:
        configure.append(f"-DTJIT_LLVM_CONFIG=llvm-config-{llvm}")
    if run(*configure).returncode != 0:
        return "no: cmake failed"
    targets = TARGETS + [t for t in TESTS if t not in NOT_TARGETS]
    if run("cmake", "--build", folder, "--parallel", jobs, "--target",
           *targets).returncode != 0:
        return "no: the compiler stopped"
    return "yes"


def test(folder):
    """Returns "7 of 7", with the names of those that failed."""
    pattern = "^(" + "|".join(TESTS) + ")$"
    done = run("ctest", "--test-dir", folder, "-R", pattern,
               stdout=subprocess.PIPE)
    print(done.stdout)
    passed = re.findall(r"Test +#\d+: (\S+) \.+ +Passed", done.stdout)
    rest = [name for name in TESTS if name not in passed]
    return f"{len(passed)} of {len(TESTS)}" + (
        f"; not {', '.join(rest)}" if rest else "")


def commit():
    head = output("git", "-C", ROOT, "rev-parse", "--short=8", "HEAD")
    changes = output("git", "-C", ROOT, "status", "--porcelain",
                     "--untracked-files=no", "--", ".",
                     f":!{DOCUMENT.relative_to(ROOT)}")
    return head + (" with changes" if changes else "")


def system():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("PRETTY_NAME="):
            name = line.split("=", 1)[1].strip('"')
    compiler = output(os.environ.get("CXX", "c++"), "-dumpfullversion")
    return f"g++ {compiler}, {name}"


def try_one(torch, options):
    """The row of the table."""
    version, build_id, cuda = facts_of(torch)
    suffix = f"-llvm{options.llvm}" if options.llvm else ""
    folder = options.build or options.folder / f"build-{version}{suffix}"
    say(f"libtorch {version} in {torch}, build in {folder}")
    builds = build(torch, folder, options.llvm, options.jobs)
    tests = "none" if builds != "yes" else test(folder)
    llvm = re.search(r"^LLVM (.*)$", output(folder / "bin" / "tjit",
                                            "--version"), re.M) \
        if builds == "yes" else None
    llvm = llvm.group(1) if llvm else f"{options.llvm or 'newest'}"
    return (f"| {version} | `{build_id[:12]}` | {cuda} | {llvm} | {system()} "
            f"| {builds} | {tests} | {commit()} |")


def write(rows, document):
    """The rows, and those of the document that are of something else."""
    def key(row):
        return ROW.match(row).groups()
    old = document.read_text().splitlines() if document.exists() else []
    table = {key(row): row for row in old if ROW.match(row)}
    table.update({key(row): row for row in rows})
    numbers = {k: ([int(n) for n in re.findall(r"\d+", k[0])],
                   [int(n) for n in re.findall(r"\d+", k[1])]) for k in table}
    tests = textwrap.fill(", ".join(f"`{name}`" for name in TESTS), 79)
    lines = [table[k] for k in sorted(table, key=numbers.get)]
    document.write_text(HEAD.format(tests=tests) + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("\n\n")[1], description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n")[2])
    parser.add_argument("torches", nargs="*", metavar="TORCH")
    parser.add_argument("--llvm", type=int)
    parser.add_argument("--folder", type=pathlib.Path,
                        default=ROOT / "build" / "compatibility")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--document", type=pathlib.Path, default=DOCUMENT)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    failed = False
    for name in options.torches or DEFAULT_TORCHES:
        name = newest() if name == "newest" else name
        torch = pathlib.Path(name).resolve() if "/" in name else \
            fetch(name, options.folder)
        row = try_one(torch, options)
        failed = failed or f"| yes | {len(TESTS)} of {len(TESTS)} |" not in row
        print(row)
        write([row], options.document)
    sys.exit(failed)


if __name__ == "__main__":
    main()
