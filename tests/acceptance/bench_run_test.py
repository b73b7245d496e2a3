"""`bench/run.py` keeps what it has measured when it is stopped.

What it proves: stopped by SIGTERM, SIGINT or SIGKILL, the samples so far are in
the folder and --print shows them; --resume measures what is missing and nothing
twice, and gives the report that a run that is not stopped gives; a run of
another commit, or a damaged file, is named and left alone.

The benchmark programs are scripts: each call takes a line of a file, and the
one that the test names waits.

Usage: bench_run_test.py [unittest arguments]
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "run.py"
PROGRAM = """#!{python}
import json, os, pathlib, sys, time
calls = pathlib.Path({calls!r})
with calls.open("a") as file:
    file.write(sys.argv[0] + "\\n")
number = len(calls.read_text().splitlines())
waits = pathlib.Path({waits!r})
if waits.exists() and number == int(waits.read_text()):
    time.sleep(60)
name = sys.argv[1].split("^")[1].replace("\\\\", "") + "less"
print(json.dumps({{"context": {{"libtorch": "L", "compiler": "C"}},
    "benchmarks": [{{"name": name, "run_type": "iteration",
                     "real_time": 2.0 if "plain" in sys.argv[0] else 1.0,
                     "label": "bits", "ops": 10, "replayed": 1.0,
                     "segments": 1.0, "median_segment": 8}}]}}))
"""
PROCESSES = 8  # of two rounds of row 9: E, E+, tjit, floor


class BenchRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        self.waits = self.folder / "waits"
        (self.folder / "bin").mkdir()
        for name in ("bench_inference", "bench_inference_plain"):
            path = self.folder / "bin" / name
            path.write_text(PROGRAM.format(
                python=sys.executable, calls=str(self.calls),
                waits=str(self.waits)))
            path.chmod(0o755)
        self.out = self.folder / "out"

    def command(self, *options):
        return [sys.executable, RUN, "--build", self.folder, "--rows", "9",
                "--rounds", "2", "--out", self.out, *options]

    def run_py(self, *options):
        return subprocess.run(self.command(*options), text=True,
                              capture_output=True, timeout=60, check=False)

    def count(self):
        return len(self.calls.read_text().splitlines())

    def stop(self, at, with_signal):
        """Stops a run while its process number `at` runs; its status."""
        self.calls.unlink(missing_ok=True)
        self.waits.write_text(str(at))
        with subprocess.Popen(self.command(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            while not self.calls.exists() or self.count() < at:
                time.sleep(0.02)
            running.send_signal(with_signal)
            self.said = running.communicate(timeout=60)
        self.waits.unlink()
        return running.returncode

    def table(self):
        report = (self.out / "results.md").read_text()
        return [line for line in report.splitlines() if line.startswith("|")]

    def test_a_whole_run(self):
        done = self.run_py()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.count(), PROCESSES)
        self.assertIn("| 9 mlp-tiny | 2.00", done.stdout)
        self.assertIn("- libtorch: L", done.stdout)

    def test_stopped_and_resumed(self):
        self.run_py()
        whole = self.table()
        for name, status in (("SIGTERM", 130), ("SIGINT", 130),
                             ("SIGKILL", -signal.SIGKILL)):
            with self.subTest(name):
                # In the second round: the fifth process waits.
                self.assertEqual(
                    self.stop(5, getattr(signal, name)), status, self.said)
                rows = json.loads((self.out / "results.json").read_text())
                self.assertEqual(rows["rows"][0]["us"]["E"]["samples"], 1)
                if status == 130:
                    self.assertIn("| 9 mlp-tiny | 2.00", self.said[0])
                    self.assertIn("has 4 samples; the same command with "
                                  "--resume goes on", self.said[1])
                done = self.run_py("--print")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("| 9 mlp-tiny | 2.00", done.stdout)
                self.assertEqual(self.count(), 5)
                done = self.run_py("--resume")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.count(), PROCESSES + 1)
                self.assertEqual(self.table(), whole)

    def test_stopped_before_a_line_was_whole(self):
        self.assertEqual(self.stop(2, signal.SIGTERM), 130, self.said)
        self.assertIn("- not measured yet: 1 of 1 lines", self.said[0])
        self.assertEqual(
            len((self.out / "samples.jsonl").read_text().splitlines()), 2)

    def test_half_a_line_is_measured_again(self):
        self.run_py()
        path = self.out / "samples.jsonl"
        path.write_text(path.read_text()[:-20])
        done = self.run_py("--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.count(), PROCESSES + 1)

    def test_what_cannot_be_resumed(self):
        done = self.run_py("--resume")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot read ", done.stderr)
        self.run_py()
        path = self.out / "samples.jsonl"
        good = path.read_text()
        for text, said in (
                (good.replace('"threads": 1', '"threads": 3', 1),
                 "is of a run with threads 3, this one has 1: leave out "
                 "--resume to begin anew"),
                (good.replace('"peer"', '"peer', 1), "samples.jsonl:2: "),
                ("{}\n", "does not begin with what was run")):
            with self.subTest(said):
                path.write_text(text)
                done = self.run_py("--resume")
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
                self.assertEqual(path.read_text(), text)
        done = self.run_py("--resume", "--print")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
