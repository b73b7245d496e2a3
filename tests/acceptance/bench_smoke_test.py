"""Each benchmark program runs, engages tjit and keeps eager's bits.

Usage: bench_smoke_test.py FOLDER_OF_PROGRAMS [unittest arguments]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import is_passed_on

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = None
# Rows that repeat: at least half of their timed ops must be replayed.
REPEATING = {
    "inference": {"row1/chain10-64", "row1/chain10-64k", "row9/mlp-tiny",
                  "rowK2/chain10-sizes-100", "rowK2/mlp-tiny-sizes-100"},
    "products": {"row20/mlp-gt/optim", "row21/mlp-large/fused",
                 "row22/adam-100x1k/optim", "row22/adam-4x1M/fused"},
    "training": {"row18/pinn/optim", "row19/mlp-adam/optim",
                 "row24/block/optim", "row25/deep/optim", "row18/pinn/fused",
                 "row19/mlp-adam/fused"},
    "dispatch_overhead": {"row26/ten-adds", "row26/ten-addmm"},
    "kernels": {"row2/add4", "row4/transc-64k", "row8/reduce-sum"},
    "dense": {"row11/lstm-ops", "row12/decode-tok", "row12/prefill-32"},
    "science": {"row14/elasticity-1", "row15/radial-return-1024",
                "row16/cahn-hilliard-20", "row17/lbm-10",
                "row17/lbm-mrt-10"},
}
# Rows by `--jit`: at least half of their functions' calls must be replayed.
WRAPPED = {
    "inference": {"row1/chain10-64", "row9/mlp-tiny"},
    "products": {"row22/adam-100x1k/optim"},
    "training": {"row18/pinn/optim", "row24/block/optim"},
    "kernels": {"row2/add4"},
    "dense": {"row10/mlp-mnist-64", "row11/lstm-ops", "row12/decode-tok",
              "row12/prefill-32"},
    "science": {"row13/rate-triple-1", "row14/elasticity-1",
                "row15/radial-return-1024", "row16/cahn-hilliard-20",
                "row17/lbm-10", "row17/lbm-mrt-10"},
}
# Rows that do not, or not for long: they must run and agree.
NEVER = {
    "dispatch_overhead": {"row26/random-adds"},
    "never": {"row27a/random-stream", "row27b/growing-shapes",
              "row27c/fibonacci", "row27d/variants"},
}


# Steps that lie in a trial of their sequence (recorder/trace_trial.h) run
# eagerly. Builds for users have no switch for trials.
NEEDS_NO_TRIALS = unittest.skipUnless(
    os.environ.get("TJIT_TRACE_TRIALS") == "0", "TJIT_TRACE_TRIALS is not 0")


def environment(on):
    env = {k: v for k, v in os.environ.items() if is_passed_on(k)}
    if on:
        env["TJIT_AUTO_COMPILE"] = "1"
        env["TJIT_PROFILE"] = "off"
        env["TJIT_HOT_THRESHOLD"] = "2"
    return env


def run(program, rows, on, *flags, min_time=0.5):
    """{row: Google Benchmark's record} of one process."""
    suffix = "" if on else "_plain"
    done = subprocess.run(
        [PROGRAMS / f"bench_{program}{suffix}", "--benchmark_format=json",
         f"--benchmark_min_time={min_time}",
         "--benchmark_filter=^(" + "|".join(sorted(rows)) + ")/", *flags],
        env=environment(on), text=True, capture_output=True, timeout=300,
        check=True)
    report = json.loads(done.stdout)
    assert report["context"]["tjit_enabled"] == ("yes" if on else "no"), report
    found = {}
    for record in report["benchmarks"]:
        row = next(r for r in rows if record["name"].startswith(r + "/"))
        found[row] = record
    return found


class BenchSmokeTest(unittest.TestCase):
    def test_engages(self):
        for program, rows in REPEATING.items():
            on, off = run(program, rows, True), run(program, rows, False)
            self.assertEqual(on.keys(), rows)
            for row in rows:
                with self.subTest(row):
                    self.assertGreaterEqual(on[row]["replayed"], 0.5, on[row])
                    self.assertEqual(on[row]["label"], off[row]["label"])
                    self.assertEqual(off[row]["ops"], 0)

    def test_wrapped_functions(self):
        """Each row's function is replayed, with eager's bits."""
        for program, rows in WRAPPED.items():
            on = run(program, rows, True, "--jit", min_time=0.02)
            off = run(program, rows, False, min_time=0.001)
            self.assertEqual(on.keys(), rows)
            for row in rows:
                with self.subTest(row):
                    self.assertGreaterEqual(on[row]["functions"], 0.5, on[row])
                    self.assertEqual(on[row]["label"], off[row]["label"])

    def test_never(self):
        for program, rows in NEVER.items():
            on, off = run(program, rows, True), run(program, rows, False)
            self.assertEqual(on.keys(), rows)
            for row in rows:
                with self.subTest(row):
                    self.assertGreater(on[row]["ops"], 0, on[row])
                    self.assertEqual(on[row]["label"], off[row]["label"])

    def test_disabled_after_use(self):
        done = run("dispatch_overhead", {"row26/ten-adds"}, False)
        again = subprocess.run(
            [PROGRAMS / "bench_dispatch_overhead", "--benchmark_format=json",
             "--benchmark_min_time=0.5", "--enable_disable",
             "--benchmark_filter=row26/ten-adds"], env=environment(False),
            text=True, capture_output=True, timeout=300, check=True)
        record = json.loads(again.stdout)["benchmarks"][0]
        self.assertEqual(record["label"], done["row26/ten-adds"]["label"])
        self.assertEqual(record["replayed"], 0)
        self.assertGreater(record["sequences"], 0, record)

    @NEEDS_NO_TRIALS
    def test_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, ROOT / "bench" / "memory.py", "--build",
                 PROGRAMS.parent, "--rows", "2,4", "--steps", "12",
                 "--out", folder],
                text=True, capture_output=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(
                (pathlib.Path(folder) / "memory.json").read_text())
        for line in result["rows"]:
            with self.subTest(line["label"]):
                of = line["peers"]
                self.assertTrue(line["same_bits"])
                self.assertEqual(of["E"]["replayed"], 0)
                for name in ("tjit", "tjit llvm"):
                    peer = of[name]
                    self.assertGreaterEqual(2 * peer["replayed"], peer["ops"])
                    # What pending ops keep is counted, too.
                    self.assertLess(line["of_eager"][name], 1.05, peer)
                    self.assertGreater(peer["resident"], peer["peak_bytes"])
                self.assertGreater(of["tjit llvm"]["generator"], 1 << 20)
                self.assertEqual(of["tjit"]["generator"], 0)
        # Eager: inputs, the last result and what the ops make; exactly.
        self.assertEqual(result["rows"][0]["peers"]["E"]["peak_bytes"],
                         7 * 40_000)

    def test_unknown_flag(self):
        done = subprocess.run([PROGRAMS / "bench_never", "--nonsense"],
                              text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown flag --nonsense", done.stderr)

    def test_run_py(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, ROOT / "bench" / "run.py", "--build",
                 PROGRAMS.parent, "--rows", "9", "--rounds", "1",
                 "--min-time", "0.001", "--out", folder],
                text=True, capture_output=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(
                (pathlib.Path(folder) / "results.json").read_text())
            line, = result["rows"]
            self.assertTrue(line["same_bits"])
            self.assertGreaterEqual(line["replayed"], 0.5)
            self.assertIn("9 mlp-tiny",
                          (pathlib.Path(folder) / "results.md").read_text())

    @NEEDS_NO_TRIALS
    def test_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, ROOT / "bench" / "run.py", "--build",
                 PROGRAMS.parent, "--rows", "2,3", "--compiled", "--rounds",
                 "1", "--min-time", "0.1", "--out", folder],
                text=True, capture_output=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(
                (pathlib.Path(folder) / "results.json").read_text())
        targets = {"add4": (3.5, False), "poly": (9.5, True)}
        for line in result["rows"]:
            with self.subTest(line["label"]):
                target, is_less = targets.pop(line["label"])
                self.assertTrue(line["same_bits"])
                self.assertGreater(line["counters"]["tjit llvm"]["fused"], 0.9)
                self.assertEqual(line["target"], target)
                self.assertEqual(line["hand_is_less"], is_less)
                self.assertGreater(line["hand_against_best"], 0)
                is_missed = any(f"{line['label']}: " in sentence and
                                "by machine code, target" in sentence
                                for sentence in result["missed"])
                self.assertEqual(is_missed,
                                 line["llvm_against_best"] < target)
        self.assertEqual(targets, {})

    # Each peer runs and prints the same; tjit's own figure of its start is a
    # part of what the process takes more than eager.
    def test_start(self):
        program = PROGRAMS / "unmodified"
        tjit = PROGRAMS / "tjit"
        if not (program.exists() and tjit.exists()):
            self.skipTest("tjit and the examples are not built")
        done = subprocess.run(
            [sys.executable, ROOT / "bench" / "start.py", "--build",
             PROGRAMS.parent, "--rounds", "2"],
            text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        peers = {line.split("|")[1].strip(): line.split("|")
                 for line in lines[2:7]}
        self.assertEqual(list(peers), ["E", "off", "replay", "cold", "warm"])
        # The difference to E varies by more than the start takes where other
        # processes run, so the start is compared with its own process.
        start, whole = map(float, re.fullmatch(
            r"tjit says that its start took ([\d.]+) ms of processor time, "
            r"of ([\d.]+) ms of that process", lines[7]).groups())
        self.assertGreater(start, 1)
        self.assertLess(start, whole)

    # Loops that do all that their rows do have the rows' bits.
    def test_by_hand(self):
        rows = {"kernels": {"row2/add4"},
                "inference": {"row1/chain10-64k", "row1/chain10-4M"},
                "science": {"row13/rate-triple-1024",
                            "row13/rate-triple-64k"}}
        hand = run("hand", set().union(*rows.values()), False)
        for program, names in rows.items():
            for row, record in run(program, names, False).items():
                self.assertEqual(hand[row]["label"], record["label"], row)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
