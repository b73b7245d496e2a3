"""Rows W of the benchmarks run, tjit sees their ops, and they keep eager's bits.

They need not engage: bench/run.py measures how far they do.

Usage: habits_smoke_test.py FOLDER_OF_PROGRAMS TORCH_FOLDER [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment
from torch_python import torch_python

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))
import rows_w  # pylint: disable=wrong-import-position

STEPS = 40  # of each row before its results are compared
ON = {"TJIT_HOT_THRESHOLD": "2"}
PROGRAMS = TORCH = None


def run(command, env):
    """Google Benchmark's records of one process."""
    done = subprocess.run(command, env=env, text=True, capture_output=True,
                          timeout=300, check=True)
    return json.loads(done.stdout)["benchmarks"]


class HabitsSmokeTest(unittest.TestCase):
    def test_programs(self):
        flags = ["--benchmark_format=json", f"--warm_up={STEPS}"]
        on = run([PROGRAMS / "bench_habits", *flags],
                 environment(TJIT_AUTO_COMPILE="1", **ON))
        off = run([PROGRAMS / "bench_habits_plain", *flags], environment())
        self.assertEqual(tuple(r["name"].split("/")[1] for r in on),
                         rows_w.NAMES)
        for ours, eager in zip(on, off, strict=True):
            with self.subTest(ours["name"]):
                self.assertGreater(ours["ops"], 0)
                self.assertEqual(ours["name"], eager["name"])
                self.assertEqual(ours["label"], eager["label"])

    def test_python(self):
        python = torch_python(TORCH)
        tjit = PROGRAMS / "tjit"
        if python is None or not tjit.exists():
            self.skipTest("no Python has this torch, or tjit is not built")
        habits = [str(python), "-W", "ignore", str(BENCH / "habits.py")]
        listed = subprocess.run([*habits, "--list"], env=environment(),
                                text=True, capture_output=True, timeout=60,
                                check=True)
        self.assertEqual(tuple(listed.stdout.split()), rows_w.PYTHON_NAMES)
        with tempfile.TemporaryDirectory() as folder:
            stats = pathlib.Path(folder) / "stats.json"
            for row in rows_w.PYTHON_NAMES:
                command = [*habits, row, f"--warm_up={STEPS}", "--steps=0",
                           "--repetitions=1"]
                eager, = run(command, environment())
                ours, = run([tjit, "run", f"--stats={stats}", "--", *command],
                            environment(**ON))
                with self.subTest(row):
                    self.assertEqual(ours["label"], eager["label"])
                    counted = json.loads(stats.read_text())
                    self.assertGreater(counted["ops_seen"], 0)
                stats.unlink(missing_ok=True)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    TORCH = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
