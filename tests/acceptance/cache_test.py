"""Compiled code is kept on disk: the second process compiles nothing.

What it proves: with TJIT_BACKEND=llvm the second process of a program loads
what the first has compiled, with the same bits as eager, and neither writes
nor compiles; off and empty switch that off; entries that are damaged, cut or of
another format, a folder that is for reading only, a full disk and processes
that write at once change nothing but what is compiled, and are said once; the
key of an entry names the build that wrote it;
`tjit cache` lists, verifies and clears the folder, and names what is wrong.

Usage: cache_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment, heed_modes

TJIT = BIN = None
EXPECTED = None  # what cached_loop prints
USAGE, BAD = 2, 1


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"

    def start(self, name="stats", *, prepare=None, **extra):
        extra.setdefault("TJIT_CACHE_DIR", str(self.cache))
        return subprocess.Popen(
            [BIN / "cached_loop"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=prepare, cwd=self.folder,
            env=environment(TJIT_AUTO_COMPILE="1", TJIT_COMPILE="1",
                            TJIT_BACKEND="llvm", TJIT_STATS=name, **extra))

    def finish(self, process, name="stats"):
        """Counters and stderr of a program that gave eager's bits."""
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (0, EXPECTED), err)
        did = json.loads((self.folder / name).read_text())
        self.assertGreater(did["groups_run"], 20, did)
        self.assertEqual(did["compiles_failed"], 0)
        return did, err

    def run_loop(self, **extra):
        return self.finish(self.start(**extra))

    def cold(self, **extra):
        """The first run: fills the folder."""
        did, err = self.run_loop(**extra)
        self.assertEqual(err, "")
        self.assertGreater(did["kernels_compiled"], 2)
        self.assertGreater(did["cache_misses"], 2)
        self.assertEqual(did["cache_writes"], did["cache_misses"])
        return did

    def entries(self):
        return sorted(self.cache.glob("*.tjitobj"))

    def command(self, *arguments, status=0, **extra):
        done = subprocess.run([TJIT, "cache", *map(str, arguments)], text=True,
                              env=environment(**extra), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status == USAGE else done.stdout


class CacheTest(Case):
    def check_warm(self, **extra):
        did, err = self.run_loop(**extra)
        self.assertEqual(did["kernels_compiled"], 0)
        self.assertEqual(did["cache_misses"], 0)
        self.assertEqual(did["cache_writes"], 0)
        self.assertGreater(did["cache_hits"], 2)
        return did, err

    def test_the_second_process_compiles_nothing(self):
        cold = self.cold()
        self.assertEqual(cold["cache_hits"], 0)
        self.assertEqual(len(self.entries()), cold["cache_writes"])
        before = [(p, p.read_bytes()) for p in self.entries()]
        did, err = self.check_warm()
        self.assertEqual(err, "")
        self.assertEqual(did["cache_hits"], cold["cache_misses"])
        self.assertLess(did["compile_ns"], cold["compile_ns"])
        self.assertEqual([(p, p.read_bytes()) for p in self.entries()], before)
        told = subprocess.run([TJIT, "explain", self.folder / "stats"],
                              text=True, capture_output=True, check=True)
        hits = did["cache_hits"]
        self.assertIn(f"code on disk: {hits} of {hits} loops found, 0 written",
                      told.stdout)

    def test_it_is_said_with_the_compiler_lines(self):
        self.cold()
        _, err = self.check_warm(TJIT_DEBUG_COMPILE="1")
        self.assertRegex(err, r"\[COMPILE\] Compilation complete .* 0 kernels "
                         r"compiled, \d+ reused; cache: \d+ hits, 0 misses")

    def test_the_folder_of_the_user(self):
        home = str(self.folder)
        cold, _ = self.finish(self.start_default(HOME=home))
        self.assertGreater(cold["cache_writes"], 2)
        self.cache = self.folder / ".cache" / "tjit"
        self.assertEqual(len(self.entries()), cold["cache_writes"])
        xdg = self.folder / "xdg"
        self.finish(self.start_default(XDG_CACHE_HOME=str(xdg)))
        self.cache = xdg / "tjit"
        self.assertEqual(len(self.entries()), cold["cache_writes"])

    def start_default(self, **extra):
        env = environment(TJIT_AUTO_COMPILE="1", TJIT_COMPILE="1",
                          TJIT_BACKEND="llvm", TJIT_STATS="stats")
        env.pop("XDG_CACHE_HOME", None)
        return subprocess.Popen([BIN / "cached_loop"], text=True,
                                stdout=subprocess.PIPE, cwd=self.folder,
                                stderr=subprocess.PIPE, env={**env, **extra})

    def test_off(self):
        for off in ("off", ""):
            did, err = self.run_loop(TJIT_CACHE_DIR=off,
                                     XDG_CACHE_HOME=str(self.folder / "xdg"))
            self.assertEqual(err, "")
            self.assertGreater(did["kernels_compiled"], 2)
            self.assertEqual(did["cache_misses"] + did["cache_writes"], 0)
        self.assertFalse((self.folder / "xdg").exists())
        self.assertFalse((self.folder / "off").exists())

    def check_healed(self, what):
        """One entry is bad: said once, compiled anew, then all is well."""
        did, err = self.run_loop()
        self.assertRegex(err, what)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertGreater(did["cache_hits"], 0)
        self.assertGreater(did["cache_misses"], 0)
        self.assertEqual(did["cache_writes"], did["cache_misses"])
        self.assertEqual(self.check_warm()[1], "")

    def test_damaged_entries(self):
        self.cold()
        one, two, *_ = self.entries()
        damaged = bytearray(one.read_bytes())
        damaged[-100] ^= 1
        one.write_bytes(damaged)
        two.write_bytes(two.read_bytes()[:1000])
        self.check_healed("is not used and removed: it")

    def test_an_entry_of_another_format(self):
        self.cold()
        one = self.entries()[0]
        data = bytearray(one.read_bytes())
        data[24] += 1
        one.write_bytes(data)
        self.check_healed("it has format 2, not 1")

    def test_the_key_names_the_build_and_no_address(self):
        self.cold()
        for path in self.entries():
            data = path.read_bytes()
            found = re.search(rb"libtjit_llvm ([0-9a-f]{40})\n", data)
            self.assertIsNotNone(found, "the key names the build")
            self.assertIn(b"LLVM ", data)
            # No address of this process: it is another one in each.
            self.assertEqual(data.count(b"tjit_math_"), 0)

    def test_a_folder_for_reading_only(self):
        self.cold()
        for path in self.entries()[:2]:
            path.unlink()

        self.cache.chmod(0o500)
        process = self.start("mine", prepare=heed_modes)
        did, err = self.finish(process, "mine")
        self.cache.chmod(0o700)
        self.assertRegex(err, "cannot write to the cache folder .*TJIT_CACHE_"
                         "DIR")
        self.assertEqual(err.count("\n"), 1, err)
        self.assertGreater(did["cache_hits"], 0)
        self.assertGreater(did["cache_misses"], 0)
        self.assertEqual(did["cache_writes"], 0)

    def test_no_folder_can_be_made(self):
        self.cache = pathlib.Path("/proc/tjit")
        did, err = self.run_loop()
        self.assertIn('cannot write to the cache folder "/proc/tjit"', err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertGreater(did["kernels_compiled"], 2)

    def test_a_full_disk(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        # The counters do not fit either: they go to stderr.
        process = self.start("-", prepare=small_files)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (0, EXPECTED), err)
        self.assertEqual(err.count("cannot write to the cache folder"), 1, err)
        self.assertIn("File too large", err)
        self.assertEqual(self.entries(), [])
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_processes_at_once(self):
        processes = [self.start(f"stats{i}") for i in range(3)]
        for i, process in enumerate(processes):
            _, err = self.finish(process, f"stats{i}")
            self.assertEqual(err, "")
        self.check_warm()
        self.assertEqual({p.suffix for p in self.cache.iterdir()},
                         {".tjitobj", ".tjitverdicts"})


class CommandTest(Case):
    def test_list_verify_clear(self):
        count = self.cold()["cache_writes"] + 1  # what probes found
        listed = self.command("list", self.cache).splitlines()
        self.assertEqual(len(listed), count + 1)
        # Verdicts are stored by whoever probes last, so their place varies.
        verdicts = [e for e in listed[:-1] if ".tjitverdicts" in e]
        objects = [e for e in listed[:-1] if e not in verdicts]
        entry = r"^ +\d+  \d{4}-\d\d-\d\d \d\d:\d\d  [0-9a-f]{32}"
        self.assertEqual(len(verdicts), 1)
        self.assertRegex(verdicts[0], entry + r"\.tjitverdicts  \d+ verdicts$")
        for line in objects:
            self.assertRegex(line, entry + r"\.tjitobj$")
        self.assertRegex(listed[-1], rf"^{count} entries, \d+\.\d MiB, in ")
        self.assertEqual(self.command("list", TJIT_CACHE_DIR=str(self.cache)),
                         "\n".join(listed) + "\n")
        self.assertEqual(self.command("verify", self.cache).count("\n"), 1)
        told = json.loads(self.command("list", "--json", self.cache))
        self.assertEqual((told["schema"], told["folder"]),
                         (1, str(self.cache)))
        self.assertRegex(told["tjit"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(told["program"],
                         f"{TJIT} cache list --json {self.cache}")
        self.assertLess(told["wall_ns"], 60e9)
        self.assertEqual(
            {e["name"]: e["bytes"] for e in told["entries"]},
            {e.name: e.stat().st_size for e in self.cache.iterdir()})
        self.assertEqual(told["bytes"],
                         sum(e["bytes"] for e in told["entries"]))
        self.assertIn(verdicts[0].split("  ")[-1],
                      [e["contents"] for e in told["entries"]])
        one, two, *_ = self.entries()
        one.write_bytes(one.read_bytes()[:-1])
        two.rename(two.with_name("0" * 32 + ".tjitobj"))
        text = self.command("verify", self.cache, status=BAD)
        self.assertIn(f"{one.name}: it is cut short\n", text)
        self.assertIn("0.tjitobj: it is that of another key\n", text)
        self.assertIn("2 of them would not be used", text)
        told = json.loads(self.command("verify", "--json", self.cache,
                                       status=BAD))
        self.assertEqual({e["name"]: e["error"] for e in told["entries"]
                          if e["error"]}[one.name], "it is cut short")
        (self.cache / "notes.txt").write_text("mine")
        self.assertEqual(
            len(json.loads(self.command("clear", "--json", self.cache))
                ["entries"]), count)
        self.assertEqual([p.name for p in self.cache.iterdir()], ["notes.txt"])
        self.assertRegex(self.command("clear", self.cache), "^0 entries")

    def test_what_is_wrong_is_named(self):
        self.assertRegex(self.command("list", self.folder / "none"),
                         "^0 entries, 0.0 MiB, in ")
        file = self.folder / "file"
        file.write_text("")
        for arguments, text in [
                ((), "accepted are list, verify and clear"),
                (("empty",), "not empty"),
                (("list", file), "it is no folder"),
                (("list", self.cache, self.cache), "one folder is wanted"),
                (("list", "--all"), "unknown option --all")]:
            self.assertIn(text, self.command(*arguments, status=USAGE))
        self.assertIn("TJIT_CACHE_DIR is off",
                      self.command("list", status=USAGE, TJIT_CACHE_DIR=""))
        self.assertIn("usage: tjit cache", self.command("--help"))


if __name__ == "__main__":
    TJIT = pathlib.Path(sys.argv.pop(1)).resolve()
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    EXPECTED = subprocess.run([BIN / "cached_loop"], env=environment(),
                              text=True, capture_output=True,
                              check=True).stdout
    unittest.main()
