"""TJIT_DUMP shows each stage of compiling, `tjit graph` reads what it shows.

What it proves: a program with TJIT_BACKEND=llvm dumps the trace, the functions
before and behind each pass, loops, plan, LLVM's IR and assembly of every
segment, and computes what it computes without; the functions parse back and
become text, DOT and well-formed SVG; TJIT_BACKEND=torchscript dumps graphs; the example of docs/looking-inside.md is
what comes out; each part alone gives no other; bad values, files that cannot
be written or read are named; TJIT_PERF_MAP names kernels; gdb, where it is
installed, stops in a kernel by the name that dump and map have.

Usage: dump_test.py TJIT_COMMAND BIN_FOLDER DOCUMENT [unittest arguments]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

from clean_environment import environment

TJIT = BIN = DOCUMENT = None
USAGE = 2
PARTS = ("trace", "ir", "passes", "loops", "plan", "llvm", "asm",
         "torchscript")
ON = {"TJIT_AUTO_COMPILE": "1", "TJIT_COMPILE": "1", "TJIT_BACKEND": "llvm"}
PASSES = ("fold", "peephole", "cse", "dce", "copy_out", "order_dims",
          "simplify_access")


def run(*command, stdin=None, **variables):
    return subprocess.run([str(c) for c in command],
                          env=environment(**variables), text=True,
                          input=stdin, capture_output=True, timeout=120,
                          check=False)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "dump.txt"

    def program(self, **variables):
        """Runs a program whose segment is compiled."""
        done = run(BIN / "dumped_loop", "tier2", **{**ON, **variables})
        self.assertEqual(done.returncode, 7, done.stderr)
        return done

    def dump(self, parts, **variables):
        done = self.program(TJIT_DUMP=parts, TJIT_DUMP_FILE=str(self.file),
                            **variables)
        self.assertEqual(done.stderr, "")
        return self.file.read_text(), done.stdout

    def graph(self, *arguments, **keywords):
        done = run(TJIT, "graph", *arguments, **keywords)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


def sections(text):
    """(title, content) of each section."""
    parts = re.split(r"^; ==== (.*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


class DumpTest(Case):
    def test_every_part_is_there(self):
        eager = run(BIN / "dumped_loop")
        text, printed = self.dump("all")
        self.assertEqual(printed, eager.stdout)
        found = dict(sections(text))
        self.assertRegex(found["segment 1 trace"],
                         r"  s0: external \d+ bytes\n(.*\n)*"
                         r"  %\d+ aten::relu\(s\d+ f32\[32,16\]\) -> ")
        lowered = found["segment 1 group 1 lowered"]
        self.assertRegex(lowered, r"; group of .*%\d+ aten::relu")
        self.assertRegex(lowered, r"; name %0 = s\d+\n")
        self.assertIn("\nfunc group(", lowered)
        changed = {name: found[f"segment 1 group 1 pass {name}"]
                   for name in PASSES}
        self.assertIn("(unchanged)\n", changed.values())
        self.assertTrue(any("func group(" in c for c in changed.values()), text)
        self.assertRegex(found["segment 1 group 1 loops"],
                         r"(?m)^ *loop pointwise \[")
        self.assertRegex(found["segment 1 plan"],
                         r"(?m)^  call aten::mm\n(.*\n)*"
                         r"  arena of \d+ bytes\n")
        self.assertIn("  group 1\n", found["segment 1 plan"])
        final = found["segment 1 group 1 final"]
        name = re.search(r"func (\w+)\(", final).group(1)
        self.assertIn("relu", name)
        self.assertRegex(found["segment 1 group 1 llvm"],
                         rf"define void @tjit_{name}\(")
        self.assertRegex(found["segment 1 group 1 asm"],
                         rf"(?m)^tjit_{name}:\n")
        self.assertNotIn("define void", found["segment 1 group 1 asm"])

    def test_each_part_alone(self):
        titles = {"trace": "trace", "ir": "lowered|final", "passes": "pass .*",
                  "loops": "loops", "plan": "plan", "llvm": "llvm",
                  "asm": "asm", "torchscript": "torchscript"}
        for part in PARTS:
            with self.subTest(part):
                backend = part if part == "torchscript" else "llvm"
                text, _ = self.dump(part, TJIT_BACKEND=backend)
                found = [title for title, _ in sections(text)]
                self.assertGreater(len(found), 0)
                for title in found:
                    self.assertRegex(
                        title, rf"^segment \d+( group \d+)? "
                        rf"({titles[part]}|kernel)$")

    def test_the_interpreter_has_no_code(self):
        text, _ = self.dump("ir,llvm", TJIT_BACKEND="interpreter")
        found = dict(sections(text))
        self.assertIn("func ", found["segment 1 group 1 final"])
        self.assertTrue(found["segment 1 group 1 llvm"].startswith("(none: "))

    def test_the_graphs_of_torchscript(self):
        eager = run(BIN / "dumped_loop")
        text, printed = self.dump("all", TJIT_BACKEND="torchscript")
        self.assertEqual(printed, eager.stdout)
        found = dict(sections(text))
        self.assertNotIn("segment 1 group 1 lowered", found)
        self.assertNotIn("segment 1 group 1 llvm", found)
        graph = found["segment 1 group 1 torchscript"]
        self.assertRegex(graph, r"^; group of %0 aten::\w+, (.*, )?%\d+ aten::mm")
        self.assertRegex(graph, r"\ngraph\(%s\d+ : Float\(")
        self.assertRegex(graph, r" = aten::relu\(%s\d+\)\n")
        self.assertIn("  group 1\n", found["segment 1 plan"])

    def test_plans_do_not_depend_on_when_they_are_made(self):
        """Before or behind the runs that learn what convolutions allocate."""
        plans = []
        for variables in (ON, {**ON, "TJIT_COMPILE": "0"}):
            done = run(BIN / "dumped_loop", "tier2", "convolutions",
                       **variables, TJIT_CACHE_DIR="off", TJIT_DUMP="plan",
                       TJIT_DUMP_FILE=str(self.file))
            self.assertEqual((done.returncode, done.stderr), (7, ""))
            plans.append(dict(sections(self.file.read_text())))
            self.file.unlink()
        self.assertEqual(*plans)
        plan = plans[0]["segment 1 plan"]
        self.assertIn("  call aten::convolution\n", plan)
        self.assertNotIn("scratch of", plan)

    def test_nothing_is_compiled_by_replay(self):
        done = run(BIN / "dumped_loop", **{**ON, "TJIT_BACKEND": "replay"},
                   TJIT_DUMP="all", TJIT_DUMP_FILE=str(self.file))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertFalse(self.file.exists())

    def test_stderr_is_the_default(self):
        text, _ = self.dump("ir")
        done = self.program(TJIT_DUMP="ir")
        self.assertEqual(done.stderr, text)

    def test_a_config_file_can_ask(self):
        config = self.folder / "tjit.yaml"
        config.write_text(f"dump: ir\ndump_file: {self.file}\n")
        self.program(TJIT_CONFIG=str(config))
        self.assertIn("; ==== segment 1 group 1 final", self.file.read_text())

    def test_bad_values(self):
        for value in ("", "ir,", "graphs", "ir passes"):
            done = self.program(TJIT_DUMP=value)
            self.assertEqual(
                done.stderr, f"tjit: TJIT_DUMP={value} is not used, accepted "
                f"is all, or some of {', '.join(PARTS)} with commas between\n")

    def test_a_file_that_cannot_be_written(self):
        for path, why in (("/no/such/file", "No such file or directory"),
                          (str(self.folder), "Is a directory"),
                          ("/dev/full", "No space left on device")):
            done = self.program(TJIT_DUMP="all", TJIT_DUMP_FILE=path)
            self.assertEqual(
                done.stderr, f"tjit: TJIT_DUMP_FILE: cannot write \"{path}\": "
                f"{why}; the dump is lost\n")


class PerfTest(Case):
    def test_kernels_have_names(self):
        for value, expected in (("1", True), ("0", False)):
            with self.subTest(value):
                process = subprocess.Popen(
                    [BIN / "dumped_loop", "tier2"], text=True,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "OMP_NUM_THREADS": "1", **ON,
                         "TJIT_PERF_MAP": value})
                process.communicate(timeout=120)
                self.assertEqual(process.returncode, 7)
                path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
                self.assertEqual(path.exists(), expected)
                if not expected:
                    continue
                self.addCleanup(path.unlink)
                self.assertRegex(path.read_text(),
                                 r"(?m)^[0-9a-f]+ [0-9a-f]+ tjit_\w*relu")


    def test_a_link_in_the_folder_of_everybody_is_not_followed(self):
        mine = self.folder / "mine.txt"
        mine.write_text("mine\n")

        def plant():
            os.symlink(mine, f"/tmp/perf-{os.getpid()}.map")

        process = subprocess.Popen(
            [BIN / "dumped_loop", "tier2"], text=True, preexec_fn=plant,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(TJIT_PERF_MAP="1", **ON))
        link = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        self.addCleanup(link.unlink)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 7)
        self.assertEqual(mine.read_text(), "mine\n")
        self.assertEqual(err, f'tjit: TJIT_PERF_MAP: cannot write "{link}":'
                         " Too many levels of symbolic links; perf will not "
                         "know kernels\n")


class GdbTest(Case):
    """Whether gdb could see it, without gdb: llvm_debugger_test.cpp."""

    def gdb(self, *commands, **variables):
        gdb = shutil.which("gdb")
        if gdb is None:
            self.skipTest("gdb is not installed")
        arguments = [part for c in commands for part in ("-ex", c)]
        done = run(gdb, "-nx", "-batch", "-ex", "set breakpoint pending on",
                   "-ex", "set debuginfod enabled off", *arguments, "--args",
                   BIN / "dumped_loop", "tier2", **{**ON, **variables})
        if "ptrace: Operation not permitted" in done.stderr:
            self.skipTest("the system lets no process be debugged")
        return done.stdout + done.stderr

    def test_a_kernel_is_stopped_in_by_its_name(self):
        text, _ = self.dump("asm")
        names = re.findall(r"(?m)^(tjit_\w*relu\w*):$", text)
        self.assertGreater(len(names), 0, text)
        seen = self.gdb(f"break {names[0]}", "run", "info symbol $pc",
                        "print/x $pc", "info inferiors", "backtrace", "kill",
                        TJIT_PERF_MAP="1")
        self.assertIn(f"\n{names[0]} in section ", seen)
        self.assertRegex(seen, rf"(?m)^#0 .*\b{names[0]} ?\(")
        # The same function as perf sees.
        pc = re.search(r"(?m)^\$1 = 0x(\w+)$", seen).group(1)
        pid = re.search(r"(?m)^\* 1 +process (\d+)", seen).group(1)
        path = pathlib.Path(f"/tmp/perf-{pid}.map")
        self.addCleanup(path.unlink)
        at = [name for start, size, name in map(str.split, path.open())
              if 0 <= int(pc, 16) - int(start, 16) < int(size, 16)]
        self.assertEqual(at, [names[0]])


class GraphTest(Case):
    def test_functions_parse_back(self):
        text, _ = self.dump("ir,passes")
        functions = [(title, content) for title, content in sections(text)
                     if "\nfunc " in "\n" + content]
        self.assertGreater(len(functions), 2)
        listed = self.graph("--list", self.file).splitlines()
        self.assertEqual(len(listed), len(functions))
        for (title, _), line in zip(functions, listed):
            self.assertRegex(line, rf"^\d+: {title}, \d+ ops$")
        printed = self.graph(self.file)
        self.assertEqual(self.graph("-", stdin=printed), printed)
        for i in range(len(functions)):
            dot = self.graph("--dot", f"--pick={i + 1}", self.file)
            self.assertTrue(dot.startswith("digraph "), dot)
            svg = self.graph("--svg", f"--pick={i + 1}", self.file)
            drawn = xml.dom.minidom.parseString(svg)
            content = functions[i][1]
            ops = len(re.findall(r"^  %", content, flags=re.M))
            boxes = len(drawn.getElementsByTagName("rect"))
            self.assertGreater(boxes, ops)

    def test_command_line(self):
        self.dump("ir,passes")
        for text, *arguments in (
                ("no file given",),
                ("one file is wanted", "a", "b"),
                ("unknown option --png; accepted are --text, --dot, --svg, "
                 "--list, --pick=N and --help", "--png", "a"),
                ("--pick=0: accepted is a number from 1 on", "--pick=0", "a"),
                ("--pick=x: accepted is a number", "--pick=x", "a"),
                ("cannot read /no/such: No such file", "/no/such"),
                (f"cannot read {BIN}: Is a directory", BIN),
                (f"{self.file} has ", "--svg", self.file),
                (f"{self.file} has ", "--pick=99", self.file)):
            with self.subTest(text):
                self.refused(text, *arguments)
        self.assertIn("usage: tjit graph", self.graph("--help"))

    def refused(self, text, *arguments):
        done = run(TJIT, "graph", *arguments)
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertIn("tjit graph: " + text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_files_that_are_none(self):
        for text, said in (
                ("", ":1:1: expected 'func'"),
                ("words\n", ":1:1: expected 'func'"),
                ("func f() {\n  %0 = ad f32[1]\n}\n",
                 ":2:8: there is no op 'ad'"),
                ("\x7fELF\x01\x02", ":1:1: expected 'func'"),
                ("; ==== segment 1 trace\n", ":1:1: a dump without a "
                 "function: it takes TJIT_DUMP=ir or passes")):
            with self.subTest(text):
                self.file.write_text(text)
                self.refused(f"{self.file}{said}", self.file)


class DocumentTest(Case):
    """Blocks of the document behind `<!-- dump_test: TITLE -->`."""

    def test_examples(self):
        text, _ = self.dump("all")
        found = dict(sections(text))
        functions = [t for t, c in sections(text) if "\nfunc " in "\n" + c]
        pick = functions.index("segment 1 group 1 final") + 1
        found["graph"] = self.graph(f"--pick={pick}", self.file)
        text, _ = self.dump("torchscript", TJIT_BACKEND="torchscript")
        found["torchscript"] = sections(text)[0][1]
        document = DOCUMENT.read_text()

        def block(match):
            content = found[match.group(2)]
            return f"{match.group(1)}```text\n{content}```\n"

        pattern = r"(<!-- dump_test: (.*) -->\n)```text\n(?:.*\n)*?```\n"
        self.assertGreater(len(re.findall(pattern, document)), 3)
        fresh = re.sub(pattern, block, document)
        if os.environ.get("TJIT_BLESS") == "1":
            DOCUMENT.write_text(fresh)
            return
        self.maxDiff = None
        self.assertEqual(document, fresh, "TJIT_BLESS=1 writes it")


if __name__ == "__main__":
    TJIT, BIN, DOCUMENT = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
