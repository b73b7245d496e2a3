"""The files that `tjit run` names: from anywhere, checked first, never lost.

What it proves: paths of options and of inherited variables are those of the
folder in which `tjit run` was called, whatever folder the program goes to; what
cannot be written, or is none of tjit's files, is said before the program
starts, which then runs without it; --stats of a program that never loads
libtorch, or of one that tjit stays out of, holds zeros and why; TJIT_DISABLE=1
runs the program untouched; switches take values.

Usage: run_files_test.py TJIT_COMMAND BIN_FOLDER LIB_FOLDER
                         [unittest arguments]
"""
import fcntl
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment, heed_modes

TJIT = BIN = LIB = None
SCRIPT = "import torch\n" * 30
USAGE = 2


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "elsewhere").mkdir()

    def tjit_run(self, *command, options=(), prepare=None, **extra):
        env = environment(**extra)
        return subprocess.run([TJIT, "run", *options, "--",
                               *(str(c) for c in command)], text=True, env=env,
                              cwd=self.folder, capture_output=True,
                              preexec_fn=prepare, timeout=120, check=False)

    def variables(self, **keywords):
        """What the program's environment is."""
        done = self.tjit_run("env", **keywords)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split("=", 1) for line in done.stdout.splitlines()
                    if line.startswith(("TJIT_", "LD_PRELOAD=")))

    def stats(self, name="s.json"):
        return json.loads((self.folder / name).read_text())


class FolderTest(Case):
    def test_a_program_that_changes_its_folder(self):
        done = self.tjit_run("sh", "-c", 'cd elsewhere && exec "$0"',
                             BIN / "unmodified_loop",
                             options=["--stats=s.json", "--log=./a.log"])
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["a.log", "elsewhere", "s.json"])
        self.assertEqual(list((self.folder / "elsewhere").iterdir()), [])
        self.assertGreater(self.stats()["ops_replayed"], 1000)

    def test_every_path_of_the_environment(self):
        (self.folder / "c.yaml").write_text("")
        names = {"TJIT_CONFIG": "c.yaml", "TJIT_STATS": "s.json",
                 "TJIT_INSTRUCTION_LOG": "a.log", "TJIT_DUMP_FILE": "d.txt",
                 "TJIT_PROFILE": "p.tjitprofile", "TJIT_CACHE_DIR": "cache"}
        got = self.variables(**names)
        for variable, name in names.items():
            self.assertEqual(got[variable], f"{self.folder}/{name}")
        got = self.variables(options=["--config=c.yaml", "--log=b.log"])
        self.assertEqual(got["TJIT_CONFIG"], f"{self.folder}/c.yaml")
        self.assertEqual(got["TJIT_INSTRUCTION_LOG"], f"{self.folder}/b.log")

    def test_what_is_no_path_stays(self):
        names = {"TJIT_STATS": "-", "TJIT_PROFILE": "off",
                 "TJIT_CACHE_DIR": "off"}
        got = self.variables(**names)
        for variable, value in names.items():
            self.assertEqual(got[variable], value)
        self.assertEqual(self.variables(TJIT_CACHE_DIR="")["TJIT_CACHE_DIR"],
                         "")
        self.assertEqual(self.variables(TJIT_STATS="/dev/null")["TJIT_STATS"],
                         "/dev/null")


class NoOpsTest(Case):
    def check_zeros(self, why, *command, status=0, **keywords):
        (self.folder / "s.json").write_text('{\n  "ops_seen": 77\n}\n')
        done = self.tjit_run(*command, options=["--stats=s.json"], **keywords)
        self.assertEqual(done.returncode, status, done.stderr)
        stats = self.stats()
        self.assertEqual(stats["ops_seen"], 0)
        self.assertRegex(stats["why"], why)
        explained = subprocess.run([TJIT, "explain", self.folder / "s.json"],
                                   text=True, capture_output=True,
                                   env=environment(), check=True, timeout=60)
        self.assertIn("tjit saw no op: " + stats["why"], explained.stdout)
        return done

    def test_a_program_without_libtorch(self):
        done = self.check_zeros("no process of the program loaded a libtorch",
                                "sh", "-c", "echo x; exit 3", status=3)
        self.assertEqual((done.stdout, done.stderr), ("x\n", ""))

    def test_a_static_program(self):
        self.check_zeros("cannot be preloaded into the program: it is "
                         "statically linked", BIN / "static_program", status=3)

    def test_switched_off(self):
        self.check_zeros("TJIT_AUTO_COMPILE is not 1", BIN / "unmodified_loop",
                         status=7, TJIT_AUTO_COMPILE="0")

    def test_disabled(self):
        self.check_zeros("TJIT_DISABLE=1 keeps tjit off",
                         BIN / "unmodified_loop", status=7, TJIT_DISABLE="on")

    def test_children_without_libtorch_leave_the_counters(self):
        done = self.tjit_run("sh", "-c", 'true; "$0"; true; sh -c true',
                             BIN / "unmodified_loop",
                             options=["--stats=s.json"])
        self.assertEqual(done.stderr, "")
        self.assertGreater(self.stats()["ops_replayed"], 1000)
        self.assertNotIn("why", self.stats())

    def test_another_run_that_has_seen_ops_keeps_the_file(self):
        with open(self.folder / "s.json", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = self.tjit_run("true", options=["--stats=s.json"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "s.json").read_text(), "")


class BadPathTest(Case):
    OPTIONS = (("--stats", "TJIT_STATS", "the counters of this run are lost"),
               ("--log", "TJIT_INSTRUCTION_LOG", "this run is not logged"),
               (None, "TJIT_DUMP_FILE", "the dump is lost"),
               (None, "TJIT_PROFILE", "no profile is kept"))

    def run_with(self, option, variable, path, **keywords):
        if option is not None:
            return self.tjit_run("sh", "-c", "echo starts >&2; env",
                                 options=[f"{option}={path}"], **keywords)
        return self.tjit_run("sh", "-c", "echo starts >&2; env",
                             TJIT_DUMP="all", **{variable: path}, **keywords)

    def check_without(self, variable, done):
        """The program ran, and behind what was said, without the file."""
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stderr.endswith("\nstarts\n"), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 2, done.stderr)
        for line in done.stdout.splitlines():
            self.assertFalse(line.startswith(variable + "=") and
                             line != "TJIT_PROFILE=off", line)
            if variable == "TJIT_DUMP_FILE":  # not to stderr instead
                self.assertFalse(line.startswith("TJIT_DUMP="))

    def test_said_before_the_program_starts(self):
        for option, variable, lost in self.OPTIONS:
            for path, why in (("missing/x", "No such file or directory"),
                              ("elsewhere", "Is a directory")):
                with self.subTest(variable, path=path):
                    done = self.run_with(option, variable, path)
                    self.assertIn(f'tjit: {variable}: cannot write '
                                  f'"{self.folder}/{path}": {why}; {lost}\n',
                                  done.stderr)
                    self.check_without(variable, done)

    def test_a_file_that_may_not_be_written(self):
        (self.folder / "s.json").write_text("")
        (self.folder / "s.json").chmod(0o400)
        done = self.run_with("--stats", "TJIT_STATS", "s.json",
                             prepare=heed_modes)
        self.assertIn('s.json": Permission denied; the counters', done.stderr)

    def test_a_users_file_stays(self):
        script = self.folder / "script.py"
        for option, variable, lost in self.OPTIONS:
            with self.subTest(variable):
                script.write_text(SCRIPT)
                done = self.run_with(option, variable, "script.py")
                self.assertEqual(script.read_text(), SCRIPT)
                self.assertRegex(
                    done.stderr, rf'^tjit: {variable}: will not replace '
                    rf'"{script}": it is no [a-z ]+ of tjit, but '
                    rf'{len(SCRIPT)} bytes that begin with "import torch"; '
                    rf'name another file, or remove this one; {lost}\n')
                self.check_without(variable, done)


class DisableTest(Case):
    def test_untouched(self):
        done = self.tjit_run("sh", "-c",
                             "cat /proc/self/maps; echo \"[$LD_PRELOAD]\"",
                             TJIT_DISABLE="1")
        self.assertEqual(done.stderr, "")
        self.assertNotIn("libtjit", done.stdout)
        self.assertIn("[]", done.stdout.splitlines())
        got = self.variables(TJIT_DISABLE="yes")
        self.assertNotIn("TJIT_AUTO_COMPILE", got)
        self.assertNotIn("LD_PRELOAD", got)
        self.assertEqual(got["TJIT_DISABLE"], "yes")
        # Off, it is as if it were not there.
        self.assertIn("LD_PRELOAD", self.variables(TJIT_DISABLE="0"))

    def test_an_outer_run_has_preloaded_it(self):
        done = self.tjit_run("env", "TJIT_DISABLE=1", BIN / "unmodified_loop",
                             options=["--stats=s.json"])
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertIn("TJIT_DISABLE=1", self.stats()["why"])


class SwitchTest(Case):
    def test_values(self):
        got = self.variables(options=["--debug=no", "--strict=Yes",
                                      "--compile", "--shadow=off"])
        self.assertEqual([got["TJIT_DEBUG_COMPILE"], got["TJIT_STRICT"],
                          got["TJIT_COMPILE"], got["TJIT_SHADOW"]],
                         ["0", "1", "1", "0"])
        done = self.tjit_run("true", options=["--debug=maybe"])
        self.assertEqual((done.returncode, done.stderr),
                         (USAGE, "tjit run: --debug=maybe is not used, "
                          "accepted is 0, n, no, off, false, 1, y, yes, on or true\n"))


if __name__ == "__main__":
    TJIT, BIN, LIB = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
