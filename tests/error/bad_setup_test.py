"""A bad set-up is said once, and changes nothing of what the program does.

What it proves: a stats path that cannot be written (no such folder, a folder,
a full disk) is named on stderr, a libtorch other than the one built for makes
tjit inert, an unknown TJIT_ name or a bad value is said with what is accepted;
output and exit status stay those of the program alone. Processes
that inherit TJIT_STATS do not overwrite each other's counters.

Usage: bad_setup_test.py SMALL_LOOP LIBTJIT TORCH_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = LIBTJIT = TORCH = None
# The head of a GNU build-id note: sizes, type, name.
NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.expected = self.run_loop(on=False)
        self.assertEqual(self.expected.returncode, 7, self.expected.stderr)
        self.assertEqual(self.expected.stderr, "")

    def run_loop(self, *arguments, on=True, command=(), **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TJIT_")}
        env.update(OMP_NUM_THREADS="1", TJIT_PROFILE="off", **extra)
        if on:
            env.update(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="2")
        return subprocess.run([*command, PROGRAM, *arguments], env=env,
                              cwd=self.folder, text=True, capture_output=True,
                              timeout=60, check=False)

    def check_same(self, done):
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(done.stdout, self.expected.stdout)

    def counters(self, name):
        counters = json.loads((self.folder / name).read_text())
        self.assertEqual(counters["ops_seen"],
                         counters["ops_eager"] + counters["ops_replayed"] +
                         counters["ops_drained"])
        return counters


class StatsPathTest(Case):
    def test_paths_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        for path, why in (("missing/stats.json", "No such file or directory"),
                          ("folder", "Is a directory"),
                          ("/dev/full", "No space left on device")):
            with self.subTest(path):
                done = self.run_loop(TJIT_STATS=path)
                self.check_same(done)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(f'TJIT_STATS: cannot write "{path}": {why}; '
                              "the counters of this run are lost",
                              done.stderr)

    def test_a_file_of_an_earlier_run_is_replaced(self):
        for _ in range(2):
            self.check_same(self.run_loop(TJIT_STATS="s.json"))
            self.assertGreater(self.counters("s.json")["ops_replayed"], 100)
            with open(self.folder / "s.json", "a") as file:
                file.write("x" * 100000)

    def test_a_wrapper_does_not_overwrite(self):
        done = self.run_loop(command=["timeout", "50"], TJIT_STATS="s.json",
                             LD_PRELOAD=str(LIBTJIT))
        self.check_same(done)
        self.assertGreater(self.counters("s.json")["ops_replayed"], 100)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["s.json"])

    def test_children_write_files_of_their_own(self):
        for mode in ("fork", "exec"):
            with self.subTest(mode):
                done = self.run_loop(mode, TJIT_STATS=mode)
                self.assertEqual(done.returncode, 7, done.stderr)
                own = self.counters(mode)
                names = [p.name for p in self.folder.iterdir()
                         if p.name.startswith(mode + ".")]
                self.assertEqual(len(names), 1)
                childs = self.counters(names[0])
                # Each ran the loop once.
                self.assertEqual(childs["ops_seen"], own["ops_seen"])
                self.assertGreater(childs["ops_replayed"], 100)


class EnvironmentTest(Case):
    def test_unknown_names_and_bad_values_are_said_once(self):
        done = self.run_loop(TJIT_HOT_TRESHOLD="3", TJIT_STRESS="hid",
                             TJIT_STATS="s.json")
        self.check_same(done)
        self.assertEqual(done.stderr.count("\n"), 2, done.stderr)
        self.assertIn("tjit: TJIT_HOT_TRESHOLD is not a variable of tjit, did "
                      "you mean TJIT_HOT_THRESHOLD? (known: TJIT_AUTO_COMPILE, "
                      , done.stderr)
        self.assertIn("tjit: TJIT_STRESS=hid is not used, accepted is hide, or "
                      "some of late, check, shuffle, shuffle:SEED with commas "
                      "between\n", done.stderr)
        self.assertGreater(self.counters("s.json")["ops_replayed"], 100)

    def test_said_even_where_tjit_stays_off(self):
        done = self.run_loop(on=False, TJIT_AUTO_COMPILE="sure")
        self.check_same(done)
        self.assertEqual(done.stderr, "tjit: TJIT_AUTO_COMPILE=sure is not "
                         "used, accepted is 0, n, no, off, false, 1, y, yes, "
                         "on or true\n")


class OtherTorchTest(Case):
    def test_inert_and_said_once(self):
        data = (TORCH / "lib" / "libc10.so").read_bytes()
        at = data.index(NOTE) + len(NOTE)
        other = bytes(b ^ 0xff for b in data[at:at + 20])
        patched = self.folder / "libc10.so"
        patched.write_bytes(data[:at] + other + data[at + 20:])
        done = self.run_loop(TJIT_STATS="s.json", LD_PRELOAD=str(patched))
        self.check_same(done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(
            "inert: this process loads libc10.so with build-id "
            f"{other.hex()}, but libtjit was built for "
            f"{data[at:at + 20].hex()}", done.stderr)
        self.assertIn("Rebuild tjit with CMAKE_PREFIX_PATH", done.stderr)
        counters = self.counters("s.json")
        self.assertEqual(counters["ops_seen"], 0)
        self.assertIn("inert: this process loads libc10.so", counters["why"])


if __name__ == "__main__":
    PROGRAM, LIBTJIT, TORCH = (pathlib.Path(p).resolve()
                               for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
