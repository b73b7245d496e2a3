"""`tjit top` shows what a running program does, and leaves no trace.

What it proves: its figures are those of the counters, of the rows and of /proc;
piped, there is a block of text each interval and no escape code; on a terminal
the picture fits, follows a new size, and q, SIGTERM and the end of the program
leave the terminal as it was; a long log takes little memory; what is wrong with
a log or a process is said.

The terminal is one of Python's pty. No test installs packages, so the escape
codes themselves are looked at.

Usage: top_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import log_writer
from clean_environment import environment
from log_writer import Stream

TJIT = BIN = None
USAGE, DAMAGED = 2, 1
OPS = 1001  # of one Loop() of logged_program.cpp
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "a.log"

    def top(self, *arguments, status=0, stderr=""):
        done = subprocess.run([TJIT, "top", *arguments], text=True,
                              cwd=self.folder, env=environment(TERM="xterm"),
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, stderr if stderr else "^$")
        self.assertEqual(done.stderr.count("\n"), bool(stderr), done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        return done.stdout

    def start(self):
        """logged_program, which waits behind its first loop."""
        program = subprocess.Popen(
            [TJIT, "run", f"--log={self.log}",
             f"--stats={self.folder / 's.json'}", "--",
             BIN / "logged_program", "slow"],
            env=environment(TJIT_HOT_THRESHOLD="3"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "waits\n")
        return program

    def value(self, text, name, column=-1):
        """Of the last picture: the words behind the name of a line."""
        lines = re.findall(rf"(?m)^{re.escape(name)} +(.*)$", text)
        return lines[-1].split()[column]


class FiguresTest(Case):
    def test_an_ended_program(self):
        self.start().communicate("\n", timeout=60)
        did = json.loads((self.folder / "s.json").read_text())
        text = self.top("a.log")
        self.assertEqual(int(self.value(text, "ops/s, ops")), 2 * OPS)
        self.assertEqual(did["ops_seen"], 2 * OPS)
        self.assertGreater(did["ops_replayed"], 1000)
        share = 100 * did["ops_replayed"] / did["ops_seen"]
        self.assertEqual(self.value(text, "replayed %"), f"{share:.1f}")
        self.assertEqual(self.value(text, "ops pending"), "0")
        self.assertEqual(int(self.value(text, "segments run/s, run")),
                         did["segments"])
        self.assertEqual(int(self.value(text, "side exits/s, exits", 1)),
                         sum(did["side_exits"].values()))
        lines = subprocess.run([TJIT, "log", "--json", self.log], text=True,
                               env=environment(), capture_output=True,
                               check=True).stdout.splitlines()
        rows = [json.loads(line) for line in lines][1:-1]
        complete = [row for row in rows if row["command"] == "Complete"]
        tier2 = sum("tier=2" in row["details"] for row in complete)
        self.assertEqual(int(self.value(text, "compiled/s, tier 2", 1)), tier2)
        self.assertEqual(int(self.value(text, "prepared/s, tier 1", 1)),
                         len(complete) - tier2)
        drains = sum(row["event"] == "DRAIN" for row in rows)
        self.assertEqual(int(self.value(text, "drains/s, drains")), drains)
        last = max(row["time_ns"] for row in rows)
        self.assertIn(f"1 threads, log {last / 1e9:.3f} s, memory -", text)
        self.check_sequences(text, rows)
        self.assertTrue(text.endswith("tjit top: the program has ended\n"))

    def check_sequences(self, text, rows):
        expected = {}
        for row in rows:
            if row["event"] == "REPLAY":
                name = re.search("sequence=([0-9a-f]+)", row["details"])[1]
                ops = int(re.search(r"ops=(\d+)", row["details"])[1])
                of = expected.setdefault(name, [0, 0, 0])
                for i, value in enumerate((1, ops, row["took_ns"])):
                    of[i] += value
        shown = re.findall(r"(?m)^ +\S+ +- +- +(\d+) +([\d.]+) +([\d.]+) +"
                           r"([\d.]+)  ([0-9a-f]{12}) (.*)$", text)
        self.assertEqual({line[4] for line in shown}, set(expected))
        for runs, ops, us, ms, name, what in shown:
            count, all_ops, took_ns = expected[name]
            self.assertEqual(int(runs), count)
            self.assertAlmostEqual(float(ops), all_ops / count, delta=0.051)
            self.assertAlmostEqual(float(us), took_ns / 1e3 / count, delta=0.1)
            self.assertAlmostEqual(float(ms), took_ns / 1e6, delta=0.002)
            self.assertIn(" -> ", what)

    def won_ms(self, text):
        """What the last picture says, by sequence, in its order."""
        table = text[text.rindex("won ms"):]
        return {name: won for won, name in re.findall(
            r"(?m)^ +(\S+)(?: +\S+){6}  ([0-9a-f]{12}) ", table)}

    def test_time_won_is_that_of_explain(self):
        stats = self.folder / "s.json"
        for kind in ([], ["branches"], ["numbers"]):
            subprocess.run(
                [TJIT, "run", f"--log={self.log}", f"--stats={stats}", "--",
                 BIN / "timed_loop", "1500", *kind], check=True, timeout=60,
                env=environment(TJIT_BACKEND="replay"), capture_output=True)
            known = {s["name"]: s for s in
                     json.loads(stats.read_text())["sequence_details"]}
            shown = self.won_ms(self.top("a.log"))
            self.assertGreater(len(shown), 0)
            for name, won in shown.items():
                self.assertEqual(won, f"{known[name]['won_ns'] / 1e6:.3f}"
                                 if known[name]["eager_ns"] and
                                 known[name]["replay_ns"] else "-")
            # The one that has won most is the first one.
            self.assertGreater(float(next(iter(shown.values()))), 1)
            order = [known[name]["won_ns"] for name in shown]
            self.assertEqual(order, sorted(order, reverse=True))
            summary = json.loads(subprocess.run(
                [TJIT, "log", "--summary", "--json", self.log], text=True,
                env=environment(), capture_output=True, check=True).stdout)
            for sequence in summary["sequences"]:
                self.assertEqual(sequence.get("won_ns", 0),
                                 known[sequence["id"]]["won_ns"])

    def test_time_won_while_the_program_runs(self):
        """Rows of two threads, in any order, and of a log that began late."""
        def timed(stream, at, eager, replay, replays, more=""):
            return stream.add(
                log_writer.DETECT, at, 0, "Timed", f"sequence=00000000000a "
                f"eager_ns={eager} replay_ns={replay} replays={replays}{more}")

        def finished(stream, at):
            return stream.add(log_writer.DETECT, at, 0, "Finished",
                              "sequence=00000000000a")

        def replay(stream, at):
            return stream.add(log_writer.REPLAY, at, 10, "Executed",
                              "sequence=00000000000a ops=3 reason=item")

        main = timed(finished(replay(Stream(), 5), 10), 900, 5000, 2000, 3)
        other = timed(finished(finished(Stream(log_writer.THREAD, 1), 100),
                               800), 100, 90000, 1, 2)
        self.write(main, other)
        self.assertEqual(self.won_ms(self.top("a.log")),
                         {"00000000000a": "0.009"})
        finished(other, 950)  # not in the last row that has times
        self.write(main, other)
        self.assertEqual(self.won_ms(self.top("a.log")),
                         {"00000000000a": "0.012"})
        late = timed(replay(Stream(), 1), 2, 5000, 2000, 1000, " known=attach")
        self.write(finished(late, 50))
        self.assertEqual(self.won_ms(self.top("a.log")),
                         {"00000000000a": "3.003"})
        late.add(log_writer.DETECT, 60, 0, "Forgotten",
                 "sequence=00000000000a why=clear")
        self.write(finished(late, 70))
        self.assertEqual(self.won_ms(self.top("a.log")),
                         {"00000000000a": "3.003"})
        slow = timed(finished(replay(Stream(), 5), 10), 20, 2000, 5000, 1)
        self.write(slow)
        self.assertEqual(self.won_ms(self.top("a.log")),
                         {"00000000000a": "-0.003"})

    def test_waits(self):
        self.write(Stream().add(log_writer.WAIT, 5, 1_500_000, "Waited",
                                "for=compiler at=exit"),
                   Stream(log_writer.THREAD, 1).add(
                       log_writer.WAIT, 9, 2_000_000, "Waited", "for=thread"))
        self.assertRegex(self.top("a.log"),
                         r"(?m)^waits/s, waits +- +2 +3\.5 ms$")

    def test_a_running_program(self):
        program = self.start()
        top = subprocess.Popen(
            [TJIT, "top", f"--pid={program.pid}", "--interval=0.5"], text=True,
            stdout=subprocess.PIPE, env=environment(TERM="xterm"))
        first = "".join(iter(top.stdout.readline, "\n"))
        self.assertIn(f"pid {program.pid}, running", first)
        status = pathlib.Path(f"/proc/{program.pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
        shown = float(re.search(r"memory ([\d.]+) MiB", first)[1])
        self.assertAlmostEqual(shown, resident, delta=0.1 * resident)
        program.communicate("\n", timeout=60)
        text, _ = top.communicate(timeout=60)
        self.assertEqual(top.returncode, 0)
        self.assertEqual(int(self.value(text, "ops/s, ops")), 2 * OPS)
        self.assertTrue(text.endswith("tjit top: the program has ended\n"))

    def test_rates(self):
        """A log that grows by 50 ops between two pictures."""
        one = Stream().op(0, 10)
        self.write(one, pid=os.getpid(), end=log_writer.RUNNING)
        top = subprocess.Popen(
            [TJIT, "top", "--interval=1", "--count=2", self.log], text=True,
            stdout=subprocess.PIPE, env=environment(TERM="xterm"))
        while "sequence" not in top.stdout.readline():
            pass
        for i in range(50):
            one.op(100 * i, 10)
        data = log_writer.log(one, pid=os.getpid(), end=log_writer.RUNNING)
        with open(self.log, "r+b") as file:
            file.write(data)
        text, _ = top.communicate(timeout=60)
        self.assertEqual(int(self.value(text, "ops/s, ops")), 51)
        rate = float(self.value(text, "ops/s, ops", 0))
        self.assertTrue(25 <= rate <= 50.1, rate)

    def write(self, *streams, **keywords):
        self.log.write_bytes(log_writer.log(*streams, **keywords))

    def test_what_a_terminal_would_obey_is_not_printed(self):
        self.write(Stream().op(0, 1), program="a\x1b[2Jb")
        self.assertIn("tjit top: a?[2Jb\n", self.top("a.log"))

    def test_a_long_log_takes_little_memory(self):
        rows = log_writer.write_long_log(self.log, chunks=512)
        code = ("import resource, subprocess, sys; "
                "subprocess.run(sys.argv[1:], check=True); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, TJIT, "top",
                               self.log], text=True, capture_output=True,
                              env=environment(), timeout=120, check=True)
        self.assertEqual(int(self.value(done.stdout, "ops/s, ops")), rows)
        self.assertLess(int(done.stdout.split()[-1]), 24 * 1024)


class TerminalTest(Case):
    def open(self, rows=30, columns=90):
        program = self.start()
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        self.addCleanup(os.close, side)
        self.resize(side, rows, columns)
        keys = termios.tcgetattr(side)
        top = subprocess.Popen([TJIT, "top", "--interval=0.2",
                                str(program.pid)], stdin=side, stdout=side,
                               env=environment(TERM="xterm"))
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        self.read(main, b"sequence")
        self.assertNotEqual(termios.tcgetattr(side), keys)
        return program, top, main, side, keys

    def resize(self, side, rows, columns):
        fcntl.ioctl(side, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, main, until, seconds=20):
        """What comes until these bytes do."""
        data, end = b"", time.monotonic() + seconds
        while until not in data:
            self.assertLess(time.monotonic(), end, data)
            if select.select([main], [], [], 0.1)[0]:
                data += os.read(main, 65536)
        return data

    def check_restored(self, top, main, side, keys, status=0):
        self.assertEqual(top.wait(20), status)
        self.read(main, LEAVE)
        self.assertEqual(termios.tcgetattr(side), keys)

    def test_q_and_ctrl_c(self):
        for key in (b"q", b"\x03"):
            _, *rest = self.open()
            os.write(rest[1], key)
            self.check_restored(*rest)

    def test_sigterm(self):
        _, top, *rest = self.open()
        top.send_signal(signal.SIGTERM)
        self.check_restored(top, *rest, status=-signal.SIGTERM)

    def test_the_picture_fits_and_follows_the_size(self):
        _, top, main, side, keys = self.open()
        self.resize(side, 5, 20)
        top.send_signal(signal.SIGWINCH)
        time.sleep(0.5)
        data = self.read(main, b"\x1b[J")
        time.sleep(0.5)
        data = self.read(main, b"\x1b[J")
        picture = data.split(b"\x1b[J")[-2].split(b"\x1b[H")[-1]
        lines = picture.split(b"\r\n")
        self.assertEqual(len(lines), 5)
        self.assertLessEqual(max(len(line.removesuffix(b"\x1b[K"))
                                 for line in lines), 20)
        os.write(main, b"q")
        self.check_restored(top, main, side, keys)

    def test_the_program_ends(self):
        program, top, main, side, keys = self.open()
        program.communicate("\n", timeout=60)
        self.assertEqual(top.wait(20), 0)
        data = self.read(main, b"the program has ended")
        self.assertIn(LEAVE, data)
        self.assertEqual(termios.tcgetattr(side), keys)

    def test_a_terminal_that_can_do_nothing_is_as_a_pipe(self):
        self.start().communicate("\n", timeout=60)
        for kind in ("dumb", ""):
            main, side = pty.openpty()
            self.addCleanup(os.close, main)
            self.addCleanup(os.close, side)
            subprocess.run([TJIT, "top", self.log], stdout=side, check=True,
                           env=environment(TERM=kind), timeout=60)
            self.assertNotIn(b"\x1b", self.read(main, b"has ended"))


class BadInputTest(Case):
    def test_logs(self):
        whole = log_writer.log(Stream().op(0, 1).op(1, 1))
        for name, data in (("text", b"aten::mm\n"), ("empty", b""),
                           ("old", log_writer.log(version=7)),
                           ("cut", whole[:5000]), ("page", whole[:100])):
            (self.folder / name).write_bytes(data)
        for name, said in (
                ("none", "cannot read none: No such file"),
                ("text", "text cannot be shown: it is no instruction log"),
                ("empty", "empty cannot be shown: it is empty"),
                ("old", "it is of version 7, this tjit reads versions 1 to 2"),
                (".", "it is a folder")):
            with self.subTest(name):
                self.assertEqual(
                    self.top(name, status=USAGE, stderr=said), "")
        for name in ("cut", "page"):
            text = self.top(name, status=DAMAGED,
                            stderr=f"{name}: the file is cut short")
            self.assertIn("ops pending", text)

    def test_processes(self):
        plain = subprocess.Popen(["sleep", "60"], env=environment())
        named = subprocess.Popen(["sleep", "60"], env=environment(
            TJIT_INSTRUCTION_LOG="/tmp/x.log"))
        for program in (plain, named):
            self.addCleanup(program.wait)
            self.addCleanup(program.kill)
        time.sleep(0.3)
        gone = 2 ** 22 + 1  # above the largest number
        for word, said in ((plain.pid, "start it with `tjit run --log=FILE`"),
                           (named.pid, "writes no log yet, though its "
                            "TJIT_INSTRUCTION_LOG is /tmp/x.log"),
                           (gone, f"there is no process {gone}")):
            for argument in (str(word), f"--pid={word}"):
                self.top(argument, status=USAGE, stderr=said)

    def test_command_lines(self):
        for arguments, said in (
                ([], "one log or process is wanted"),
                (["--pid=1", "a.log"], "one log or process is wanted"),
                (["a", "b"], "one log at a time, not a and b"),
                (["--pid=x"], "--pid=x is not used, accepted is the number"),
                (["--interval=0", "a"], "--interval=0 is not used, accepted"),
                (["--count=0", "a"], "--count=0 is not used, accepted"),
                (["--all"], "unknown option --all; accepted are ")):
            self.top(*arguments, status=USAGE, stderr=re.escape(said))
        self.assertIn("--interval=SECONDS", self.top("--help"))


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
