"""What probes found is kept on disk: the second process does not probe.

What it proves: with TJIT_BACKEND=llvm the second process of a program takes
what the first has found by comparing functions with eager, with the same bits;
another environment of MKL, another set of loaded libraries and another number
of threads do not; an entry that is cut or damaged is said once and replaced;
TJIT_CACHE_DIR=off keeps none; `tjit cache` lists, verifies and clears entries.

Usage: verdicts_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment

TJIT = BIN = None
EXPECTED = None  # what cached_loop prints
BAD = 1


def eager(**extra):
    return subprocess.run([BIN / "cached_loop"], env=environment(**extra),
                          text=True, capture_output=True, check=True).stdout


class VerdictsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"

    def probes(self, **extra):
        """How many probes ran, and what was said beside the compiler's lines,
        of a program that gave eager's bits."""
        extra.setdefault("TJIT_CACHE_DIR", str(self.cache))
        done = subprocess.run(
            [BIN / "cached_loop"], text=True, capture_output=True, timeout=120,
            cwd=self.folder, check=False,
            env=environment(**{"TJIT_AUTO_COMPILE": "1", "TJIT_COMPILE": "1",
                               "TJIT_BACKEND": "llvm", "TJIT_PROFILE": "off",
                               "TJIT_DEBUG_COMPILE": "1", **extra}))
        self.assertEqual(done.returncode, 0, done.stderr)
        mkl = {k: v for k, v in extra.items() if k.startswith("MKL_")}
        self.assertEqual(done.stdout, eager(**mkl) if mkl else EXPECTED)
        counts = re.findall(r"\[COMPILE\] Compilation complete .* probes: (\d+)$",
                            done.stderr, re.M)
        self.assertGreater(len(counts), 2, done.stderr)
        said = [line for line in done.stderr.splitlines()
                if "not used" in line or "cannot" in line]
        return sum(map(int, counts)), said

    def entries(self):
        return sorted(self.cache.glob("*.tjitverdicts"))

    def entry(self):
        path, = self.entries()
        return path

    def test_the_second_process_does_not_probe(self):
        cold, said = self.probes()
        self.assertGreaterEqual(cold, 3)  # tanh, exp, log
        self.assertEqual(said, [])
        text = self.entry().read_text(errors="replace")
        self.assertRegex(text, r"\nmath exp f32=\w+\n")
        before = self.entry().stat()
        self.assertEqual(self.probes(), (0, []))
        self.assertEqual(self.entry().stat().st_ino, before.st_ino)

    def test_another_environment_has_its_own(self):
        cold, _ = self.probes()
        for extra in ({"MKL_CBWR": "COMPATIBLE"}, {"ATEN_X": "1"},
                      {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
                      {"LD_PRELOAD": str(BIN.parent / "lib/libtjit_llvm.so")}):
            count = len(self.entries())
            self.assertEqual(self.probes(**extra), (cold, []), extra)
            self.assertEqual(len(self.entries()), count + 1, extra)
            self.assertEqual(self.probes(**extra), (0, []), extra)
        self.assertEqual(self.probes(), (0, []))

    def test_damaged_entries_are_replaced(self):
        cold, _ = self.probes()
        good = self.entry().read_bytes()
        flipped = bytearray(good)
        flipped[-3] ^= 1
        for bad, what in ((good[:-1], "it is cut short"),
                          (good[:10], "it is cut short"),
                          (bytes(flipped), "its checksum is wrong"),
                          (b"x" * 200, "it is no entry of tjit's cache")):
            self.entry().write_bytes(bad)
            probes, said = self.probes()
            self.assertEqual(probes, cold)
            self.assertEqual(len(said), 1)
            self.assertIn(what, said[0])
            self.assertIn("compared with eager anew", said[0])
            self.assertEqual(self.entry().read_bytes(), good)
            self.assertEqual(self.probes(), (0, []))

    def test_off(self):
        cold, _ = self.probes(TJIT_CACHE_DIR="off")
        self.assertEqual(self.probes(TJIT_CACHE_DIR="off"), (cold, []))
        self.assertFalse(self.cache.exists())

    def command(self, name, status=0):
        done = subprocess.run([TJIT, "cache", name, self.cache], text=True,
                              env=environment(), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_the_command_knows_them(self):
        self.probes()
        name = self.entry().name
        self.assertRegex(self.command("list"), rf"{name}  \d+ verdicts\n")
        self.command("verify")
        good = self.entry().read_bytes()
        self.entry().write_bytes(good[:-1])
        self.assertIn(f"{name}: it is cut short\n",
                      self.command("verify", status=BAD))
        self.command("clear")
        self.assertEqual(list(self.cache.iterdir()), [])


if __name__ == "__main__":
    TJIT = pathlib.Path(sys.argv.pop(1)).resolve()
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    EXPECTED = eager()
    unittest.main()
