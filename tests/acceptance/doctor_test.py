"""`tjit doctor` and `tjit --version` tell the truth.

What it proves: --version names the commit, the build-id of the libtorch in use
and LLVM; doctor says yes exactly of programs in which `tjit run` replays ops,
C++ and Python, and no, with what to do, of every kind of program and setting in
which it cannot; it runs nothing of the program; a wrong command line is one
sentence.

Usage: doctor_test.py TJIT_COMMAND BIN_FOLDER LIB_FOLDER TORCH_FOLDER
                      [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment, heed_modes
from torch_python import torch_python

TJIT = BIN = LIB = TORCH = None
HERE = pathlib.Path(__file__).resolve().parent
SERVED, NOT_SERVED, USAGE = 0, 1, 2


def run(*command, cwd=None, **extra):
    return subprocess.run([str(c) for c in command], env=environment(**extra),
                          cwd=cwd, text=True, capture_output=True, timeout=120,
                          preexec_fn=heed_modes, check=False)


def readelf_build_id(library):
    notes = run("readelf", "-n", library).stdout
    return re.search("Build ID: ([0-9a-f]+)", notes).group(1)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def doctor(self, status, *program, tjit=None, **extra):
        """Returns what it says behind the version."""
        separator = ["--"] if program else []
        done = run(tjit or TJIT, "doctor", *separator, *program, **extra)
        self.assertEqual((done.returncode, done.stderr), (status, ""),
                         done.stdout)
        last = done.stdout.splitlines()[-1]
        for line in done.stdout.splitlines()[4:-1]:
            self.assertRegex(line, "^(ok   |note |NO   |      do:) ")
        answers = {SERVED: "tjit (serves this program|is ready): ",
                   NOT_SERVED: "tjit (does not serve this program|is not "
                               "ready): see NO above"}
        self.assertRegex(last, answers[status])
        self.assertEqual(status == NOT_SERVED, "\nNO " in done.stdout)
        return done.stdout

    def refuses(self, text, *program, remedy="", **extra):
        said = self.doctor(NOT_SERVED, *program, **extra)
        self.assertIn(text, said)
        line = re.search("^NO .*\n(.*)", said, re.MULTILINE).group(1)
        self.assertTrue(line.startswith("      do: "), said)
        self.assertIn(remedy, line)

    def replays(self, *program, **extra):
        stats = self.folder / "stats.json"
        run(TJIT, "run", f"--stats={stats}", "--", *program, **extra)
        return json.loads(stats.read_text())["ops_replayed"] > 0

    def other_torch(self, version=None):
        """A folder lib/ with a libtorch_cpu.so of another build."""
        lib = self.folder / "torch" / "lib"
        lib.mkdir(parents=True)
        shutil.copy(BIN / "other_torch" / "libtorch_cpu.so", lib)
        if version:
            (lib.parent / "version.py").write_text(
                f"__version__ = '{version}'\n")
        return lib


class VersionTest(Case):
    def test_names_all(self):
        lines = run(TJIT, "--version").stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[0], r"^tjit \d+\.\d+\.\d+$")
        root = HERE.parents[1]
        git = run("git", "-C", root, "rev-parse", "--short=12", "HEAD")
        top = run("git", "-C", root, "rev-parse", "--show-toplevel")
        if top.stdout.strip() == str(root):
            self.assertRegex(lines[1], "^commit [0-9a-f]{12}(, with changes)?$")
            if os.access(root / ".git" / "HEAD", os.R_OK):
                self.assertIn(git.stdout.strip(), lines[1])
        else:
            self.assertEqual(lines[1], "commit unknown")
        self.assertRegex(lines[2], r"^libtorch 2\.\d+\.\d+, build-id "
                         + readelf_build_id(TORCH / "lib/libtorch_cpu.so"))
        self.assertRegex(lines[3], r"^LLVM (none|\d+\.\d+\.\d+)$")


class ServedTest(Case):
    def check(self, *program, **extra):
        said = self.doctor(SERVED, *program, **extra)
        self.assertIn(f"{TORCH}/lib/libtorch_cpu.so, which this tjit was built "
                      "for", said)
        self.assertTrue(self.replays(*program, **extra), program)

    def test_installation(self):
        said = self.doctor(SERVED)
        for name in ("libtjit_preload.so", "libtjit.so"):
            self.assertIn(f"ok    {LIB / name}", said)

    def test_linked(self):
        self.check(BIN / "unmodified_loop")
        self.check("unmodified_loop", PATH=f"{BIN}:{os.environ['PATH']}")
        self.check("env", "-u", "NOTHING", "A=b", BIN / "unmodified_loop")

    def test_linked_to_tjit_too(self):
        self.check(BIN / "digits", HERE.parents[1] / "examples" / "data" /
                   "digits.csv", "1", self.folder / "saved")

    def test_python(self):
        python = torch_python(TORCH)
        if python is None:
            self.skipTest(f"no Python interpreter imports the torch in {TORCH}")
        self.check(python, "-W", "ignore", HERE / "train_mlp.py")
        script = self.folder / "script"
        for line in (f"#!{python}", f"#!/usr/bin/env -S {python} -W ignore"):
            script.write_text(f"{line}\nimport pathlib, torch\n"
                              f"pathlib.Path('{self.folder}/ran').touch()\n")
            script.chmod(0o755)
            self.doctor(SERVED, script)
            self.assertFalse((self.folder / "ran").exists())
        # What lies beside the script is imported, and it is no libtorch.
        (self.folder / "torch.py").write_text("")
        self.refuses("has no torch", script)


class NotServedTest(Case):
    def test_programs_that_cannot_be_run(self):
        plain = self.folder / "plain"
        plain.write_text("print()\n")
        self.refuses("no program no-such-program in PATH", "no-such-program")
        self.refuses(f"{self.folder}/none is not there", self.folder / "none")
        self.refuses(f"{plain} is no program", plain,
                     remedy=f"tjit doctor -- python3 {plain}")
        self.refuses(f"{self.folder} is no program", self.folder)

    def test_static(self):
        self.refuses("it is statically linked", BIN / "static_program")

    def test_without_torch(self):
        self.refuses("ls links no libtorch", "ls", "-l",
                     remedy="ask for the program that does")
        self.refuses("sh links no libtorch", "sh", "-c", "true")

    def test_other_torch(self):
        lib = self.other_torch(version="2.14.9")
        self.refuses(f"libtorch 2.14.9 of {lib}/libtorch_cpu.so, whose "
                     "libtorch_cpu.so is with build-id "
                     f"{readelf_build_id(lib / 'libtorch_cpu.so')}; this tjit "
                     "was built for libtorch 2.", BIN / "unmodified_loop",
                     LD_LIBRARY_PATH=str(lib),
                     remedy="scripts/quickstart.sh --torch="
                            f"{self.folder}/torch")

    def test_old_torch(self):
        lib = self.other_torch(version="2.12.1+cu130")
        self.refuses(f"libtorch 2.12.1+cu130 of {lib}/libtorch_cpu.so, and "
                     "tjit needs 2.13 or newer", BIN / "unmodified_loop",
                     LD_LIBRARY_PATH=str(lib), remedy="bring it up to date")

    def test_python(self):
        python = sys.executable
        empty = self.folder / "empty.py"
        empty.write_text("")
        self.refuses("the script no-such.py cannot be read", python,
                     "no-such.py")
        lib = self.other_torch(version="2.14.9")
        (lib.parent / "__init__.py").write_text("raise SystemExit\n")
        self.refuses(f"loads libtorch 2.14.9 of {lib}/libtorch_cpu.so", python,
                     empty, PYTHONPATH=str(self.folder))

    def test_library_is_missing(self):
        program = self.folder / "program"
        data = (BIN / "unmodified_loop").read_bytes()
        self.assertIn(b"\0libc10.so\0", data)
        program.write_bytes(data.replace(b"\0libc10.so\0", b"\0libc99.so\0"))
        program.chmod(0o755)
        self.refuses("cannot start: the loader does not find libc99.so",
                     program, remedy="LD_LIBRARY_PATH")

    def test_address_sanitizer(self):
        library = self.folder / "libasan.so.8"
        data = (BIN / "other_torch" / "libtorch_cpu.so").read_bytes()
        library.write_bytes(data.replace(b"\0libtorch_cpu.so\0",
                                         b"\0libasan.so.8...\0"))
        program = BIN / "unmodified_loop"
        self.refuses("is built with AddressSanitizer", program,
                     LD_PRELOAD=str(library),
                     remedy="ASAN_OPTIONS=verify_asan_link_order=0")
        self.doctor(SERVED, program, LD_PRELOAD=str(library),
                    ASAN_OPTIONS="verify_asan_link_order=0")

    def test_switched_off(self):
        self.refuses("TJIT_AUTO_COMPILE=0 is set", TJIT_AUTO_COMPILE="0",
                     remedy="unset TJIT_AUTO_COMPILE")
        self.refuses("TJIT_DISABLE is set", BIN / "unmodified_loop",
                     TJIT_DISABLE="1", remedy="unset TJIT_DISABLE")
        self.doctor(SERVED, TJIT_DISABLE="0", TJIT_AUTO_COMPILE="1")

    def test_preloaded(self):
        for name in ("libtjit.so", "libtjit_preload.so"):
            library = self.folder / name
            shutil.copy(BIN / "other_torch" / "libtorch_cpu.so", library)
            self.refuses(f"LD_PRELOAD names another tjit: {library}",
                         LD_PRELOAD=f"libm.so.6:{library}",
                         remedy="unset LD_PRELOAD")
        said = self.doctor(SERVED, LD_PRELOAD="libm.so.6 "
                           f"{LIB / 'libtjit_preload.so'}")
        self.assertIn("note  LD_PRELOAD names libm.so.6: it stays", said)


class InstallationTest(Case):
    def copy(self):
        """Most of an installation."""
        for name in ("bin", "lib"):
            (self.folder / name).mkdir()
        shutil.copy(TJIT, self.folder / "bin")
        for name in ("libtjit_preload.so", "libtjit.so", "libtjit_yaml.so"):
            shutil.copy(LIB / name, self.folder / "lib")
        return self.folder / "bin" / "tjit"

    def test_incomplete(self):
        tjit = self.copy()
        said = self.doctor(SERVED, tjit=tjit)
        self.assertIn("note  libtjit_llvm.so is not there", said)
        (self.folder / "lib" / "libtjit_preload.so").unlink()
        self.refuses("libtjit_preload.so does not lie in ", tjit=tjit)

    def test_another_build(self):
        tjit = self.copy()
        library = self.folder / "lib" / "libtjit.so"
        shutil.copy(BIN / "other_torch" / "libtorch_cpu.so", library)
        self.refuses(f"{library} is of another build than {tjit}", tjit=tjit)

    def test_path_with_a_space(self):
        self.folder = self.folder / "a b"
        self.folder.mkdir()
        self.refuses("its path has a space or a colon", tjit=self.copy())

    def test_cache(self):
        folder = self.folder / "cache"
        said = self.doctor(SERVED, TJIT_CACHE_DIR=str(folder / "deep"))
        self.assertIn(f"ok    compiled code is kept in {folder}/deep", said)
        self.assertFalse(folder.exists())
        folder.mkdir()
        for mode, why in ((0o777, "every user may write to it"),
                          (0o555, f"{folder} cannot be written to")):
            folder.chmod(mode)
            said = self.doctor(SERVED, TJIT_CACHE_DIR=str(folder))
            self.assertIn("note  compiled code cannot be kept in "
                          f"{folder}: {why}", said)
        self.assertIn("note  compiled code is not kept",
                      self.doctor(SERVED, TJIT_CACHE_DIR="off"))


class UsageTest(Case):
    def test_usage(self):
        for words, text in ((["--frob"], "unknown option --frob"),
                            (["--"], "no program given")):
            done = run(TJIT, "doctor", *words)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        for words in (["--help"], ["doctor", "--help"]):
            done = run(TJIT, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("tjit doctor [-- program", done.stdout)
        self.assertIn("--version", run(TJIT, "--help").stdout)


if __name__ == "__main__":
    TJIT, BIN, LIB, TORCH = (pathlib.Path(p).resolve()
                             for p in sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
