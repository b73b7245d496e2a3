"""`tjit run -- program` changes nothing but the speed.

What it proves: programs that know nothing of tjit (linked to libtorch, loading
it late by path, by name, in a forked child, a Python training loop) compute
the same bits under it and replay most of their ops; exit status, signals,
stdin, arguments and children are the program's own; programs without libtorch
load nothing and start as fast; every bad command line ends with a sentence;
another libtorch leaves tjit inert, said once; the libraries export nothing of
third parties.

Usage: run_test.py TJIT_COMMAND BIN_FOLDER LIB_FOLDER TORCH_FOLDER
                   [unittest arguments]
"""
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from clean_environment import environment
from torch_python import torch_python

TJIT = BIN = LIB = TORCH = None
HERE = pathlib.Path(__file__).resolve().parent
USAGE, CANNOT_RUN, NOT_FOUND = 2, 126, 127


def run(*command, **extra):
    return subprocess.run([str(c) for c in command], env=environment(**extra),
                          text=True, capture_output=True, timeout=120,
                          check=False)


def tjit_run(*command, options=(), **extra):
    return run(TJIT, "run", *options, "--", *command, **extra)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_same_and_replays(self, *command, share=0.8):
        """The same with and without, and most ops replayed."""
        plain = run(*command)
        stats = self.folder / "stats.json"
        done = tjit_run(*command, options=[f"--stats={stats}"])
        self.assertEqual(done.stderr, plain.stderr)
        self.assertEqual(done.returncode, plain.returncode)
        self.assertEqual(done.stdout, plain.stdout)
        self.assertNotEqual(done.stdout, "")
        did = json.loads(stats.read_text())
        self.assertGreater(did["ops_seen"], 1000)
        # What a trial whether a sequence pays has run eagerly: three blocks of
        # 16 runs (policy.def) where its runs took half a second.
        tried = sum(48 * s["ops"] for s in did["sequence_details"]
                    if s["replays"] * s["replay_ns"] > 5e8)
        self.assertGreaterEqual(did["ops_replayed"],
                                share * (did["ops_seen"] - tried), did)
        return plain


class UnmodifiedProgramTest(Case):
    def test_linked(self):
        done = self.check_same_and_replays(BIN / "unmodified_loop")
        self.assertEqual(done.returncode, 7)

    def test_digits(self):
        """As with the API: the same parameters, as much replayed."""
        results = {}
        for name, command in (("off", []), ("api", []),
                              ("run", [TJIT, "run", "--"])):
            stats = self.folder / f"{name}.json"
            on = {"TJIT_AUTO_COMPILE": "1"} if name == "api" else {}
            done = run(*command, BIN / "digits",
                       HERE.parents[1] / "examples" / "data" / "digits.csv",
                       "3", self.folder / name, TJIT_STATS=str(stats), **on)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with zipfile.ZipFile(self.folder / name) as archive:
                tensors = {n.split("/", 1)[1]: archive.read(n)
                           for n in archive.namelist() if "/data/" in n}
            results[name] = tensors, json.loads(stats.read_text())
        self.assertGreaterEqual(len(results["off"][0]), 30)
        for name in ("api", "run"):
            self.assertEqual(results[name][0], results["off"][0], name)
        self.assertEqual(results["off"][1]["ops_replayed"], 0)
        self.assertGreater(results["run"][1]["ops_replayed"], 3000)
        self.assertGreaterEqual(results["run"][1]["ops_replayed"],
                                results["api"][1]["ops_replayed"])

    def test_linked_to_tjit_too(self):
        done = tjit_run(BIN / "small_loop")
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertEqual(done.stdout, run(BIN / "small_loop").stdout)

    def test_loaded_late_by_path(self):
        self.check_same_and_replays(BIN / "late_loader",
                                    LIB / "libunmodified_loop_library.so")

    def test_loaded_late_by_name(self):
        # Only the program's RUNPATH finds it.
        self.check_same_and_replays(BIN / "late_loader",
                                    "libunmodified_loop_library.so")

    def test_loaded_late_in_a_forked_child(self):
        self.check_same_and_replays(BIN / "late_loader", "fork-first",
                                    LIB / "libunmodified_loop_library.so")

    def test_switched_off(self):
        done = tjit_run(BIN / "unmodified_loop", TJIT_AUTO_COMPILE="0",
                        TJIT_STATS=str(self.folder / "s.json"))
        self.assertEqual(done.stdout, run(BIN / "unmodified_loop").stdout)
        self.assertEqual(json.loads((self.folder / "s.json").read_text())
                         ["ops_seen"], 0)

    def test_python(self):
        python = torch_python(TORCH)
        if python is None:
            self.skipTest(f"no Python interpreter imports the torch in {TORCH}")
        self.check_same_and_replays(python, "-W", "ignore",
                                    HERE / "train_mlp.py")
        # What backward and the optimizer call inside libtorch too, although
        # Python registers kernels of its own for other tensors.
        did = json.loads((self.folder / "stats.json").read_text())
        self.assertGreater(did["ops_direct"], did["ops_seen"] / 5, did)


class PendingReadsTest(Case):
    def test_every_way_to_look_into_a_tensor(self):
        python = torch_python(TORCH)
        if python is None:
            self.skipTest(f"no Python interpreter imports the torch in {TORCH}")
        program = [python, "-W", "ignore", HERE / "pending_reads.py"]
        plain = run(*program)
        done = tjit_run(*program, LIB / "libpending_count.so",
                        options=["--hot-threshold=2"])
        for result in plain, done:
            self.assertEqual(result.returncode, 0, result.stderr)
        plain, done = ({name: (value, int(pending)) for name, value, pending in
                        map(str.split, result.stdout.splitlines())}
                       for result in (plain, done))
        self.assertGreater(len(plain), 60)
        self.assertEqual(plain.keys(), done.keys())
        for name, (value, pending) in done.items():
            with self.subTest(name):
                self.assertEqual(value, plain[name][0])
                self.assertEqual(pending, 5)


class PassThroughTest(Case):
    def test_exit_status(self):
        for status in (0, 1, 2, 126, 255):
            done = tjit_run("sh", "-c", f"exit {status}")
            self.assertEqual(done.returncode, status)
            self.assertEqual(done.stderr, "")

    def test_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            child = subprocess.Popen([TJIT, "run", "--", "sleep", "60"],
                                     env=environment())
            # It is the same process, so the signal reaches the program.
            while not pathlib.Path(f"/proc/{child.pid}/comm").read_text(
                    ).startswith("sleep"):
                time.sleep(0.01)
            child.send_signal(number)
            self.assertEqual(child.wait(60), -number)

    def test_stdin_and_arguments(self):
        done = subprocess.run([TJIT, "run", "--", "cat", "-", "--", "-"],
                              input="a\nb", env=environment(), text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "a\nb"))
        done = tjit_run("printf", "%s|", "--help", "", "a b", "--")
        self.assertEqual(done.stdout, "--help||a b|--|")

    def test_children(self):
        # A shell, and in it one child without libtorch and one with it.
        plain = run(BIN / "unmodified_loop").stdout
        stats = self.folder / "s.json"
        done = tjit_run("sh", "-c", 'echo x | cat; "$0"; exit $?',
                        BIN / "unmodified_loop", options=[f"--stats={stats}"])
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertEqual(done.stdout, "x\n" + plain)
        self.assertGreater(json.loads(stats.read_text())["ops_replayed"], 1000)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["s.json"])

    def test_keeps_what_is_preloaded(self):
        done = tjit_run("sh", "-c", 'echo "$LD_PRELOAD"',
                        LD_PRELOAD="libm.so.6")
        self.assertEqual(done.stdout.strip(),
                         f"{LIB / 'libtjit_preload.so'}:libm.so.6")

    def test_options(self):
        done = tjit_run("env", options=["--compile", "--debug",
                                        "--fast-math", "--hot-threshold=3",
                                        "--shadow", "--strict",
                                        "--stress=late,shuffle:3"],
                        TJIT_STATS="-")
        for line in ("TJIT_COMPILE=1", "TJIT_DEBUG_COMPILE=1", "TJIT_STATS=-",
                     "TJIT_SHADOW=1", "TJIT_STRICT=1", "TJIT_FAST_MATH=1",
                     "TJIT_STRESS=late,shuffle:3",
                     "TJIT_HOT_THRESHOLD=3", "TJIT_AUTO_COMPILE=1"):
            self.assertIn(line, done.stdout.splitlines())
        done = tjit_run("env", options=["--nan", "--shadow=sample:1000"])
        for line in ("TJIT_NAN=1", "TJIT_SHADOW=sample:1000"):
            self.assertIn(line, done.stdout.splitlines())


class WithoutTorchTest(Case):
    def test_loads_nothing(self):
        done = tjit_run("cat", "/proc/self/maps")
        self.assertIn("libtjit_preload.so", done.stdout)
        for library in ("libtjit.so", "libtorch", "libc10", "libstdc++"):
            self.assertNotIn(library, done.stdout)

    def test_start_up_time(self):
        def seconds(env):
            begin = time.perf_counter()
            subprocess.run(["/bin/true"], env=env, check=True)
            return time.perf_counter() - begin

        without = environment()
        under = environment(LD_PRELOAD=str(LIB / "libtjit_preload.so"))
        times = [(seconds(without), seconds(under)) for _ in range(200)]
        differences = [b - a for a, b in times]
        self.assertLess(statistics.median(differences), 2e-3)


class BadInputTest(Case):
    def check(self, status, text, *command):
        done = run(TJIT, *command)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_usage(self):
        self.check(USAGE, "no subcommand given")
        self.check(USAGE, "accepted are run, doctor, explain, report, graph, log, "
                   "timeline, top, attach, replay, package, cache, --help and "
                   "--version, not rum", "rum")
        self.check(USAGE, "no program given", "run")
        self.check(USAGE, "no program given", "run", "--")
        self.check(USAGE, "unknown option --fast; accepted are --help, "
                   "--compile, --config=FILE, --debug, --fast-math, "
                   "--hot-threshold=N, --log=FILE, --log-mb=N, --nan, "
                   "--print-config, --repro=WHICH, --repro-dir=FOLDER, --shadow, "
                   "--stats=FILE, --stress=MODES, --strict",
                   "run", "--fast", "--", "true")
        self.check(USAGE, "--stats needs a value: --stats=FILE",
                   "run", "--stats", "--", "true")
        self.check(USAGE, "--shadow=sample:0 is not used, accepted is 0, n, no, "
                   "off, false, 1, y, yes, on or true, or sample:N with a "
                   "whole number N from 1 to 1000000000",
                   "run", "--shadow=sample:0", "true")
        self.check(USAGE, "--debug=2 is not used, accepted is 0, n, no, off, "
                   "false, 1, y, yes, on or true", "run", "--debug=2", "true")
        self.check(USAGE, "--hot-threshold=1 is not used, accepted is a whole "
                   "number from 2 to 1000000", "run", "--hot-threshold=1",
                   "true")
        for modes in ("hide,late", "later", "shuffle:", "late,"):
            self.check(USAGE, f"--stress={modes} is not used, accepted is "
                       "hide, or some of late, check, shuffle, shuffle:SEED "
                       "with commas between", "run", f"--stress={modes}",
                       "true")

    def test_programs_that_cannot_be_run(self):
        plain = self.folder / "plain"
        plain.write_text("#!/bin/sh\n")
        no_interpreter = self.folder / "script"
        no_interpreter.write_text("#!/no/such/interpreter\n")
        no_interpreter.chmod(0o755)
        self.check(NOT_FOUND, f"cannot run {self.folder}/none: No such file",
                   "run", "--", self.folder / "none")
        self.check(NOT_FOUND, "cannot run no-such-program: No such file",
                   "run", "--", "no-such-program")
        self.check(NOT_FOUND, f"cannot run {no_interpreter}: No such file",
                   "run", "--", no_interpreter)
        self.check(CANNOT_RUN, f"cannot run {plain}: Permission denied",
                   "run", "--", plain)
        self.check(CANNOT_RUN, f"cannot run {self.folder}: Permission denied",
                   "run", "--", self.folder)

    def test_static_program_runs_untouched(self):
        done = tjit_run(BIN / "static_program")
        self.assertEqual((done.returncode, done.stdout), (3, "static\n"))
        self.assertIn("runs without tjit: it is statically linked",
                      done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_shim_is_missing(self):
        (self.folder / "bin").mkdir()
        lonely = self.folder / "bin" / "tjit"
        shutil.copy(TJIT, lonely)
        done = run(lonely, "run", "--", "true")
        self.assertEqual(done.returncode, CANNOT_RUN)
        self.assertIn("is tjit installed completely?", done.stderr)

    def test_libtjit_is_missing(self):
        shutil.copy(LIB / "libtjit_preload.so", self.folder)
        done = run(BIN / "unmodified_loop", TJIT_AUTO_COMPILE="1",
                   LD_PRELOAD=str(self.folder / "libtjit_preload.so"))
        self.assertEqual(done.stdout, run(BIN / "unmodified_loop").stdout)
        self.assertEqual(done.returncode, 7)
        self.assertIn("tjit: inert: ", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help_and_version(self):
        for command in (["--help"], ["run", "--help"], ["--version"]):
            done = run(TJIT, *command)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^tjit \d+\.\d+\.\d+\n")
        self.assertIn("--stats=FILE", run(TJIT, "run", "--help").stdout)


class OtherTorchTest(Case):
    def fake(self, **files):
        """A libtorch_cpu.so of another build, with files beside lib/."""
        lib = self.folder / "lib"
        lib.mkdir(exist_ok=True)
        shutil.copy(BIN / "other_torch" / "libtorch_cpu.so", lib)
        for name, text in files.items():
            (self.folder / name.replace("_py", ".py").replace(
                "build_", "build-")).write_text(text)
        return lib / "libtorch_cpu.so"

    def check_inert(self, library, text):
        done = tjit_run(BIN / "late_loader", "torch", library,
                        LD_DEBUG="files", LD_DEBUG_OUTPUT=str(
                            self.folder / "debug"))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("tjit: inert: " + text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        # It looked before it loaded anything.
        loaded = "".join(p.read_text() for p in self.folder.glob("debug*"))
        self.assertIn("libtorch_cpu.so", loaded)
        self.assertNotIn("libtjit.so", loaded)

    def test_too_old(self):
        for files in ({"version_py": "__version__ = '2.12.1+cpu'\n"},
                      {"build_version": "1.13.0\n"}):
            with self.subTest(files):
                library = self.fake(**files)
                version = "2.12.1+cpu" if "version_py" in files else "1.13.0"
                self.check_inert(library, f"libtorch {version} ({library}) is "
                                 "too old: tjit needs 2.13 or newer")
                (self.folder / "version.py").unlink(missing_ok=True)

    def test_loaded_twice(self):
        # The second one is only a file of the name, under a soname of its own
        # so that it is not taken for the first.
        library = self.fake()
        data = library.read_bytes()
        self.assertEqual(data.count(b"\0libtorch_cpu.so\0"), 1)
        library.write_bytes(data.replace(b"\0libtorch_cpu.so\0",
                                         b"\0libtorch_two.so\0"))
        expected = run(BIN / "unmodified_loop")
        done = tjit_run(BIN / "unmodified_loop", LD_PRELOAD=str(library))
        self.assertEqual((done.returncode, done.stdout),
                         (7, expected.stdout))
        self.assertIn("tjit: inert: this process has loaded libtorch_cpu.so 2 "
                      "times, the last from ", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_another_one_comes_later(self):
        # tjit serves the first one, and goes on.
        stats = self.folder / "s.json"
        done = tjit_run(BIN / "late_loader", "twice", self.fake(),
                        LIB / "libunmodified_loop_library.so",
                        options=[f"--stats={stats}"])
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertEqual(done.stdout, run(BIN / "unmodified_loop").stdout)
        self.assertGreater(json.loads(stats.read_text())["ops_replayed"], 1000)

    def test_in_a_namespace_of_its_own(self):
        # Nothing is preloaded there.
        library = LIB / "libunmodified_loop_library.so"
        plain = run(BIN / "late_loader", "dlmopen", library)
        done = tjit_run(BIN / "late_loader", "dlmopen", library)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (plain.returncode, plain.stdout, plain.stderr))

    def test_another_build(self):
        library = self.fake(version_py="__version__ = '2.13.0'\n")
        self.check_inert(library, f"this process loads {library} with "
                         "build-id ")


class ExportsTest(Case):
    def names(self, library):
        done = run("nm", "-DC", "--defined-only", library)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split(maxsplit=2)[2] for line in done.stdout.splitlines()]

    def test_no_third_party_symbol(self):
        for library, least in (("libtjit.so", 90),
                               ("libtjit_preload.so", 90),
                               ("libtjit_yaml.so", 1)):
            names = self.names(LIB / library)
            self.assertGreaterEqual(len(names), least)
            for name in names:
                for word in ("absl", "spdlog", "fmt::", "XXH", "xxh", "YAML"):
                    self.assertNotIn(word, name)

    def test_shim_needs_libc_alone(self):
        done = run("readelf", "-d", LIB / "libtjit_preload.so")
        needed = [line for line in done.stdout.splitlines()
                  if "(NEEDED)" in line]
        for line in needed:
            self.assertRegex(line, r"lib(c|dl)\.so|ld-linux")

    def test_libtjit_can_be_loaded_late(self):
        # glibc keeps 1664 bytes of static thread storage for all libraries
        # that come late; torch's own libgomp takes some.
        done = run("readelf", "-lW", LIB / "libtjit.so")
        tls = [line.split() for line in done.stdout.splitlines()
               if line.split()[:1] == ["TLS"]]
        self.assertLess(int(tls[0][5], 16), 512)


if __name__ == "__main__":
    TJIT, BIN, LIB, TORCH = (pathlib.Path(p).resolve()
                             for p in sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
