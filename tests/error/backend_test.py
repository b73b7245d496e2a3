"""TJIT_BACKEND on a whole program, with and without what it needs.

What it proves: each back end gives the same output and runs compiled groups
where it has them; without libtjit_llvm.so the program runs on, and that is said
once; a bad value is said with what is accepted; a worker that compiles stands
in the way of neither fork() nor exit.

Usage: backend_test.py SMALL_LOOP LIBTJIT LIBTJIT_LLVM_OR_NONE
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = LIBTJIT = None
HAS_LLVM = False


class BackendTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_loop(self, *mode, **variables):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("TJIT_")}
        env.update(OMP_NUM_THREADS="1", TJIT_CACHE_DIR="off",
                   TJIT_PROFILE="off")
        env.update(variables)
        done = subprocess.run([PROGRAM, *mode], env=env, cwd=self.folder,
                              text=True, capture_output=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        return done

    def compiled(self, backend, *mode, **variables):
        """Runs it under a back end: stderr and counters."""
        done = self.run_loop(*mode, TJIT_AUTO_COMPILE="1", TJIT_COMPILE="1",
                             TJIT_BACKEND=backend, TJIT_STATS="s.json",
                             **variables)
        self.assertEqual(done.stdout, self.run_loop(*mode).stdout)
        return done.stderr, json.loads((self.folder / "s.json").read_text())

    def test_each_gives_the_same(self):
        said, stats = self.compiled("replay", "slow")
        self.assertEqual((said, stats["groups_run"]), ("", 0))
        self.assertGreater(stats["replays_tier1"], 1000)
        said, stats = self.compiled("interpreter", "slow")
        self.assertEqual(said, "")
        self.assertGreater(stats["groups_run"], 1000, stats)
        if HAS_LLVM:
            said, stats = self.compiled("llvm", "slow")
            self.assertEqual(said, "")
            self.assertGreaterEqual(stats["kernels_compiled"], 1, stats)
            self.assertGreater(stats["groups_run"], 0, stats)

    def test_without_the_code_generator(self):
        shutil.copy(LIBTJIT, self.folder)
        said, stats = self.compiled("llvm", "slow",
                                    LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("TJIT_BACKEND=llvm: ", said)
        self.assertIn("libtjit_llvm.so", said)
        self.assertIn("sequences are replayed by library calls", said)
        self.assertEqual(stats["groups_run"], 0)
        self.assertGreater(stats["replays_tier1"], 1000)

    def test_a_bad_value(self):
        said, stats = self.compiled("gpu")
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("TJIT_BACKEND=gpu is not used, accepted is "
                      "replay, interpreter, llvm or torchscript", said)
        self.assertGreater(stats["replays_tier1"], 0)

    def test_what_is_compiled_while_the_process_forks_and_ends(self):
        for backend in ("interpreter", "llvm") if HAS_LLVM else (
                "interpreter",):
            for mode in ((), ("fork",), ("exec",)):
                self.compiled(backend, *mode)


if __name__ == "__main__":
    PROGRAM, LIBTJIT = sys.argv[1:3]
    HAS_LLVM = sys.argv[3] != "none"
    del sys.argv[1:4]
    unittest.main()
