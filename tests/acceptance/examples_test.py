"""The examples: each does what its first lines say.

What it proves: examples/unmodified.cpp and examples/train.py print the same
under `tjit run` and replay most of their ops; examples/embed.cpp replays by
the API alone, and what it prints of it agrees with TJIT_STATS;
examples/cahn_hilliard.cpp replays its regions but for the excluded ones;
examples/lattice_boltzmann.cpp does so, too;
examples/decode.cpp replays a step for each length of its cache;
examples/three_rates.cpp shows a graph with its names and one t - t_n.

Usage: examples_test.py TJIT_COMMAND BIN_FOLDER TORCH_FOLDER EXAMPLES_FOLDER
                        [unittest arguments]
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

from torch_python import torch_python

TJIT = BIN = TORCH = EXAMPLES = None


def run(*command, **variables):
    env = {k: v for k, v in os.environ.items()
           if is_passed_on(k) and k != "LD_PRELOAD"}
    env.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", **variables)
    return subprocess.run([str(c) for c in command], env=env, text=True,
                          capture_output=True, timeout=120, check=False)


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stats = pathlib.Path(folder.name) / "stats.json"

    def check_same_under_tjit(self, *command):
        plain = run(*command)
        self.assertEqual((plain.returncode, plain.stderr), (0, ""))
        self.assertNotEqual(plain.stdout, "")
        done = run(TJIT, "run", f"--stats={self.stats}", "--", *command)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, plain.stdout, ""))
        did = json.loads(self.stats.read_text())
        self.assertGreaterEqual(did["ops_replayed"], 0.8 * did["ops_seen"])

    def test_unmodified(self):
        self.check_same_under_tjit(BIN / "unmodified")
        slope, intercept = re.findall(r"(?:slope|intercept) (\S+?),?\s",
                                      run(BIN / "unmodified").stdout)
        self.assertAlmostEqual(float.fromhex(slope), 3, delta=0.1)
        self.assertAlmostEqual(float.fromhex(intercept), 0.5, delta=0.1)

    def test_train_py(self):
        python = torch_python(TORCH)
        if python is None:
            self.skipTest(f"no Python interpreter imports the torch in {TORCH}")
        self.check_same_under_tjit(python, "-W", "ignore",
                                   EXAMPLES / "train.py")

    def test_embed(self):
        # Without code that is ready just after the program looked.
        done = run(BIN / "embed", TJIT_STATS=str(self.stats),
                   TJIT_BACKEND="replay")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        loss, counts, report = done.stdout.split("\n", 2)
        did = json.loads(self.stats.read_text())
        replayed, seen = did["ops_replayed"], did["ops_seen"]
        self.assertEqual(counts, f"{replayed} of {seen} ops were replayed")
        self.assertGreaterEqual(replayed, 0.9 * seen)
        # The same text as from the file, a millisecond older: so old is what it
        # says of the whole time.
        told = run(TJIT, "explain", self.stats).stdout

        def without_age(text):
            text = re.sub(r" ran for .*?;", "", text)
            return re.sub(r"\nabout \S+ % of the time lies in .*", "", text)

        self.assertEqual(without_age(report), without_age(told))
        self.assertIn(" replayed, ", told)
        # The environment wins, and nothing but the speed changes.
        eager = run(BIN / "embed", TJIT_HOT_THRESHOLD="100000")
        self.assertEqual(eager.stdout.split("\n")[0], loss)
        self.assertIn("\n0 of ", eager.stdout)

    def test_cahn_hilliard(self):
        done = run(BIN / "cahn_hilliard", TJIT_STATS=str(self.stats))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, *counts = done.stdout.splitlines()
        # The same bits as eagerly.
        eager = run(BIN / "cahn_hilliard", TJIT_DISABLE="1")
        self.assertEqual(eager.stdout.splitlines()[0], first)
        self.assertEqual(len(counts), 4)
        did = json.loads(self.stats.read_text())
        regions = {r["name"]: r for r in did["regions"]}
        self.assertEqual(sorted(regions), [
            "solve", "solve/fft_back", "solve/fft_forward", "solve/potential",
            "solve/update"])
        for name, ops in (("potential", 3), ("update", 4)):
            region = regions["solve/" + name]
            self.assertEqual(region["entries"], 200)
            self.assertEqual(region["ops_seen"], 200 * ops)
            # All but the three sightings.
            self.assertEqual(region["ops_replayed"], 197 * ops)
            self.assertEqual((region["sequences"], region["ops_at_call"]),
                             (1, 0))
            self.assertIn(f"{name}: {197 * ops} of {200 * ops} ops were "
                          "replayed", counts)
        told = run(TJIT, "explain", self.stats).stdout
        self.assertIn("\n5 regions:\n  solve: began 200 times, 0 ops", told)
        self.assertIn("\n  solve/potential: began 200 times, 600 ops: 591 "
                      "replayed (98.5 %), 9 ran eagerly, 0 drained\n        "
                      "1 traced sequence, 0 ops at the call\n", told)
        self.assertIn("\n        in region solve/update\n", told)
        for name in ("fft_forward", "fft_back"):
            region = regions["solve/" + name]
            self.assertTrue(region["excluded"])
            self.assertEqual(region["ops_replayed"], 0)
            self.assertEqual(region["ops_eager"], region["ops_seen"])
            self.assertGreaterEqual(region["ops_seen"], 200)

    def test_lattice_boltzmann(self):
        done = run(BIN / "lattice_boltzmann", TJIT_STATS=str(self.stats))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, *counts = done.stdout.splitlines()
        eager = run(BIN / "lattice_boltzmann", TJIT_DISABLE="1")
        self.assertEqual(eager.stdout.splitlines()[0], first)
        # Collisions and walls keep the mass, and no fluid outruns the lid.
        speed, mass = (float.fromhex(x)
                       for x in re.findall(r"(?:speed|mass) (\S+?)(?:,|$)", first))
        self.assertAlmostEqual(mass, 48 * 48, places=6)
        self.assertTrue(0.05 < speed < 0.1, speed)
        # All but the three sightings.
        self.assertEqual(counts, [
            "collide: 11116 of 11200 ops were replayed",
            "stream: 3970 of 4000 ops were replayed",
            "report: 0 of 3200 ops were replayed"])
        regions = {r["name"]: r
                   for r in json.loads(self.stats.read_text())["regions"]}
        self.assertTrue(regions["solve/report"]["excluded"])

    def test_decode(self):
        done = run(BIN / "decode")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"^1[67]\d\d of 2000 steps replayed, "
                                      r"40 ways; same tokens; ")

    def test_three_rates(self):
        dump = self.stats.with_name("rates.txt")
        done = run(BIN / "three_rates", TJIT_DUMP="ir",
                   TJIT_DUMP_FILE=str(dump))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout,
                         r"^29\d\d of 3000 calls replayed; same bits\n$")
        graph = run(TJIT, "graph", dump).stdout
        lowered, final = graph.split("group 1 final\n")
        for name in ("eq::state/a", "eq::old_state/b", "eq::forces/t",
                     "eq::old_forces/t", "eq::state/c_rate"):
            self.assertIn(f" {name} (s", final)
        # t - t_n is found to be one.
        self.assertEqual(lowered.count(" = sub "), 6)
        self.assertEqual(final.count(" = sub "), 4)


if __name__ == "__main__":
    TJIT, BIN, TORCH, EXAMPLES = (pathlib.Path(p).resolve()
                                  for p in sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
