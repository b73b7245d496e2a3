"""`tjit package` on a package that a C++ program has saved.

What it proves: a process that loads it compiles what is not in it, and nothing
once `compile` has put the code in, without a cache folder; the bits are those
of when it was saved; show and run print what is there; a damaged file, one that
is none and a wrong command line are said in one line.

Usage: package_command_test.py TJIT SHIP_PROGRAM DATA_FILE [unittest arguments]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from clean_environment import environment

TJIT = PROGRAM = DATA = HAS_LLVM = None


class PackageCommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.saved = pathlib.Path(cls.kept.name) / "digits.tjit"
        wrote = subprocess.run([PROGRAM, cls.saved, DATA], text=True,
                               capture_output=True, env=environment())
        assert wrote.returncode == 0, wrote.stdout + wrote.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "digits.tjit"
        shutil.copy(self.saved, self.file)

    def package(self, *words, status=0, **variables):
        variables = {"TJIT_CACHE_DIR": "off", "TMPDIR": str(self.folder),
                     "OMP_WAIT_POLICY": "passive"} | variables
        done = subprocess.run([TJIT, "package", *map(str, words)], text=True,
                              capture_output=True,
                              env=environment(**variables))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def loops(self):
        said = self.package("verify", self.file)
        self.assertIn(": the same bits as when it was saved\n", said)
        self.assertNotIn("not replayed", said)
        found = re.search(r"(\d+) loops of its compiled code used, (\d+) "
                          r"compiled\n", said)
        if found is None:
            self.assertIn("no compiled code: ", said)
            return 0, 0
        return int(found[1]), int(found[2])

    def test_what_is_compiled_into_it_is_not_compiled_again(self):
        if not HAS_LLVM:
            self.skipTest("no LLVM")
        used, _ = self.loops()
        self.assertEqual(used, 0)
        self.assertIn("no compiled code", self.package("show", self.file))
        said = self.package("compile", self.file)
        added = int(re.search(r"(\d+) bytes of compiled code added", said)[1])
        self.assertGreater(added, 1000)
        self.assertEqual(os.listdir(self.folder), ["digits.tjit"])
        used, compiled = self.loops()
        self.assertGreater(used, 0)
        self.assertEqual(compiled, 0)
        # The user's own folder does not count as the package's.
        own = self.folder / "own"
        self.package("run", self.file, TJIT_CACHE_DIR=str(own))
        self.assertIn(f"{used} loops of its compiled code used, 0 compiled",
                      self.package("verify", self.file,
                                   TJIT_CACHE_DIR=str(own)))
        shutil.rmtree(own, ignore_errors=True)
        shown = self.package("show", self.file)
        bytes_of = re.search(r"compiled code: (\d+) bytes for LLVM", shown)
        self.assertLessEqual(int(bytes_of[1]), added)
        self.assertGreater(int(bytes_of[1]), added / 2)
        # A second time there is nothing new, and the file is as good.
        again = self.package("compile", self.file)
        self.assertEqual(self.loops(), (used, 0), again)

    def test_show(self):
        shown = self.package("show", self.file)
        self.assertRegex(shown, r'digits.tjit: "predict", saved with libtorch '
                                r"\S+, with an example\n")
        rows = len(pathlib.Path(DATA).read_text().splitlines())
        self.assertIn(f"  images           Float [{rows}, 64], strides [64, "
                      "1]\n", shown)
        for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
            self.assertIn(f"  {name:16s} Float [", shown)

    def test_run(self):
        began = time.monotonic()
        said = self.package("run", self.file, "--runs=200")
        seconds = time.monotonic() - began
        found = re.search(r": 200 calls, (\d+) of them replayed, median (\S+) "
                          r"us\n", said)
        self.assertIsNotNone(found, said)
        self.assertGreaterEqual(int(found[1]), 195)
        self.assertGreater(float(found[2]), 0)
        self.assertLess(float(found[2]) * 100 * 1e-6, seconds)

    def test_what_is_wrong_is_said_in_a_line(self):
        cut = self.folder / "cut.tjit"
        cut.write_bytes(self.saved.read_bytes()[:5000])
        text = self.folder / "text.tjit"
        text.write_text("text")
        for action in ("show", "verify", "run", "compile"):
            for file, expected in ((cut, "is damaged, or no package"),
                                   (text, "is damaged, or no package"),
                                   (self.folder / "none.tjit", "cannot be "
                                    "read: No such file or directory")):
                said = self.package(action, file, status=2)
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(f"{file} {expected}", said)
        for words, expected in (
                (["list", self.file], "accepted are show, verify, run and "
                 "compile, not list"),
                (["run", self.file, "--runs=0"], "--runs=0 is not used"),
                (["show"], "two files are wanted: tjit package show"),
                (["verify", self.file, "--tensors=/none"],
                 "/none: cannot be read")):
            said = self.package(*words, status=2)
            self.assertIn(expected, said)
        self.assertIn("show|verify|run|compile", self.package("--help"))


if __name__ == "__main__":
    TJIT, PROGRAM, DATA = sys.argv[1:4]
    HAS_LLVM = sys.argv[4] != "none"
    del sys.argv[1:5]
    unittest.main()
