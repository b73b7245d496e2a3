"""`bench/peers/run.py`, the table of tjit beside its peers.

What it proves: medians, ratios within a round, the best variant, geometric
means; jit() stands beside the best of all, steps by hand among them, and a
function that was not replayed has no time; a peer that is missing is said to
be, with the reason, and is no win; a wrong result is an error and no time;
--resume measures nothing twice.

No peer is installed: their Python, the runner of packages and the programs of
the benchmark are scripts.

Usage: bench_peers_test.py [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))
import table  # noqa: E402  pylint: disable=wrong-import-position

# A program of the suite: eager takes 8 us, with a fused optimizer 6, tjit 3, a
# wrapped function 1, of which `replays` calls a step are replayed.
PROGRAM = """#!{python}
import json, pathlib, sys
flags = dict(f[2:].split("=", 1) for f in sys.argv[1:] if "=" in f)
with pathlib.Path({calls!r}).open("a") as file:
    file.write(sys.argv[0] + "\\n")
name = flags["benchmark_filter"].strip("^").replace("\\\\", "")
us = 3.0 if "plain" not in sys.argv[0] else 6.0 if "fused" in name else 8.0
if "--jit" in sys.argv:
    us = 1.0
print(json.dumps({{"context": {{"libtorch": "L", "compiler": "C"}},
    "benchmarks": [{{"name": name, "run_type": "iteration", "real_time": us,
                     "cpu_time": us / 2, "label": "bits", "functions": {replays}}}]}}))
"""
# The peers' Python: J takes 2 us, J 512 4; packages are made; `says` is what it
# prints for I.
PYTHON = """#!{python}
import json, pathlib, sys
if sys.argv[1] == "-c":
    print(json.dumps({{"torch": "T", "jax": "X"}}))
    sys.exit()
with pathlib.Path({calls!r}).open("a") as file:
    file.write("measure.py\\n")
flags = dict(zip(sys.argv[3::2], sys.argv[4::2]))
assert flags["--clock"] in ("wall", "processor")
assert flags["--benchmark"] == "row18/pinn/optim"
assert pathlib.Path(flags["--eager"]).name == "bench_training_plain"
peer = flags["--peer"]
if peer == "A":
    (pathlib.Path(flags["--package"]) / "f.pt2").write_text("package")
    print(json.dumps({{"prepared": 1.0}}))
elif peer == "J":
    print(json.dumps({{"samples": [4.0 if flags["--variant"] else 2.0]}}))
else:
    print({says!r})
"""
RUNNER = """#!{python}
import pathlib, sys
with pathlib.Path({calls!r}).open("a") as file:
    file.write("bench_aoti\\n")
assert (pathlib.Path(sys.argv[1]) / "f.pt2").exists()
print('{{"samples": [1.5]}}')
"""


def rounds(*samples):
    """What suite.collect() makes of samples of rounds."""
    return {"rounds": [list(s) for s in samples]}


class TableTest(unittest.TestCase):
    def test_median_is_of_all_samples(self):
        self.assertEqual(table.median(rounds((1, 2), (9,))), 2)
        self.assertIsNone(table.median({"rounds": [], "missing": "no"}))
        # What failed in its second round has no figure.
        self.assertIsNone(table.median({**rounds((1,)), "error": "wrong"}))
        self.assertIsNone(table.median(None))

    def test_ratio_is_within_a_round(self):
        # The machine is three times slower in the second round.
        slow = rounds((2, 2), (6, 6), (2,))
        fast = rounds((1, 1), (3, 3), (1,))
        self.assertEqual(table.ratio(slow, fast), 2)
        self.assertIsNone(table.ratio(slow, {"rounds": []}))

    def test_a_line(self):
        line = table.evaluate("r", {
            "E": rounds((12,)), "E+": rounds((10,)), "E+ fused": rounds((8,)),
            "tjit": rounds((4,)), "A": rounds((5,)), "A fz": rounds((2,)),
            "I": rounds((9,)), "J": rounds((3,))})
        self.assertEqual(line["E+"], 8)
        self.assertTrue(line["E+ fused"])
        self.assertEqual(line["times"], 2)
        self.assertEqual(line["best"], "A fz")
        self.assertEqual(line["against_best"], 2)
        self.assertEqual(line["missing"], [])

    def test_eager_may_be_the_best(self):
        line = table.evaluate("r", {
            "E+": rounds((1,)), "tjit": rounds((2,)), "A": rounds((5,)),
            "I": rounds((5,)), "J": rounds((5,))})
        self.assertEqual(line["best"], "E+")
        self.assertEqual(line["against_best"], 2)

    def test_a_step_by_hand_stands_beside(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "tjit": rounds((4,)), "A-train": rounds((1,)),
            "I": rounds((9,)), "J": rounds((2,))})
        self.assertEqual(line["missing"], [])
        self.assertEqual((line["best"], line["against_best"]), ("J", 2))
        self.assertEqual((line["best_by_hand"], line["against_by_hand"]),
                         ("A-train", 4))

    def test_a_step_by_hand_is_not_torch_compile(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "tjit": rounds((4,)), "A-train": rounds((1,)),
            "I": {"rounds": [], "error": "no"}, "I-train": rounds((2,)),
            "J": rounds((2,))})
        self.assertEqual(line["missing"], ["I"])

    def test_a_wrapped_function(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "tjit": rounds((4,)), "jit": rounds((2,)),
            "A-train": rounds((1,)), "I": rounds((9,)), "J": rounds((4,))})
        self.assertEqual(line["jit"], 2)
        # The step by hand is among its peers.
        self.assertEqual(line["jit_against_best"], 2)
        self.assertIn("| 2.00 | 2.00 |", table.markdown([line], {}, 1))
        *_, (_, count, value) = table.means([line])
        self.assertEqual((count, value), (1, 0.5))

    def test_a_row_without_a_wrapped_function(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "tjit": rounds((4,)), "A": rounds((1,)),
            "I": rounds((9,)), "J": rounds((4,))})
        self.assertIn("| - | 4.00 | - | - |\n",
                      table.markdown([line], {}, 1))
        *_, (_, count, value) = table.means([line])
        self.assertEqual((count, value), (0, None))

    def test_other_bits_of_a_wrapped_function(self):
        line = table.evaluate("r", {
            "E+": {**rounds((10,)), "bits": {"12"}},
            "tjit": {**rounds((4,)), "bits": {"12"}},
            "jit": {**rounds((4,)), "bits": {"13"}}})
        self.assertEqual(line["failed"], ["jit"])
        self.assertEqual(line["notes"], ["jit: other bits than eager"])

    def test_other_bits_of_tjit(self):
        line = table.evaluate("r", {
            "E+": {**rounds((10,)), "bits": {"12"}},
            "tjit": {**rounds((4,)), "bits": {"13"}}})
        self.assertEqual(line["failed"], ["tjit"])
        self.assertEqual(line["notes"], ["tjit: other bits than eager"])

    def test_a_missing_peer_is_no_win(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "tjit": rounds((4,)), "A": rounds((8,)),
            "I": {"rounds": [], "missing": "not installed"},
            "J": {"rounds": [], "error": "wrong result"}})
        self.assertEqual(line["missing"], ["I", "J"])
        self.assertEqual(line["failed"], ["J"])
        self.assertIn("I: not installed", line["notes"])
        values = {what: (count, value)
                  for what, count, value in table.means([line])}
        self.assertEqual(values["of the best peer's speed, rows that have all "
                                "peers"], (0, None))
        text = table.markdown([line], {}, 1)
        self.assertIn("(I, J missing)", text)
        self.assertIn("- r, J: wrong result", text)

    def test_no_peer_at_all(self):
        line = table.evaluate("r", {"E+": rounds((10,)), "tjit": rounds((4,))})
        self.assertNotIn("against_best", line)
        self.assertEqual(line["missing"], ["A", "I", "J"])
        self.assertIn("| missing | missing (A, I, J missing) |",
                      table.markdown([line], {}, 1))

    def test_tjit_missing(self):
        line = table.evaluate("r", {
            "E+": rounds((10,)), "J": rounds((1,)),
            "tjit": {"rounds": [], "missing": "not built"}})
        self.assertIsNone(line["times"])
        self.assertIsNone(line["against_best"])
        self.assertEqual(table.means([line])[0][1:], (0, None))

    def test_geometric_means(self):
        lines = [table.evaluate("r", {
            "E+": rounds((8,)), "tjit": rounds((tjit,)), "A": rounds((2,)),
            "I": rounds((9,)), "J": rounds((9,))}) for tjit in (1, 4)]
        (_, count, of_eager), (_, _, of_best), *_ = table.means(lines)
        self.assertEqual(count, 2)
        self.assertAlmostEqual(of_eager, 4)  # 8 and 2
        self.assertAlmostEqual(of_best, 1)  # 2 and 1/2
        self.assertIsNone(table.geometric_mean([]))
        self.assertIsNone(table.geometric_mean([1, None]))


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        (self.folder / "bin").mkdir()
        for name in ("bench_training", "bench_training_plain"):
            self.script(f"bin/{name}", PROGRAM, replays=0.99)
        self.script("bin/bench_aoti", RUNNER)
        self.python = self.script("python", PYTHON,
                                  says='{"samples": [7.0]}')

    def script(self, name, text, **more):
        path = self.folder / name
        path.write_text(text.format(python=sys.executable,
                                    calls=str(self.calls), **more))
        path.chmod(0o755)
        return path

    def run_py(self, *options):
        return subprocess.run(
            [sys.executable, PEERS / "run.py", "--build", self.folder,
             "--rows", "pinn", "--rounds", "2", "--peers-python", self.python,
             *options], text=True, capture_output=True, timeout=60,
            check=False)

    def count(self, name=""):
        return sum(name in line
                   for line in self.calls.read_text().splitlines())

    def test_a_whole_run(self):
        done = self.run_py()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 18 pinn | 6.00 f | 3.00 | 2.00 | - | 7.00 | 2.00 | J "
                      "| 1.50 | 1.50 A-train | 2.00 | 1.00 | 0.67 |",
                      done.stdout)
        self.assertIn("over 1 of 1 rows: 1.50 of the best peer's speed by "
                      "tjit::jit(), with steps rewritten by hand.", done.stdout)
        self.assertIn("- jax: X", done.stdout)
        self.assertEqual(self.count("bench_aoti"), 2)
        # Two rounds of I, I-train, J and J 512, and a package.
        self.assertEqual(self.count("measure.py"), 9)

    def test_a_function_that_is_not_replayed(self):
        self.script("bin/bench_training", PROGRAM, replays=0.1)
        done = self.run_py()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 2.00 | missing | missing |", done.stdout)
        self.assertIn("- 18 pinn, jit: bench_training row18/pinn/optim as jit: "
                      "0.10 calls a step were replayed", done.stdout)
        self.assertIn("over 0 of 1 rows: missing of the best peer's speed by "
                      "tjit::jit()", done.stdout)

    def test_resume_measures_nothing_twice(self):
        whole = self.run_py().stdout
        samples = self.folder / "peers-results" / "samples.jsonl"
        lines = samples.read_text().splitlines(keepends=True)
        samples.write_text("".join(lines[:-3]))
        self.assertIn("| 18 pinn | 6.00 f", self.run_py("--print").stdout)
        self.calls.unlink()
        done = self.run_py("--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.count(), 3)
        self.assertEqual(*([l for l in text.splitlines() if l[:1] == "|"]
                           for text in (done.stdout, whole)))

    def test_processor_time(self):
        done = self.run_py("--clock", "processor")
        self.assertIn("| 18 pinn | 3.00 f | 1.50 |", done.stdout)
        self.assertIn("- clock: processor", done.stdout)
        again = self.run_py("--resume")
        self.assertEqual(again.returncode, 2)
        self.assertIn("is of a run with clock processor, this one has wall",
                      again.stderr)

    def test_the_least_sample_stands_for_a_process(self):
        self.script("python", PYTHON, says='{"samples": [9.0, 5.0, 7.0]}')
        self.assertIn("| - | 7.00 | 2.00 | J |", self.run_py().stdout)
        least = self.run_py("--print", "--least").stdout
        self.assertIn("| - | 5.00 | 2.00 | J |", least)
        self.assertIn("- samples: the least of each process", least)

    def test_peers_that_are_not_installed(self):
        self.python.unlink()
        done = self.run_py()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(A, I, J missing)", done.stdout)
        self.assertIn("run bench/peers/install.sh", done.stdout)

    def test_a_wrong_result(self):
        self.script("python", PYTHON, says='{"error": "3 apart"}')
        done = self.run_py()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("- 18 pinn, I: 3 apart", done.stdout)
        self.assertIn("(I missing)", done.stdout)

    def test_a_row_that_a_peer_cannot_do(self):
        self.script("python", PYTHON, says='{"missing": "no such op"}')
        done = self.run_py()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("- 18 pinn, I: no such op", done.stdout)

    def test_a_peer_that_dies(self):
        self.script("python", PYTHON, says="")
        done = self.run_py()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("I: pinn as I ended with status 0", done.stdout)

    def test_stopped_within_a_row(self):
        self.run_py()
        samples = self.folder / "peers-results" / "samples.jsonl"
        lines = samples.read_text().splitlines(keepends=True)
        samples.write_text("".join(lines[:6]))
        done = self.run_py("--print")
        self.assertIn("- not measured yet: 1 of 1 rows", done.stdout)
        self.assertNotIn("| 18 pinn", done.stdout)

    def test_peers_that_are_not_asked_for(self):
        done = self.run_py("--peers", "J")
        self.assertEqual(self.count("bench_aoti"), 0)
        self.assertIn("(A, I missing)", done.stdout)
        again = self.run_py("--print")
        self.assertEqual(*([l for l in text.splitlines() if l[:1] == "|"]
                           for text in (done.stdout, again.stdout)))

    def test_bad_options(self):
        for options, said in ((("--rows", "nosuch"), "row nosuch is not known"),
                              (("--peers", "X"), "known are A, I and J"),
                              (("--core", "9999"), "may not run there"),
                              (("--resume", "--print"), "give one")):
            with self.subTest(said):
                done = self.run_py(*options)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
