"""Hot profiles: the second process of a program does not learn anew.

What it proves: a process that ends writes what it promoted into the cache
folder (or TJIT_PROFILE), the next one replays it after a step instead of after
TJIT_HOT_THRESHOLD sightings and, with TJIT_BACKEND=llvm, compiles nothing, all
with eager's bits; it writes nothing where there is nothing new; off is off;
several programs, several processes at once; what is damaged, cut, another
build's, a folder or a file that cannot be written to, is said once and changes
nothing else; `tjit cache` lists, verifies and clears profiles.

Scripts of one interpreter are programs of their own, however they are named.

Usage: profile_test.py TJIT_COMMAND BIN_FOLDER TORCH_FOLDER|none
                       [unittest arguments]
"""
import json
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment, heed_modes
from torch_python import torch_python

TJIT = BIN = TORCH = None
EXPECTED = None  # what cached_loop prints
BAD = 1
THRESHOLD = 40  # of the 60 steps of each of three loops


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"

    def start(self, name="stats", *, prepare=None, program="cached_loop",
              **extra):
        env = environment(TJIT_AUTO_COMPILE="1", TJIT_STATS=name,
                          TJIT_HOT_THRESHOLD=str(THRESHOLD),
                          TJIT_CACHE_DIR=str(self.cache),
                          TJIT_BACKEND="replay")
        del env["TJIT_PROFILE"]
        env.update(extra)
        return subprocess.Popen([BIN / program], text=True, cwd=self.folder,
                                stdout=subprocess.PIPE, preexec_fn=prepare,
                                stderr=subprocess.PIPE, env=env)

    def finish(self, process, name="stats"):
        """Counters and stderr of a program that gave eager's bits."""
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (0, EXPECTED), err)
        return json.loads((self.folder / name).read_text()), err

    def run_loop(self, **extra):
        return self.finish(self.start(**extra))

    def check_cold(self, **extra):
        did, err = self.run_loop(**extra)
        self.assertEqual(did["traces_known"], 0)
        self.assertGreater(did["ops_replayed"], 100)
        self.assertLess(did["ops_replayed"], did["ops_seen"] / 2)
        return did, err

    def check_warm(self, **extra):
        did, err = self.run_loop(**extra)
        self.assertGreaterEqual(did["traces_known"], 3)
        self.assertGreater(did["ops_replayed"], did["ops_seen"] * 0.9)
        return did, err

    def profiles(self):
        return sorted(self.cache.glob("*.tjitprofile"))

    def profile(self):
        path, = self.profiles()
        return path


class ProfileTest(Case):
    def test_the_second_process_does_not_learn_anew(self):
        self.assertEqual(self.check_cold()[1], "")
        before = self.profile().stat()
        self.assertEqual(self.check_warm()[1], "")
        # It had no news.
        self.assertEqual(self.profile().stat().st_ino, before.st_ino)

    def test_nor_does_it_compile(self):
        llvm = {"TJIT_BACKEND": "llvm"}
        # Compiles at once what it sees.
        cold, _ = self.run_loop(TJIT_COMPILE="1", **llvm)
        self.assertGreater(cold["kernels_compiled"], 2)
        # Too few steps for code to pay, as far as a process can know.
        short, _ = self.check_cold(TJIT_PROFILE="off", **llvm)
        self.assertEqual(short["groups_run"], 0)
        warm, err = self.check_warm(**llvm)
        self.assertEqual(err, "")
        self.assertEqual(warm["kernels_compiled"], 0)
        self.assertEqual(warm["cache_misses"], 0)
        self.assertEqual(warm["recompiles"], 0)
        self.assertGreater(warm["cache_hits"], 2)
        self.assertGreater(warm["groups_run"], 2)

    def test_what_is_new_is_added(self):
        self.check_cold()
        before = self.profile().stat()
        llvm = {"TJIT_BACKEND": "llvm"}
        # Known sequences, and now their code.
        self.check_warm(TJIT_COMPILE="1", **llvm)
        self.assertNotEqual(self.profile().stat().st_ino, before.st_ino)
        before = self.profile().stat()
        warm, _ = self.check_warm(**llvm)
        self.assertEqual(warm["kernels_compiled"], 0)
        self.assertEqual(self.profile().stat().st_ino, before.st_ino)

    def test_a_file_of_its_own(self):
        self.check_cold(TJIT_PROFILE="mine")
        self.assertTrue((self.folder / "mine").is_file())
        self.assertEqual(self.profiles(), [])
        self.check_warm(TJIT_PROFILE=str(self.folder / "mine"))
        self.check_cold()
        # By a link, too, which stays one.
        (self.folder / "link").symlink_to("mine")
        self.check_warm(TJIT_PROFILE="link")
        self.assertTrue((self.folder / "link").is_symlink())

    def test_off(self):
        for off in ({"TJIT_PROFILE": "off"}, {"TJIT_CACHE_DIR": "off"}):
            for _ in range(2):
                self.assertEqual(self.check_cold(**off)[1], "")
        self.assertFalse(self.cache.exists())

    def test_the_folder_of_the_user(self):
        home = {"HOME": str(self.folder), "XDG_CACHE_HOME": ""}
        env = environment(TJIT_AUTO_COMPILE="1", TJIT_STATS="stats",
                          TJIT_HOT_THRESHOLD=str(THRESHOLD), **home)
        del env["TJIT_PROFILE"]
        for _ in range(2):
            subprocess.run([BIN / "cached_loop"], env=env, cwd=self.folder,
                           check=True, capture_output=True, timeout=120)
        did = json.loads((self.folder / "stats").read_text())
        self.assertGreaterEqual(did["traces_known"], 3)
        self.cache = self.folder / ".cache" / "tjit"
        self.assertEqual(self.profile().stat().st_mode & 0o777, 0o600)

    def test_each_program_has_its_own(self):
        self.check_cold()
        other = self.folder / "other_program"
        other.write_bytes((BIN / "cached_loop").read_bytes())
        other.chmod(0o700)
        did, _ = self.finish(self.start(program=other))
        self.assertEqual(did["traces_known"], 0)
        self.assertEqual(len(self.profiles()), 2)

    def test_processes_at_once(self):
        processes = [self.start(f"stats{i}") for i in range(3)]
        for i, process in enumerate(processes):
            self.assertEqual(self.finish(process, f"stats{i}")[1], "")
        self.assertEqual([p.suffix for p in self.cache.iterdir()],
                         [".tjitprofile"])
        self.check_warm()


class BadFileTest(Case):
    def check_healed(self, what, **extra):
        """Said once, learnt anew and replaced."""
        _, err = self.check_cold(**extra)
        self.assertRegex(err, what)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertEqual(self.check_warm(**extra)[1], "")

    def test_damaged(self):
        self.check_cold()
        data = bytearray(self.profile().read_bytes())
        data[len(data) // 2] ^= 1
        self.profile().write_bytes(data)
        self.check_healed("the profile .* is not used: its checksum is wrong; "
                          "it is written anew")

    def test_cut(self):
        self.check_cold()
        self.profile().write_bytes(self.profile().read_bytes()[:1000])
        self.check_healed("it is cut short")

    def test_no_profile_at_all(self):
        file = self.folder / "mine"
        text = "something else, long enough for a header of a file\n"
        file.write_text(text)
        for _ in range(2):
            _, err = self.check_cold(TJIT_PROFILE="mine")
            self.assertRegex(err, r'TJIT_PROFILE: will not replace "\S*/mine": '
                             r"it is no profile of tjit.*no profile is kept\n$")
            self.assertEqual(err.count("\n"), 1, err)
            self.assertEqual(file.read_text(), text)

    def test_a_folder_in_its_place(self):
        (self.folder / "mine").mkdir()
        _, err = self.check_cold(TJIT_PROFILE="mine")
        self.assertIn("is not used: it is no file", err)
        self.assertIn("cannot write the profile", err)

    def test_a_file_behind_an_open_descriptor(self):
        # Not one of its own: what the program has written there stays.
        for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"):
            (self.folder / "link").unlink(missing_ok=True)
            (self.folder / "link").symlink_to("/dev/stdout")
            env = environment(TJIT_AUTO_COMPILE="1", TJIT_PROFILE=name,
                              TJIT_HOT_THRESHOLD=str(THRESHOLD),
                              TJIT_CACHE_DIR="off")
            with open(self.folder / "out", "w") as out:
                done = subprocess.run([BIN / "cached_loop"], text=True,
                                      stdout=out, stderr=subprocess.PIPE,
                                      cwd=self.folder, env=env, timeout=120,
                                      check=True)
            self.assertIn("it is no file", done.stderr)
            self.assertEqual((self.folder / "out").read_text(), EXPECTED)

    def test_a_file_that_cannot_be_written(self):
        _, err = self.check_cold(TJIT_PROFILE="/proc/none/mine")
        self.assertRegex(err, "cannot write the profile /proc/none/mine: No "
                         "such file.*TJIT_PROFILE names another file")
        self.assertEqual(err.count("\n"), 1, err)

    def test_no_folder_can_be_made(self):
        self.cache = pathlib.Path("/proc/tjit")
        for backend in ("replay", "llvm"):
            _, err = self.check_cold(TJIT_BACKEND=backend)
            self.assertIn("cannot write", err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_a_folder_that_everybody_may_write_to(self):
        self.check_cold()
        self.cache.chmod(0o777)
        _, err = self.check_cold()
        self.assertIn("every user may write to it", err)
        self.assertEqual(err.count("\n"), 1, err)
        self.cache.chmod(0o700)
        self.check_warm()

    def test_a_folder_for_reading_only(self):
        self.check_cold()

        self.cache.chmod(0o500)
        did, err = self.finish(self.start("mine", prepare=heed_modes),
                               "mine")
        self.cache.chmod(0o700)
        # Read as any other, and nothing is new.
        self.assertGreaterEqual(did["traces_known"], 3)
        self.assertEqual(err, "")

    def test_a_full_disk(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

        process = self.start("-", prepare=small_files)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (0, EXPECTED), err)
        self.assertEqual(err.count("cannot write the profile"), 1, err)
        self.assertIn("File too large", err)
        self.assertEqual(list(self.cache.iterdir()), [])


# It leaves the worker the time to read a profile.
SCRIPT = """
import time
import torch
x = torch.ones(16)
w = torch.full((16,), 0.5)
with torch.no_grad():
    for i in range(100):
        y = torch.tanh(x * w + x)
        x = y - x * w
        x.sum().item()
        time.sleep(0.003)
print(x.sum().item())
"""


class ScriptTest(Case):
    def setUp(self):
        super().setUp()
        if TORCH is None:
            self.skipTest("a Python without the sanitizer cannot load libtjit")
        self.python = torch_python(TORCH)
        if self.python is None:
            self.skipTest(f"no Python interpreter imports the torch in {TORCH}")
        for name in ("a.py", "b.py"):  # the same, and not the same program
            (self.folder / name).write_text(SCRIPT)
        (self.folder / "link.py").symlink_to("a.py")
        (self.folder / "elsewhere").mkdir()

    def known(self, *arguments, folder="."):
        env = environment(TJIT_STATS=str(self.folder / "s.json"),
                          TJIT_HOT_THRESHOLD=str(THRESHOLD),
                          TJIT_CACHE_DIR=str(self.cache),
                          TJIT_BACKEND="replay")
        del env["TJIT_PROFILE"]
        done = subprocess.run([TJIT, "run", "--", self.python, "-W", "ignore",
                               *arguments], env=env, cwd=self.folder / folder,
                              text=True, capture_output=True, timeout=120,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        did = json.loads((self.folder / "s.json").read_text())
        self.assertGreater(did["ops_seen"], 200)
        return did["traces_known"]

    def test_each_script_has_its_own(self):
        self.assertEqual(self.known("a.py"), 0)
        self.assertGreater(self.known("a.py", "an argument", "b.py"), 0)
        self.assertEqual(self.known("b.py"), 0)
        self.assertEqual(len(self.profiles()), 2)

    def test_however_it_is_named(self):
        self.assertEqual(self.known("a.py"), 0)
        for arguments, folder in ((["-u", "./a.py"], "."), (["link.py"], "."),
                                  ([self.folder / "a.py"], "/"),
                                  (["../a.py"], "elsewhere")):
            self.assertGreater(self.known(*arguments, folder=folder), 0)
        path, = self.profiles()
        listed = subprocess.run([TJIT, "cache", "list", self.cache], text=True,
                                capture_output=True, check=True,
                                env=environment(), timeout=60).stdout
        self.assertRegex(listed, rf"{path.name}  \d+ sequences? of "
                         rf"\S+, script {self.folder.resolve()}/a.py\n")

    def test_modules_and_code(self):
        for arguments in (["-m", "a"], ["-m", "b"], ["-c", SCRIPT],
                          ["-c", SCRIPT + "\n"]):
            self.assertEqual(self.known(*arguments), 0, arguments)
            self.assertGreater(self.known(*arguments), 0, arguments)
        self.assertEqual(len(self.profiles()), 4)


class CommandTest(Case):
    def command(self, action, status=0):
        done = subprocess.run([TJIT, "cache", action, self.cache], text=True,
                              env=environment(), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_list_verify_clear(self):
        self.run_loop(TJIT_COMPILE="1", TJIT_BACKEND="llvm")
        path = self.profile()
        line, = [t for t in self.command("list").splitlines()
                 if path.name in t]
        self.assertRegex(line, rf"  {path.name}  \d+ sequences of "
                         rf"{BIN}/cached_loop$")
        self.assertIn("entries, ", self.command("verify"))
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn(f"{path.name}: it is cut short\n",
                      self.command("verify", BAD))
        self.assertIn(f"{path.name}  damaged\n", self.command("list"))
        self.command("clear")
        self.assertEqual(list(self.cache.iterdir()), [])


if __name__ == "__main__":
    TJIT = pathlib.Path(sys.argv.pop(1)).resolve()
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    TORCH = sys.argv.pop(1)
    TORCH = None if TORCH == "none" else pathlib.Path(TORCH).resolve()
    EXPECTED = subprocess.run([BIN / "cached_loop"], env=environment(),
                              text=True, capture_output=True,
                              check=True).stdout
    unittest.main()
