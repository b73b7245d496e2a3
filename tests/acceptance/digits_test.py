"""Runs examples/digits with tjit off and on and compares everything.

What it proves: all parameters, buffers, optimizer state and losses are equal
bit for bit with one thread and with two; after the first epoch at least 90 %
of the ops are replayed, the median op in a segment of 64 or more, with at
most four flushes a step beside the program's own item() calls; broken data
ends with a message that names file and line.

Usage: digits_test.py DIGITS_PROGRAM DATA_FILE [unittest arguments]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from clean_environment import is_passed_on

PROGRAM = DATA = None
EPOCHS, STEPS = 5, 24
EPOCH_LINE = re.compile(
    r"epoch (\d+): loss (\S+), accuracy (\S+), \S+ ms per step")


def run(folder, on, threads=1, data=None, epochs=EPOCHS, dump=None, **extra):
    """Runs the program without any TJIT_ variable of the caller's."""
    env = {k: v for k, v in os.environ.items() if is_passed_on(k)}
    # Waiting threads sleep: spinning ones starve each other on a busy machine.
    env.update(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive",
               TJIT_PROFILE="off")
    if on:
        env["TJIT_AUTO_COMPILE"] = "1"
    env.update(extra)
    command = [PROGRAM, str(data or DATA), str(epochs)]
    if dump:
        command.append(str(pathlib.Path(folder) / dump))
    return subprocess.run(command, env=env, cwd=folder, text=True,
                          capture_output=True, timeout=300, check=False)


def records(path):
    """The bytes of each record of a torch::save archive, by short name."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name)
                for name in archive.namelist()}


def median_segment(counters):
    """Lower bound of the bin in which the median replayed op ran."""
    bins = counters["segment_ops"]
    seen = 0
    for exponent, ops in enumerate(bins):
        seen += ops
        if 2 * seen >= sum(bins) > 0:
            return 1 << exponent
    return 0


class DigitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.runs = {}
        for threads in (1, 2):
            for on in (False, True):
                name = f"{'on' if on else 'off'}{threads}"
                cls.runs[on, threads] = run(
                    cls.folder.name, on, threads, dump=name,
                    TJIT_STATS=name + ".stats.json")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def counters(self, threads):
        return json.loads(self.path(f"on{threads}.json").read_text())

    def test_runs(self):
        for key, done in self.runs.items():
            self.assertEqual(done.returncode, 0, (key, done.stderr))
            lines = EPOCH_LINE.findall(done.stdout)
            self.assertEqual(len(lines), EPOCHS, done.stdout)
            # It learns: a wrong gradient would show here even if both
            # runs had it.
            self.assertLess(float(lines[-1][1]), 0.25)
            self.assertGreater(float(lines[-1][2]), 0.85)

    def test_same_bits(self):
        for threads in (1, 2):
            off, on = records(self.path(f"off{threads}")), records(
                self.path(f"on{threads}"))
            self.assertEqual(off.keys(), on.keys())
            # 6 buffers, losses, 8 parameters with three records each.
            tensors = [n for n in off if n.startswith("data/")]
            self.assertGreaterEqual(len(tensors), 30)
            different = [n for n in off if off[n] != on[n]]
            self.assertEqual(different, [], f"with {threads} thread(s)")

    def test_same_bits_with_compiled_groups(self):
        done = run(self.folder.name, True, dump="groups",
                   TJIT_BACKEND="interpreter", TJIT_STATS="groups.stats.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        off, on = records(self.path("off1")), records(self.path("groups"))
        self.assertEqual([n for n in off if off[n] != on[n]], [])
        stats = json.loads(self.path("groups.stats.json").read_text())
        self.assertGreater(stats["groups_run"], EPOCHS * STEPS, stats)
        self.assertGreater(stats["steps_fused"], 0.2 * stats["ops_replayed"])

    def test_same_lines(self):
        for threads in (1, 2):
            self.assertEqual(
                EPOCH_LINE.findall(self.runs[False, threads].stdout),
                EPOCH_LINE.findall(self.runs[True, threads].stdout))

    def test_replays(self):
        for threads in (1, 2):
            did = self.counters(threads)
            self.assertGreater(did["ops_seen"], (EPOCHS - 1) * STEPS * 50)
            self.assertGreaterEqual(did["ops_replayed"],
                                    0.9 * did["ops_seen"], did)
            self.assertGreaterEqual(median_segment(did), 64, did)

    def test_counters_add_up(self):
        for threads in (1, 2):
            stats = json.loads(
                self.path(f"on{threads}.stats.json").read_text())
            self.assertEqual(
                stats["ops_seen"], stats["ops_eager"] +
                stats["ops_replayed"] + stats["ops_drained"], stats)
            self.assertGreater(stats["ops_replayed"],
                               self.counters(threads)["ops_replayed"] - 1)

    def test_flushes(self):
        for threads in (1, 2):
            flushes = self.counters(threads)["flushes"]
            others = sum(flushes.values()) - flushes.get("item", 0)
            self.assertLessEqual(others, 4 * (EPOCHS - 1) * STEPS, flushes)

    def test_says_what_it_did(self):
        self.assertNotIn("tjit:", self.runs[False, 1].stdout)
        said = self.runs[True, 1].stdout
        self.assertRegex(said, r"tjit: [1-9]\d* sequences found, [1-9]\d* "
                               r"promoted; after epoch 1 \d+\.\d % of \d+ ops")
        self.assertRegex(said, r"speed-up \d+\.\d\dx: a step took")


class BadDataTest(unittest.TestCase):
    def check(self, text, expected, on):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "images.csv"
            if text is not None:
                path.write_text(text)
            done = run(folder, on, data=path, epochs=1)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertIn(f"digits: {path}{expected}", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_bad_data(self):
        good = pathlib.Path(DATA).read_text().splitlines(keepends=True)
        row = good[0].strip()

        def broken(at, line):
            return "".join(good[:at - 1] + [line + "\n"] + good[at:])

        cases = {
            "missing file": (None, ": cannot be opened"),
            "empty file": ("", ":0: ends too early"),
            "too short": ("".join(good[:100]), ":100: ends too early"),
            "pixel out of range": (broken(7, "17" + row[row.index(","):]),
                                   ":7: value 1 is wrong"),
            "not a number": (broken(1797, row[:-1] + "x"),
                             ":1797: value 65 is wrong"),
            "short line": (broken(1, "1,2,3"), ":1: value 3 is wrong"),
            "long line": (broken(2, row + ",1"), ":2: value 65 is wrong"),
            "empty line": (broken(3, ""), ":3: value 1 is wrong"),
            "other separator": (broken(4, row.replace(",", ";", 1)),
                                ":4: value 1 is wrong"),
        }
        for name, (text, expected) in cases.items():
            with self.subTest(name):
                self.check(text, expected, on=False)
        self.check(cases["short line"][0], ":1: value 3 is wrong", on=True)


if __name__ == "__main__":
    PROGRAM, DATA = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
