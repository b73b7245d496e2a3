"""libtjit preloaded into a program that knows nothing of it.

What it proves: the program prints and returns what it does alone, nothing is
added to its output, and most of its ops are replayed; without
TJIT_AUTO_COMPILE it is as if libtjit were not there.

Usage: preload_test.py PLAIN_LOOP LIBTJIT [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clean_environment import is_passed_on

PROGRAM = LIBTJIT = None


class PreloadTest(unittest.TestCase):
    def run_program(self, folder, **extra):
        env = {k: v for k, v in os.environ.items() if is_passed_on(k)}
        env.update(OMP_NUM_THREADS="1", TJIT_PROFILE="off", **extra)
        return subprocess.run([PROGRAM], env=env, cwd=folder, text=True,
                              capture_output=True, timeout=60, check=False)

    def counters_of(self, **extra):
        with tempfile.TemporaryDirectory() as folder:
            alone = self.run_program(folder)
            self.assertEqual(alone.returncode, 7, alone.stderr)
            done = self.run_program(folder, LD_PRELOAD=str(LIBTJIT),
                                    TJIT_STATS="s.json", **extra)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertEqual(done.stdout, alone.stdout)
            self.assertEqual(done.stderr, "")
            stats = pathlib.Path(folder) / "s.json"
            return json.loads(stats.read_text()) if stats.exists() else None

    def test_replays(self):
        did = self.counters_of(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="4")
        self.assertGreater(did["ops_replayed"], 0.8 * did["ops_seen"], did)

    def test_off_by_default(self):
        did = self.counters_of()
        self.assertEqual(did["ops_seen"], 0)
        self.assertIn("nobody switched tjit on", did["why"])


if __name__ == "__main__":
    PROGRAM, LIBTJIT = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
