"""The instruction log tells what the program did, whatever happens to it.

What it proves: the rows of the ops are the same with tjit on and off, as many
as the counters say, (COMPILED) where they were deferred; threads and children
have rows of their own; a program that is killed, aborts or crashes in a kernel
keeps every row, the last one included; a path that cannot be written and a
full disk are said once and change nothing; a bounded log keeps what came last; `tjit log` prints, filters, follows
and sums up, and says of files that are cut short or no logs what is wrong.

Usage: log_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from clean_environment import environment

TJIT = BIN = None
HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "examples" / "data" / "digits.csv"
STATUS, USAGE, DAMAGED = 7, 2, 1
# Of one Loop() of logged_program.cpp: fill_, then 5 a step.
OPS = 1001
EXPECTED = None  # what logged_program prints


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_logged(self, name, *command, on=True, options=(), **extra):
        """Under `tjit run --log=`; returns the process that ended."""
        if on:
            extra.setdefault("TJIT_HOT_THRESHOLD", "3")
        else:
            extra["TJIT_AUTO_COMPILE"] = "0"
        return subprocess.run(
            [TJIT, "run", f"--log={self.folder / name}", *options, "--",
             *command], env=environment(**extra), text=True,
            capture_output=True, timeout=120, check=False)

    def run_loop(self, name, mode="loop", **keywords):
        return self.run_logged(name, BIN / "logged_program", mode, **keywords)

    def log(self, *arguments, status=0, stderr=""):
        """What `tjit log` prints, as lines."""
        done = subprocess.run([TJIT, "log", *arguments], text=True,
                              cwd=self.folder, env=environment(),
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if stderr == "":
            self.assertEqual(done.stderr, "")
        else:
            self.assertRegex(done.stderr, stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stdout.splitlines()


def ops(lines):
    """Rows of ops without their time and mark."""
    return [line.split(" | ", 1)[1].removesuffix(" (COMPILED)")
            for line in lines if " | OP | " in line]


def compiled(lines):
    return sum(line.endswith(" (COMPILED)") for line in lines)


class RowsTest(Case):
    def check_on_and_off(self, *command):
        rows = {}
        for on in (True, False):
            stats = self.folder / f"{on}.json"
            done = self.run_logged(f"{on}.log", *command, on=on,
                                   options=[f"--stats={stats}"])
            self.assertEqual(done.stderr, "")
            rows[on] = self.log(f"{on}.log")
        did = json.loads((self.folder / "True.json").read_text())
        self.assertEqual(ops(rows[True]), ops(rows[False]))
        self.assertEqual(len(ops(rows[True])), did["ops_seen"])
        self.assertGreater(did["ops_replayed"], 500)
        self.assertEqual(compiled(rows[True]), did["ops_deferred"])
        self.assertEqual(compiled(rows[True]),
                         did["ops_replayed"] + did["ops_drained"])
        replays = [line for line in rows[True] if " | REPLAY | " in line]
        self.assertEqual(len(replays), did["segments"])
        self.assertEqual(sum(int(re.search(r" ops=(\d+) ", line)[1])
                             for line in replays), did["ops_replayed"])
        # Off, nothing but ops, and tjit did nothing.
        self.assertEqual(len(ops(rows[False])), len(rows[False]))
        self.assertEqual(compiled(rows[False]), 0)
        off = self.folder / "False.json"
        if off.exists():
            self.assertEqual(json.loads(off.read_text())["ops_seen"], 0)
        return rows[True]

    def test_loop(self):
        rows = self.check_on_and_off(BIN / "logged_program", "loop")
        self.assertEqual(len(ops(rows)), OPS)
        self.assertRegex(rows[0], r"^\d+\.\d{3}s \| #0001 \| OP \| MAIN \| "
                         r"aten::fill_\.Scalar \| 64 B \| f32\[16\] -> "
                         r"f32\[16\]$")
        sequence = r"sequence=[0-9a-f]{12}"
        for event in (
                rf"DETECT \| MAIN \| Found \| {sequence} id=1 ops=5 add -> "
                r"add -> tanh -> sum -> _local_scalar_dense$",
                rf"DETECT \| MAIN \| Seen \| {sequence} sightings=3 "
                r"threshold=3$",
                rf"DETECT \| MAIN \| Finished \| {sequence}$",
                rf"DETECT \| MAIN \| Promoted \| {sequence} ops=5 executed=3 "
                r"\w+ -> \w+ -> .*$",
                rf"COMPILE \| MAIN \| Starting \| {sequence} ops=4 tier=1$",
                rf"COMPILE \| MAIN \| Complete \| {sequence} ops=4 direct=4 "
                r"time=\d+\.\dus$",
                rf"REPLAY \| MAIN \| Executed \| {sequence} ops=4 "
                r"reason=item time=\d+\.\dus$"):
            self.assertTrue(any(re.search(event, row) for row in rows), event)

    def test_training(self):
        self.check_on_and_off(BIN / "unmodified_loop")

    def test_digits(self):
        """On, it trains one more epoch behind tjit::disable()."""
        stats = self.folder / "s.json"
        rows = {}
        for on in (True, False):
            self.run_logged(f"{on}.log", BIN / "digits", DIGITS, "1", on=on,
                            options=[f"--stats={stats}"] if on else [])
            rows[on] = self.log(f"{on}.log")
        did = json.loads(stats.read_text())
        count = len(ops(rows[False]))
        self.assertGreater(count, 2000)
        self.assertEqual(ops(rows[True])[:count], ops(rows[False]))
        self.assertEqual(did["ops_seen"], count)
        self.assertGreater(len(ops(rows[True])), 1.9 * count)
        self.assertGreater(did["ops_replayed"], 500)
        self.assertEqual(compiled(rows[True]), did["ops_deferred"])

    def test_numbers_and_times_go_up(self):
        self.run_loop("a.log")
        rows = [row.split(" | ") for row in self.log("--micros", "a.log")]
        numbers = [int(row[1][1:]) for row in rows if row[2] == "OP"]
        self.assertEqual(numbers, list(range(1, OPS + 1)))
        times = [float(row[0][:-1]) for row in rows if row[2] == "OP"]
        self.assertEqual(times, sorted(times))

    def test_an_op_that_throws(self):
        for on in (True, False):
            done = self.run_loop("a.log", "throw", on=on)
            self.assertEqual((done.returncode, done.stderr), (STATUS, ""))
            self.assertRegex(
                self.log("--op=mm", "a.log")[0],
                r"aten::mm \| 0 B \| f32\[2,3\], f32\[2,3\] \(THREW\)$")

    def test_path_from_a_file_of_options(self):
        (self.folder / "tjit.yaml").write_text("instruction_log: b.log\n")
        done = subprocess.run(
            [BIN / "small_loop"], cwd=self.folder, text=True, timeout=60,
            capture_output=True, check=False,
            env=environment(TJIT_CONFIG="tjit.yaml"))
        self.assertEqual((done.returncode, done.stderr), (STATUS, ""))
        self.assertEqual(len(ops(self.log("b.log"))), 603)

    def test_linked_to_tjit(self):
        # small_loop calls the API; its log begins with libtjit.
        log = self.folder / "api.log"
        done = subprocess.run(
            [BIN / "small_loop"], text=True, capture_output=True, timeout=60,
            check=False, env=environment(TJIT_INSTRUCTION_LOG=str(log)))
        self.assertEqual((done.returncode, done.stderr), (STATUS, ""))
        self.assertEqual(len(ops(self.log(log))), 603)


class ProcessesTest(Case):
    def test_threads(self):
        for on in (True, False):
            self.run_loop("a.log", "threads", on=on)
            rows = self.log("a.log")
            self.assertEqual(len(ops(rows)), 3 * OPS)
            for source in ("MAIN", "T1", "T2"):
                mine = self.log(f"--source={source}", "a.log")
                self.assertEqual(len(ops(mine)), OPS)
                self.assertEqual(compiled(mine) > 300, on)

    def test_a_forked_child_has_a_file_of_its_own(self):
        for on in (True, False):
            name = f"{on}.log"
            done = self.run_loop(name, "fork", on=on)
            self.assertEqual((done.returncode, done.stderr), (STATUS, ""))
            self.assertEqual(len(ops(self.log(name))), OPS)
            children = list(self.folder.glob(f"{name}.*"))
            self.assertEqual(len(children), 1)
            rows = self.log(children[0])
            self.assertEqual(len(ops(rows)), OPS)
            self.assertTrue(all("| MAIN |" in row for row in rows))
            self.assertEqual(compiled(rows) > 300, on)

    def test_a_shell_leaves_the_file_alone(self):
        done = self.run_logged("a.log", "sh", "-c", '"$0" loop; exit $?',
                               BIN / "logged_program")
        self.assertEqual((done.returncode, done.stderr), (STATUS, ""))
        self.assertEqual([p.name for p in self.folder.iterdir()], ["a.log"])
        self.assertEqual(len(ops(self.log("a.log"))), OPS)

    def test_a_crash_keeps_every_row(self):
        said = "the program ended without closing the log"
        for mode, number in (("kill", signal.SIGKILL),
                             ("abort", signal.SIGABRT)):
            for on in (True, False):
                with self.subTest(mode, on=on):
                    done = self.run_loop("a.log", mode, on=on)
                    self.assertEqual(done.returncode, -number)
                    rows = self.log("a.log", stderr=said)
                    self.assertEqual(len(ops(rows)), OPS)
                    self.assertEqual(compiled(rows) > 300, on)

    def test_a_crash_in_a_kernel_shows_the_op(self):
        for on in (True, False):
            done = self.run_loop("a.log", "segv", on=on)
            self.assertEqual(done.returncode, -signal.SIGSEGV)
            rows = self.log("a.log",
                            stderr="ended without closing the log")
            self.assertRegex(rows[-1], r"aten::add\.Tensor \| 0 B \| "
                             r"f32\[16\], f32\[16\] \(UNFINISHED\)$")

    def test_the_program_ends_while_a_thread_is_in_a_kernel(self):
        for on in (True, False):
            with self.subTest(on=on):
                done = self.run_loop(f"{on}.log", "exit", on=on)
                self.assertEqual(done.returncode, STATUS, done.stderr)
                self.assertEqual(done.stdout, EXPECTED)
                rows = self.log("--source=T1", f"{on}.log")
                self.assertEqual(len(rows), 2, rows)
                self.assertIn("aten::sum", rows[0])
                self.assertIn("aten::set_", rows[1])


class BoundedTest(Case):
    STEPS = "4000"  # 200,000 ops, 3.2 MB of rows

    def run_bounded(self, mb, **keywords):
        stats = self.folder / "stats.json"
        done = self.run_logged(
            "b.log", BIN / "timed_loop", self.STEPS, OMP_NUM_THREADS="1",
            options=[f"--log-mb={mb}", f"--stats={stats}"], **keywords)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(stats.read_text())

    def test_what_came_last_is_there(self):
        whole = self.run_logged("a.log", BIN / "timed_loop", self.STEPS,
                                OMP_NUM_THREADS="1")
        self.assertEqual(whole.returncode, 0)
        did = self.run_bounded(1)
        self.assertGreater(did["ops_replayed"], 100000)
        files = [self.folder / "b.log.old", self.folder / "b.log"]
        self.assertLessEqual(sum(f.stat().st_size for f in files), 1 << 20)
        self.assertGreater(files[0].stat().st_size, 450_000)
        old = self.log("b.log.old", stderr=r"b\.log\.old is part \d+ of a log of "
                       "bounded size, and the next part goes on from here\n$")
        new = self.log("b.log", stderr=r"b\.log is part \d+ of a log of bounded "
                       r"size: what came right before is in b\.log\.old\n$")
        # Their numbers begin anew in each part.
        names = [row.split(" | ", 1)[1] for row in ops(old + new)]
        wanted = [row.split(" | ", 1)[1] for row in ops(self.log("a.log"))]
        self.assertEqual(len(wanted), did["ops_seen"])
        self.assertGreater(len(names), 25000)
        self.assertEqual(names, wanted[-len(names):])
        parts = [json.loads(self.log("--json", file, stderr=".")[-1])["end"]
                 for file in ("b.log.old", "b.log")]
        self.assertEqual(parts, ["continued", "closed"])

    def test_following_goes_from_part_to_part(self):
        """Rows are counted: printed ones would come more slowly.

        A reader has the time in which the program writes a part: on two cores
        that others use as well it may not come in time for parts of 4 MB.
        """
        log = self.folder / "f.log"
        stats = self.folder / "stats.json"
        program = subprocess.Popen(
            [TJIT, "run", f"--log={log}", "--log-mb=16", f"--stats={stats}",
             "--", BIN / "timed_loop", "20000"],
            env=environment(OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL)
        while not log.exists() or log.stat().st_size < 4096:
            time.sleep(0.002)
        readers = [subprocess.Popen(
            [TJIT, *command, log], env=environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) for command in (
                ["log", "--follow", "--summary", "--json"],
                ["top", "--interval=0.05"])]
        self.assertEqual(program.wait(timeout=120), 0)
        (summary, said), (top, missed) = (
            reader.communicate(timeout=60) for reader in readers)
        self.assertRegex(said, r"f\.log is part ([2-9]|\d\d) of")
        self.assertEqual(missed, "")
        seen = json.loads(stats.read_text())["ops_seen"]
        self.assertGreater(seen, 900_000)
        self.assertEqual(sum(op["calls"] for op in json.loads(summary)["ops"]),
                         seen)
        self.assertRegex(top, rf"ops/s, ops +[-\d.]+ +{seen}\n")
        self.assertIn("the program has ended", top)


class BadPathTest(Case):
    def check_same(self, done):
        self.assertEqual(done.returncode, STATUS, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, EXPECTED)

    def test_paths_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        for path, why in (("missing/a.log", "No such file or directory"),
                          ("folder", "Is a directory"),
                          ("/dev/full", "not a regular file")):
            for on in (True, False):
                with self.subTest(path, on=on):
                    done = self.run_loop(path, on=on)
                    self.check_same(done)
                    self.assertIn("tjit: TJIT_INSTRUCTION_LOG: cannot write "
                                  f'"{self.folder / path}": {why}; this run '
                                  "is not logged", done.stderr)

    def test_no_value(self):
        done = subprocess.run([BIN / "small_loop"], text=True, timeout=60,
                              capture_output=True, check=False,
                              env=environment(TJIT_INSTRUCTION_LOG=""))
        self.assertEqual(done.returncode, STATUS)
        self.assertEqual(done.stderr, "tjit: TJIT_INSTRUCTION_LOG= is not "
                         "used, accepted is a path to write to\n")

    def full_disk(self, bytes_):
        """A tmpfs of that size, in a mount namespace of the command's."""
        script = (f'mount -t tmpfs -o size={bytes_} none "$0" && "$@"; s=$?; '
                  'cp "$0"/a.log "$0".copy; exit $s')
        return ["unshare", "-rm", "sh", "-c", script, self.folder]

    def test_a_disk_that_gets_full(self):
        # The page of the header and one chunk fit.
        command = self.full_disk(80 * 1024)
        if subprocess.run([*command, "touch", self.folder / "a.log"],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        copy = pathlib.Path(f"{self.folder}.copy")
        self.addCleanup(copy.unlink)
        done = subprocess.run(
            [*command, TJIT, "run", f"--log={self.folder / 'a.log'}", "--",
             BIN / "logged_program", "threads"], env=environment(), text=True,
            capture_output=True, timeout=60, check=False)
        self.check_same(done)
        self.assertIn("No space left on device; the log ends here, the "
                      "program goes on", done.stderr)
        rows = self.log(copy, stderr="it could not write more")
        self.assertGreaterEqual(len(ops(rows)), OPS)


class CommandTest(Case):
    recorded = None

    def setUp(self):
        super().setUp()
        if CommandTest.recorded is None:
            # Machine code begins after a run that happened to take long.
            self.run_loop("a.log", TJIT_BACKEND="replay")
            CommandTest.recorded = (self.folder / "a.log").read_bytes()
        (self.folder / "a.log").write_bytes(self.recorded)

    def test_filters(self):
        every = self.log("--micros", "a.log")
        self.assertEqual(len(self.log("--op=aten::tanh", "a.log")), 200)
        self.assertEqual(len(self.log("--op=tanh", "a.log")), 200)
        self.assertEqual(len(self.log("--op=a*", "a.log")), OPS)
        self.assertEqual(len(self.log("--op=add*", "a.log")), 400)
        self.assertEqual(self.log("--op=mul*", "a.log"), [])
        self.assertEqual(len(self.log("--event=OP", "a.log")), OPS)
        self.assertEqual(len(self.log("--event=COMPILE", "a.log")), 2)
        self.assertEqual(self.log("--source=T1", "a.log"), [])
        middle = every[len(every) // 2].split("s |")[0]
        before = self.log("--micros", f"--to={middle}", "a.log")
        after = self.log("--micros", f"--from={middle}s", "a.log")
        self.assertEqual(len(before) + len(after), len(every))
        self.assertGreater(min(len(before), len(after)), 100)

    def test_summary(self):
        text = "\n".join(self.log("--summary", "a.log"))
        rows = self.log("a.log")
        self.assertIn(f"{OPS} ops in ", text)
        share = 100 * compiled(rows) / OPS
        self.assertIn(f": {compiled(rows)} deferred ({share:.1f} %)", text)
        self.assertRegex(text, r"(?m)^ +200 +\d+ +12800 +\d+\.\d+  aten::tanh$")
        replays = sum(" | REPLAY | " in row for row in rows)
        self.assertRegex(text, rf"(?m)^ +{replays} +\d+ +\d+\.\d+ +"
                         r"(?:-|-?\d+\.\d+) +\d+\.\d+ +\d+ +\d+  "
                         r"[0-9a-f]{12} \w+ -> \w+ -> .*$")

    def test_json(self):
        rows = self.log("a.log")
        head, *objects, end = map(json.loads, self.log("--json", "a.log"))
        self.assertEqual(head["schema"], 1)
        self.assertRegex(head["tjit"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(head["program"], f"{BIN / 'logged_program'} loop")
        self.assertEqual(end["end"], "closed")
        self.assertEqual(end["wall_ns"], max(o["time_ns"] for o in objects))
        self.assertEqual(len(objects), len(rows))
        self.assertEqual(sum(o["deferred"] for o in objects), compiled(rows))
        for row, o in zip(rows, objects):
            self.assertTrue(row.startswith(f"{o['time_ns'] / 1e9:.3f}s | "
                                           f"#{o['number']:04d} | "), (row, o))
            self.assertIn(f" | {o['command']} | ", row + " | ")
        only = [json.loads(line) for line in
                self.log("--json", "--op=tanh", "a.log")][1:-1]
        self.assertEqual({o["command"] for o in only}, {"aten::tanh"})
        text = "\n".join(self.log("--summary", "--json", "a.log"))
        summary = json.loads(text)
        self.assertEqual(summary["program"], head["program"])
        self.assertEqual(sum(op["calls"] for op in summary["ops"]), OPS)
        self.assertEqual(sum(op["deferred"] for op in summary["ops"]),
                         compiled(rows))
        self.assertEqual(sum(s["replays"] for s in summary["sequences"]),
                         sum(o["event"] == "REPLAY" for o in objects))

    def test_follow(self):
        log = self.folder / "f.log"
        program = subprocess.Popen(
            [TJIT, "run", f"--log={log}", "--", BIN / "logged_program", "slow"],
            env=environment(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), "waits\n")
        follow = subprocess.Popen([TJIT, "log", "--follow", "--event=OP", log],
                                  text=True, stdout=subprocess.PIPE,
                                  env=environment())
        first = [follow.stdout.readline() for _ in range(OPS)]
        self.assertIn("#1001", first[-1])
        time.sleep(0.3)
        self.assertIsNone(follow.poll())  # it waits for more
        program.communicate("\n", timeout=60)
        rest, _ = follow.communicate(timeout=60)
        self.assertEqual(len(rest.splitlines()), OPS)
        self.assertEqual(follow.returncode, 0)

    def test_a_file_cut_short(self):
        data = (self.folder / "a.log").read_bytes()
        every = self.log("a.log")
        used = (len(data.rstrip(b"\0")) + 15) // 16 * 16
        for size in (20, 4096, used // 2, used):
            (self.folder / "cut.log").write_bytes(data[:size])
            rows = self.log("cut.log", status=DAMAGED,
                            stderr="cut.log: the file is cut short")
            self.assertEqual(rows, every[:len(rows)])
            self.assertGreaterEqual(len(rows), len(every) if size == used
                                    else 100 if size == used // 2 else 0)

    def test_bad_input(self):
        (self.folder / "text").write_text("aten::mm\n")
        (self.folder / "empty").write_text("")
        for arguments, said in (
                (["none"], "cannot read none: No such file or directory"),
                (["text"], "text cannot be printed: it is no instruction log"),
                (["empty"], "empty cannot be printed: it is empty"),
                (["/dev/null"], "it is no instruction log of tjit"),
                (["."], "it is a folder"),
                ([], "no file given: tjit log"),
                (["a.log", "b.log"], "one file at a time, not a.log and b.log"),
                (["--all", "a.log"], "unknown option --all; accepted are "),
                (["--op", "a.log"], "--op needs a value"),
                (["--follow=1", "a.log"], "--follow takes no value"),
                (["--event=mm", "a.log"], "--event=mm is not used, accepted "
                 "are OP, DETECT, COMPILE, REPLAY, DRAIN, EXIT"),
                (["--from=x", "a.log"], "--from=x is not used, accepted is a "
                 "number of seconds")):
            with self.subTest(arguments):
                self.assertEqual(self.log(*arguments, status=USAGE,
                                          stderr=re.escape(said)), [])

    def test_help(self):
        for option in ("--op=GLOB", "--follow", "--summary"):
            self.assertIn(option, "\n".join(self.log("--help")))


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    EXPECTED = subprocess.run([BIN / "logged_program"], env=environment(),
                              text=True, capture_output=True, timeout=60,
                              check=False).stdout
    unittest.main()
