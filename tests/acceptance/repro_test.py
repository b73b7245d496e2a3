"""Sequences that are asked for as files, and what `tjit replay` says of them.

What it proves: `tjit run --repro=all`, by name and `slow` write what they say,
and the program prints what it prints without; the commands that `tjit explain`,
`tjit explain --why` and `tjit report` print, run as they stand, write the file
of a sequence that was given up and replay it; the times that `tjit replay`
prints are those that the program's own clock measures, and what is faster
follows from them; several files are replayed in one go; what is not written, and
words that are none, are said.

Usage: repro_test.py TJIT BIN_FOLDER TORCH_FOLDER [unittest arguments]
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment
from torch_python import torch_python

TJIT = BIN = PYTHON = None
SAME, USAGE, NO_SEAM = 0, 2, 3
LOOP_OPS = 4
TRIES = 6

# Prints what a step takes by its own clock, in us.
TIMED = """
import statistics, time, torch
torch.manual_seed(0)
x = torch.rand(256, 256) / 128
took = []
with torch.no_grad():
    for i in range(60):
        began = time.perf_counter()
        sum = (((x @ x) @ x) @ x).sum().item()
        took.append(time.perf_counter() - began)
print(1e6 * statistics.median(took))
print(sum.hex())
"""


def run(*words, cwd=None, **variables):
    return subprocess.run([str(word) for word in words], text=True, cwd=cwd,
                          capture_output=True, timeout=200, check=False,
                          env=environment(TJIT_CACHE_DIR="off", **variables))


def times(text):
    """By backend: runs of each kind, eager us, replayed us, what is faster."""
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+) us +([\d.]+) us  (.*)$", text,
                      re.M)
    return {row[0]: (int(row[1]), float(row[2]), float(row[3]), row[4])
            for row in rows}


def results(text):
    """By backend, the last column of the first table."""
    return dict(re.findall(r"^(replay|interpreter|llvm|torchscript) +\d+ +\d+ "
                           r"+\d+  (.*)$", text, re.M))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def written(self, which, *program, folder=None, options=(), **variables):
        """Runs the program; what it says, and the files that are there then."""
        folder = folder or self.folder / "repro"
        done = run(TJIT, "run", f"--repro={which}", f"--repro-dir={folder}",
                   *options, "--", *program, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, sorted(folder.glob("*.tjitseq"))

    def replay(self, *words, status=SAME):
        done = run(TJIT, "replay", *words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def need_seams(self):
        done = run(BIN / "followed_loop", "off", "1", TJIT_AUTO_COMPILE="0")
        if done.returncode == NO_SEAM:
            self.skipTest("this build has no seams for tests")


class WriteTest(Case):
    def test_all_and_by_name(self):
        stats = self.folder / "stats.json"
        loop = BIN / "followed_loop", "threads", "40"
        done, files = self.written("all", *loop,
                                   options=[f"--stats={stats}"])
        sequence, = json.loads(stats.read_text())["sequence_details"]
        self.assertEqual(sequence["ops"], LOOP_OPS)
        file, = files
        self.assertEqual(
            done.stderr, f"tjit: TJIT_REPRO=all: sequence {sequence['name']}, "
            f"{LOOP_OPS} ops; `tjit replay {file}` runs it again\n")
        text = self.replay("--print", file)
        self.assertIn(f"found: nothing; TJIT_REPRO=all: sequence "
                      f"{sequence['name']}, 4 ops\n", text)
        self.assertEqual(re.findall(r"^  %\d+ (\S+)\(", text.split(
            "the run that was asked for:\n")[1], re.M),
            ["aten::mul.Scalar", "aten::tanh", "aten::add.Tensor",
             "aten::mul.Scalar"])
        own = self.folder / "own"
        _, files = self.written(f"0123456789ab,{sequence['name'][:8]}", *loop,
                                folder=own)
        self.assertEqual(len(files), 1)

    def test_each_backend_replays_what_is_written(self):
        done, files = self.written("all", BIN / "differing_loop", "lost_alias")
        self.assertEqual(done.stdout, "done\n")
        self.assertGreaterEqual(len(files), 1)
        bad = self.folder / "repro" / "bad.tjitseq"
        bad.write_text("import torch\n")
        done = run(TJIT, "replay", files[0], bad, files[0])
        self.assertEqual(done.returncode, USAGE)
        self.assertRegex(done.stderr, "^tjit replay: .*/bad.tjitseq is no file of "
                         "a sequence; .*\n$")
        first, last = done.stdout.split("\n\n")[0], done.stdout.split("\n\n")[-1]
        for text in (first, last):
            self.assertEqual(results(text), dict.fromkeys(
                ("replay", "interpreter", "llvm", "torchscript"),
                "the same bits as eager"))
            self.assertEqual(set(times(text)), set(results(text)))
        for words in (["--minimise", "-o", self.folder / "x"], ["--bisect"]):
            done = run(TJIT, "replay", *words, files[0], bad)
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(f"{words[0]} takes one file at a time, not ",
                          done.stderr)

    def test_where_no_folder_is_named(self):
        done = run(BIN / "followed_loop", "threads", "40", cwd=self.folder,
                   TJIT_AUTO_COMPILE="1", TJIT_REPRO="all")
        file, = self.folder.glob("*.tjitseq")
        self.assertIn(f"; `tjit replay {file}` runs it again\n", done.stderr)

    def test_what_is_not_written(self):
        for which, said in (
                ("0123456789ab", "no file was written of 0123456789ab: no "
                 "sequence whose name begins so was replayed to its end; the "
                 "names are in the report of `tjit explain`"),
                ("slow", "no file was written, as no trial found a sequence, or "
                 "the machine code of one, to be slower")):
            done, files = self.written(which, BIN / "followed_loop", "threads",
                                       "40")
            self.assertEqual((done.stderr, files),
                             (f"tjit: TJIT_REPRO={which}: {said}\n", []))
        done, _ = self.written("all", BIN / "followed_loop", "threads", "2")
        self.assertEqual(
            done.stderr, "tjit: TJIT_REPRO=all: no file was written, as no "
            "sequence was replayed to its end; `tjit explain` says why\n")

    def test_words(self):
        accepted = ("is not used, accepted is all, slow, or beginnings of names "
                    "of sequences (1 to 12 of the digits 0-9 and a-f), with "
                    "commas between\n")
        done = run(TJIT, "run", "--repro=fast", "--", "true")
        self.assertEqual((done.returncode, done.stderr),
                         (USAGE, f"tjit run: --repro=fast {accepted}"))
        done = run(BIN / "followed_loop", "threads", "3", TJIT_REPRO="fast")
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"tjit: TJIT_REPRO=fast {accepted}"))


class SlowTest(Case):
    """The seam makes replays slow, so that the trial is lost."""

    def setUp(self):
        super().setUp()
        self.need_seams()
        self.program = (BIN / "followed_loop", "off", "2000")
        self.options = dict(TJIT_HOT_THRESHOLD="4", TJIT_BACKEND="replay",
                            TJIT_TRACE_TRIALS="1", TJIT_THREAD_TRIALS="0")

    def test_slow(self):
        stats = self.folder / "stats.json"
        done, files = self.written("slow", *self.program, **self.options,
                                   options=[f"--stats={stats}"])
        did = json.loads(stats.read_text())
        self.assertEqual(did["traces_switched_off"], 1)
        sequence, = did["sequence_details"]
        self.assertEqual(sequence["state"], "off")
        text = (f"sequence {sequence['name']}, 4 ops, which runs eagerly, as "
                f"that is faster: {sequence['eager_ns'] / 1e3:.2f} us instead of "
                f"{sequence['replay_ns'] / 1e3:.2f} us from run to run")
        self.assertEqual(done.stderr, f"tjit: TJIT_REPRO=slow: {text}; `tjit "
                         f"replay {files[0]}` runs it again\n")
        self.assertEqual(len(files), 1)
        self.assertIn(f"found: nothing; TJIT_REPRO=slow: {text}\n",
                      self.replay("--backend=replay", files[0]))

    def test_the_commands_that_are_printed(self):
        log, stats = self.folder / "run.log", self.folder / "stats.json"
        done = run(TJIT, "run", f"--log={log}", f"--stats={stats}", "--",
                   *self.program, **self.options)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.folder / "report.html"
        run(TJIT, "report", stats, "-o", report)
        printed = re.compile(r"to look into it: `(tjit run .*)`, then "
                             r"`(tjit replay .*)`")
        said = [printed.search(text) for text in (
            run(TJIT, "explain", stats).stdout,
            run(TJIT, "explain", "--why=1", log).stdout,
            html.unescape(report.read_text()))]
        for found in said:
            self.assertIsNotNone(found)
        self.assertEqual(len({found.groups() for found in said}), 1)
        here = self.folder / "here"
        here.mkdir()
        for command in said[0].groups():
            env = environment(TJIT_CACHE_DIR="off", **self.options)
            env["PATH"] = f"{pathlib.Path(TJIT).parent}:{os.environ['PATH']}"
            done = subprocess.run(command, shell=True, text=True, cwd=here,
                                  env=env, capture_output=True, check=False,
                                  timeout=200)
            self.assertEqual(done.returncode, SAME, done.stderr)
        # The loop drops what it computes, so nothing has to be compiled.
        self.assertEqual(len(results(done.stdout)), 4)
        for text in results(done.stdout).values():
            self.assertTrue(text.startswith("the same bits as eager"), text)
        self.assertEqual(len(list((here / "repro").iterdir())), 1)


class TimesTest(Case):
    def test_times_are_those_of_the_program(self):
        if PYTHON is None:
            self.skipTest("no Python interpreter imports the torch of tjit")
        own_us, bits = run(PYTHON, "-c", TIMED).stdout.split()
        done, files = self.written("all", PYTHON, "-c", TIMED)
        self.assertEqual(done.stdout.split()[1], bits)
        # A busy machine slows one more than the other, and not each time.
        for last in range(TRIES):
            text = self.replay("--backend=replay", files[0])
            again_us, _ = run(PYTHON, "-c", TIMED).stdout.split()
            timed, eager_us, replay_us, faster = times(text)["replay"]
            least, most = sorted(map(float, (own_us, again_us)))
            own_us = again_us
            if least / 2 < min(eager_us, replay_us) and (
                    max(eager_us, replay_us) < 2 * most):
                break
        self.assertLess(last, TRIES - 1, f"{text}\n{least} {most}")
        self.assertIn(": 4 ops, written by", text)
        self.assertGreater(timed, 4)
        said = re.fullmatch(r"(?:(replayed|eagerly): ([\d.]+) times as fast|as "
                            r"fast as each other)", faster)
        self.assertIsNotNone(said, faster)
        factor = eager_us / replay_us
        if said[1] is None:
            self.assertLess(abs(factor - 1), 0.035)
        else:
            self.assertAlmostEqual(float(said[2]), factor if said[1] == "replayed"
                                   else 1 / factor, delta=0.02)


if __name__ == "__main__":
    TJIT, BIN, torch = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    PYTHON = torch_python(torch)
    del sys.argv[1:4]
    unittest.main()
