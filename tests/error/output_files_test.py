"""No file of the user's is lost to a path that was mistyped; off is off.

What it proves: TJIT_STATS, TJIT_INSTRUCTION_LOG, TJIT_PROFILE and
TJIT_DUMP_FILE on a file that tjit did not write leave it as it is, by links
too, and say once what it is and what to do, while the program goes on; their
own files of an earlier run are replaced; what is appended to /dev/stdout leaves
what the program wrote there. A process that saw no op writes zeros and why.
TJIT_DISABLE=1 beats TJIT_AUTO_COMPILE, TJIT_STRESS and tjit::enable(). Values
of switches are spelled in many ways.

Usage: output_files_test.py SMALL_LOOP LIBTJIT [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = LIBTJIT = None
SCRIPT = "#!/usr/bin/env python3\nimport torch\nprint(torch.ones(3))\n" * 20
BEGINS = 'begin with "#!/usr/bin/env python3"'


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.expected = self.run_loop(on=False).stdout

    def run_loop(self, *arguments, on=True, stdout=subprocess.PIPE, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TJIT_")}
        env.update(OMP_NUM_THREADS="1", TJIT_PROFILE="off",
                   TJIT_CACHE_DIR="off")
        if on:
            env.update(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="2")
        env.update(extra)
        done = subprocess.run([PROGRAM, *arguments], env=env, text=True,
                              cwd=self.folder, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        return done

    def stats(self, name="s.json"):
        return json.loads((self.folder / name).read_text())


class UsersFileTest(Case):
    # The variable, what else it takes, what the file is not, what is lost. A
    # dump needs a program that runs until something is compiled.
    KINDS = (
        ("TJIT_STATS", {}, "file of counters",
         "the counters of this run are lost"),
        ("TJIT_INSTRUCTION_LOG", {}, "instruction log",
         "this run is not logged"),
        ("TJIT_PROFILE", {}, "profile", "no profile is kept"),
        ("TJIT_DUMP_FILE", {"TJIT_DUMP": "plan", "TJIT_BACKEND": "interpreter",
                            "TJIT_COMPILE": "1"}, "dump", "the dump is lost"),
    )

    def run_with(self, variable, path, more, **keywords):
        mode = ["slow"] if variable == "TJIT_DUMP_FILE" else []
        return self.run_loop(*mode, **{variable: path, **more}, **keywords)

    def test_it_stays(self):
        for variable, more, kind, lost in self.KINDS:
            for name in ("script.py", "link"):
                with self.subTest(variable, name=name):
                    script = self.folder / "script.py"
                    script.write_text(SCRIPT)
                    (self.folder / "link").unlink(missing_ok=True)
                    (self.folder / "link").symlink_to("script.py")
                    done = self.run_with(variable, name, more)
                    self.assertEqual(script.read_text(), SCRIPT)
                    self.assertTrue((self.folder / "link").is_symlink())
                    self.assertEqual(done.stdout, self.expected)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertRegex(
                        done.stderr, rf'^tjit: {variable}: will not replace '
                        rf'"[^"]*(link|script\.py)": it is no {kind} of tjit, '
                        rf'but {len(SCRIPT)} bytes that {BEGINS}; name another '
                        rf'file, or remove this one; {lost}\n$')

    def test_one_of_an_earlier_run_is_replaced(self):
        for variable, more, _, _ in self.KINDS:
            with self.subTest(variable):
                file = self.folder / variable
                for _ in range(2):
                    done = self.run_with(variable, variable, more)
                    self.assertEqual(done.stderr, "")
                    self.assertGreater(file.stat().st_size, 50)
                    first = file.read_bytes()
                # Cut short it is still ours.
                file.write_bytes(first[:6])
                done = self.run_with(variable, variable, more)
                self.assertNotIn("will not replace", done.stderr)
                self.assertGreater(file.stat().st_size, 50)

    def test_nor_a_child_replaces_one(self):
        # A forked child writes PATH.PID, which nobody has by then.
        self.run_loop("fork", TJIT_STATS="s.json")
        self.assertEqual(len(list(self.folder.glob("s.json.*"))), 1)

    def test_standard_output_keeps_what_the_program_wrote(self):
        for variable, more, _, _ in self.KINDS:
            with self.subTest(variable):
                path = self.folder / "out"
                path.write_text("written before\n")
                with open(path, "a") as out:
                    self.run_with(variable, "/dev/stdout", more, stdout=out)
                text = path.read_text()
                self.assertTrue(text.startswith("written before\n"), text)
                self.assertIn(self.expected, text)


class NoOpsTest(Case):
    def check_zeros(self, why, **extra):
        self.run_loop(TJIT_STATS="s.json", **extra)
        stats = self.stats()
        self.assertEqual(stats["ops_seen"], 0)
        self.assertEqual(stats["sequence_details"], [])
        self.assertRegex(stats["why"], why)

    def test_nobody_switched_it_on(self):
        self.check_zeros("nobody switched tjit on: TJIT_AUTO_COMPILE is not 1",
                         on=False)

    def test_said_to_be_off(self):
        self.check_zeros("TJIT_DISABLE=1 keeps tjit off", TJIT_DISABLE="1")

    def test_an_earlier_runs_counters_do_not_stay(self):
        self.run_loop(TJIT_STATS="s.json")
        self.assertGreater(self.stats()["ops_seen"], 100)
        self.assertNotIn("why", self.stats())
        self.check_zeros("nobody", on=False)

    def test_on_stderr(self):
        done = self.run_loop(on=False, TJIT_STATS="-")
        self.assertIn("tjit saw no op: nobody switched tjit on", done.stderr)

    def test_no_op_came(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TJIT_")}
        env.update(TJIT_AUTO_COMPILE="1", TJIT_STATS="s.json",
                   TJIT_PROFILE="off", LD_PRELOAD=str(LIBTJIT))
        subprocess.run(["true"], env=env, cwd=self.folder, check=True,
                       timeout=60)
        self.assertIn("called no op of libtorch", self.stats()["why"])


class DisableTest(Case):
    SAID = ("tjit: TJIT_DISABLE=1 keeps tjit off, tjit::enable() included\n")

    def test_beats_enable(self):
        # small_loop calls tjit::enable() where tjit is asked for.
        for mode in ([], ["ten"]):
            done = self.run_loop(*mode, TJIT_DISABLE="1", TJIT_STATS="s.json",
                                 TJIT_INSTRUCTION_LOG="a.log",
                                 TJIT_STRESS="late")
            self.assertEqual(done.stdout, self.expected)
            self.assertEqual(done.stderr, self.SAID)
            self.assertEqual(self.stats()["ops_seen"], 0)
            self.assertFalse((self.folder / "a.log").exists())

    def test_says_nothing_where_nobody_calls(self):
        done = self.run_loop("slow", TJIT_DISABLE="yes", TJIT_STATS="s.json")
        self.assertEqual((done.stdout, done.stderr), (self.expected, ""))
        self.assertEqual(self.stats()["ops_seen"], 0)

    def test_off_is_not_on(self):
        self.run_loop(TJIT_DISABLE="no", TJIT_STATS="s.json")
        self.assertGreater(self.stats()["ops_seen"], 100)
        done = self.run_loop(TJIT_DISABLE="perhaps", TJIT_STATS="s.json")
        self.assertEqual(done.stderr, "tjit: TJIT_DISABLE=perhaps is not used, "
                         "accepted is 0, n, no, off, false, 1, y, yes, on or "
                         "true\n")
        self.assertGreater(self.stats()["ops_seen"], 100)


class SwitchTest(Case):
    def test_spellings(self):
        for word, is_on in (("yes", True), ("On", True), ("TRUE", True),
                            ("no", False), ("off", False), ("False", False)):
            self.run_loop("slow", on=False, TJIT_AUTO_COMPILE=word,
                          TJIT_STATS="s.json")
            self.assertEqual(self.stats()["ops_seen"] > 100, is_on, word)


if __name__ == "__main__":
    PROGRAM, LIBTJIT = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
