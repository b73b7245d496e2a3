"""`tjit attach` has a process that runs write an instruction log for a while.

What it proves: the log has a row for each op between its beginning and its end,
on each thread, as many as the steps of the program have, and rows for what was
replayed; the program computes the same bits and goes on; a second log, a log of
bounded size and that of a forked child are as good; nothing is left behind;
what stands against a log is said in one sentence, by the command alone.

Usage: attach_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from clean_environment import environment

TJIT = BIN = None
STATUS, USAGE, DAMAGED = 7, 2, 1
OPS = 5  # of a step of attached_loop.cpp
LINK = "/memfd:tjit-attach (deleted)"
ASKED = 2  # in the word of the page
VERSION_AT = 4


def open_files(pid):
    """What each descriptor of a process leads to."""
    files = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            files[f"/proc/{pid}/fd/{name}"] = os.readlink(
                f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # closed meanwhile
            pass
    return files


def page_of(pid):
    """The file of the page of a process."""
    return next((path for path, leads_to in open_files(pid).items()
                 if leads_to == LINK), None)


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("it did not come about")
        time.sleep(0.005)


def wait_until_asked(pid, path=b""):
    """The command has said what it wants; the program has not seen it."""
    page = page_of(pid)

    def is_asked():
        with open(page, "rb") as file:
            data = file.read()
        return struct.unpack("<I", data[:4])[0] & ASKED and path in data
    wait_for(is_asked)


class Program:
    """attached_loop, which does a line at a time."""

    def __init__(self, case, threads=1, run=True, preexec_fn=None, **extra):
        self.stats = case.folder / "s.json"
        extra.setdefault("TJIT_HOT_THRESHOLD", "3")
        command = [BIN / "attached_loop", str(threads)]
        if run:
            command = [TJIT, "run", f"--stats={self.stats}", "--", *command]
        self.process = subprocess.Popen(
            command, env=environment(**extra), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=case.folder, preexec_fn=preexec_fn)
        case.addCleanup(self.process.communicate)
        case.addCleanup(self.process.kill)
        self.pid = self.process.pid

    def send(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def do(self, line, said):
        self.send(line)
        answer = self.process.stdout.readline().rstrip("\n")
        if not re.fullmatch(said, answer):
            raise AssertionError((answer, self.process.stderr.read()))
        return answer

    def steps(self, count):
        self.do(count, "ran")

    def end(self):
        """Its result."""
        out, err = self.process.communicate(timeout=60)
        if (self.process.returncode, err) != (STATUS, ""):
            raise AssertionError((self.process.returncode, err))
        return out


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, **options):
        """`tjit attach` in this folder."""
        command = subprocess.Popen(
            [TJIT, "attach", *map(str, arguments)], cwd=self.folder, text=True,
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            **options)
        self.addCleanup(command.communicate)
        self.addCleanup(command.kill)
        return command

    def ended(self, command, status=0, stderr=""):
        """What it printed."""
        out, err = command.communicate(timeout=60)
        self.assertEqual((command.returncode, bool(err)),
                         (status, bool(stderr)), err)
        self.assertRegex(err, f"^(tjit attach: {stderr}\n)?$")
        return out

    def begun(self, program, steps, *options):
        """A command whose log has begun, and has so many steps."""
        command = self.start(program.pid, *options)
        wait_until_asked(program.pid)
        program.steps(steps)
        self.assertIn("writes", command.stdout.readline())
        return command

    def interrupt(self, program, command):
        """Ctrl-C; the program takes steps, of which the first one sees it."""
        command.send_signal(signal.SIGINT)
        wait_until_asked(program.pid)
        program.steps(7)

    def log_steps(self, program, steps, *options):
        """Logs so many steps and no more; returns what the command printed."""
        command = self.start(program.pid, "--seconds=60", *options)
        wait_until_asked(program.pid, f"/{options[1]}\0".encode())
        program.steps(steps)
        self.assertRegex(command.stdout.readline(),
                         rf"^process {program.pid} writes /.* for 60 s\n$")
        self.interrupt(program, command)
        return self.ended(command)

    def rows(self, name):
        """The rows of a log, which is closed."""
        done = subprocess.run([TJIT, "log", "--json", self.folder / name],
                              env=environment(), text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        _, *rows, end = map(json.loads, done.stdout.splitlines())
        self.assertEqual(end["end"], "closed")
        return rows

    def check_steps(self, name, steps, threads, printed):
        """As many rows as the steps have ops, and as many as were printed."""
        rows = self.rows(name)
        ops = [row for row in rows if row["event"] == "OP"]
        deferred = sum(row["deferred"] for row in ops)
        replays = [row for row in rows if row["event"] == "REPLAY"]
        self.assertEqual(len(ops), OPS * steps * threads)
        sources = {row["source"] for row in ops}
        self.assertEqual(len(sources), threads)
        for source in sources:
            names = [row["command"].split(":")[2].split(".")[0]
                     for row in ops if row["source"] == source]
            self.assertEqual(names, ["add", "add", "tanh", "sum",
                                     "_local_scalar_dense"] * steps)
        self.assertEqual(deferred, sum(
            int(re.search(r" ops=(\d+)", row["details"])[1])
            for row in rows if row["event"] in ("REPLAY", "DRAIN")))
        self.assertGreater(deferred, 0.7 * len(ops))
        self.assertFalse([row for row in rows if "open" in row])
        words = re.search(
            r"(\d+) rows? of (\d+) threads? in ([\d.]+) s: (\d+) ops? "
            r"\((\d+) deferred\), (\d+) replayed segments?\n", printed)
        self.assertIsNotNone(words, printed)
        last_s = max(row["time_ns"] for row in rows) / 1e9
        self.assertEqual(words[3], f"{last_s:.1f}")
        self.assertEqual(
            [int(words[i]) for i in (1, 2, 4, 5, 6)],
            [len(rows), threads, len(ops), deferred, len(replays)])
        # What was hot before has its names.
        known = [row["details"] for row in rows
                 if row["command"] == "Promoted" and
                 "known=attach" in row["details"]]
        self.assertRegex("\n".join(known),
                         r"sequence=\w{12} ops=5 known=attach executed=\d+ "
                         r"add -> add -> tanh -> sum")
        return rows

    def expected(self, steps, threads=1):
        """The result without tjit."""
        program = Program(self, threads, run=False)
        for count in steps:
            program.steps(count)
        return program.end()


class LogTest(Case):
    def check_rows(self, threads):
        program = Program(self, threads)
        program.steps(300)
        printed = self.log_steps(program, 200, "-o", "a.log")
        self.check_steps("a.log", 200, threads, printed)
        self.assertEqual(program.end(), self.expected([300, 200, 7], threads))
        did = json.loads(program.stats.read_text())
        self.assertEqual(did["ops_seen"], threads * (1 + OPS * 507))
        self.assertGreater(did["ops_replayed"], 0.7 * did["ops_seen"])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["a.log", "s.json"])

    def test_one_thread(self):
        self.check_rows(1)

    def test_three_threads(self):
        self.check_rows(3)

    def test_again_and_again(self):
        program = Program(self, 2)
        program.steps(300)
        for name, steps in (("a.log", 100), ("b.log", 50), ("a.log", 20)):
            printed = self.log_steps(program, steps, "-o", name)
            self.check_steps(name, steps, 2, printed)
            # Nothing of it is open any more.
            self.assertNotIn(".log", str(open_files(program.pid)))
        self.assertGreater(len(self.rows("b.log")), 500)
        self.assertEqual(program.end(),
                         self.expected([300, 100, 7, 50, 7, 20, 7], 2))

    def test_time_ends_it(self):
        """A program that never waits."""
        stats = self.folder / "s.json"
        steps = "60000"
        program = subprocess.Popen(
            [TJIT, "run", f"--stats={stats}", "--", BIN / "timed_loop", steps],
            env=environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        wait_for(lambda: page_of(program.pid))
        began = time.monotonic()
        printed = self.ended(self.start(program.pid, "--seconds=0.5"))
        took = time.monotonic() - began
        self.assertIsNone(program.poll())
        self.assertRegex(printed, r"tjit-\d+\.log: \d+ rows of 1 thread in "
                         r"0\.[45] s: ")
        self.assertLess(took, 10)
        rows = self.rows(f"tjit-{program.pid}.log")
        sums = sum(row["command"] == "aten::sum.dim_IntList" for row in rows)
        clamps = sum(row["command"] == "aten::clamp" for row in rows)
        self.assertGreater(sums, 100)
        self.assertLess(abs(clamps - 6 * sums), 7)
        out, _ = program.communicate(timeout=120)
        plain = subprocess.run([BIN / "timed_loop", steps], env=environment(),
                               stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(out.splitlines()[0], plain.stdout.splitlines()[0])
        self.assertEqual(json.loads(stats.read_text())["ops_seen"],
                         int(steps) * 50 + 2)

    def test_bounded(self):
        program = Program(self)
        program.steps(300)
        printed = self.log_steps(program, 20000, "-o", "a.log", "--log-mb=1")
        self.assertIn("a.log.old has what came right before", printed)
        sizes = [(self.folder / name).stat().st_size
                 for name in ("a.log", "a.log.old")]
        self.assertLessEqual(sum(sizes), 1 << 20)
        counted = 0
        for name in ("a.log", "a.log.old"):
            done = subprocess.run(
                [TJIT, "log", "--json", self.folder / name], text=True,
                env=environment(), capture_output=True, check=True)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            counted += len(rows) - 2
        self.assertIn(f": {counted} rows of 1 thread", printed)
        self.assertGreater(counted, 25000)
        program.end()

    def test_a_forked_child(self):
        """It has no log of its parent's, and a page of its own."""
        program = Program(self)
        program.steps(300)
        command = self.begun(program, 100, "--seconds=60", "-o", "a.log")
        child = int(program.do("fork", r"child \d+").split()[1])
        program.steps(50)  # of the child
        program.pid, parent = child, program.pid
        printed = self.log_steps(program, 40, "-o", "child.log")
        self.check_steps("child.log", 40, 1, printed)
        program.send("end")
        program.pid = parent
        while program.process.stdout.readline() != "back\n":
            pass
        program.steps(30)
        self.interrupt(program, command)
        self.check_steps("a.log", 130, 1, self.ended(command))
        self.assertEqual(program.end(), self.expected([300, 100, 30, 7]))
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.log*")),
                         ["a.log", "child.log"])

    def test_what_the_log_is_for(self):
        program = Program(self)
        program.steps(300)
        self.log_steps(program, 200, "-o", "a.log")
        for command, said in (
                (["log", "--summary", "a.log"], r"add -> add -> tanh -> sum"),
                (["log", "--chrome=t.json", "a.log"], ""),
                (["timeline", "a.log", "a.log", "-o", "t.html"], ""),
                (["explain", "--why=1", "a.log"],
                 r"(?s)found before the log began, by `tjit attach`: 5 ops.*"
                 r"hot by then, after \d+ sightings")):
            done = subprocess.run([TJIT, *command], cwd=self.folder, text=True,
                                  env=environment(), capture_output=True,
                                  timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            if said:
                self.assertRegex(done.stdout, said)
        trace = json.loads((self.folder / "t.json").read_text())
        self.assertEqual(sum(e.get("cat") in ("op", "deferred")
                             for e in trace["traceEvents"]), 200 * OPS)
        program.end()

    def test_top(self):
        program = Program(self)
        program.steps(300)
        command = self.begun(program, 100, "--seconds=60")
        top = subprocess.run([TJIT, "top", str(program.pid), "--count=1"],
                             env=environment(), text=True, timeout=60,
                             capture_output=True, check=False)
        self.assertEqual(top.stderr, "")
        self.assertRegex(top.stdout, r"ops/s, ops +- +500\n")
        follow = subprocess.Popen(
            [TJIT, "top", str(program.pid), "--interval=0.1"],
            env=environment(), text=True, stdout=subprocess.PIPE)
        self.addCleanup(follow.communicate)
        self.assertIn("running", follow.stdout.readline() +
                      follow.stdout.readline())
        self.interrupt(program, command)
        self.ended(command)
        out, _ = follow.communicate(timeout=60)
        self.assertRegex(out, r"(?s)ops/s, ops +[-\d.]+ +500\n.*\ntjit top: "
                         r"the log has ended, the program goes on\n$")
        top = subprocess.run([TJIT, "top", str(program.pid)], text=True,
                             env=environment(), capture_output=True,
                             timeout=60, check=False)
        self.assertEqual(top.returncode, USAGE)
        self.assertIn("or have it write one now by `tjit attach "
                      f"{program.pid}`", top.stderr)
        program.end()


class EarlyEndTest(Case):
    def attached(self):
        """A program that writes a log, and the command."""
        program = Program(self)
        program.steps(300)
        command = self.begun(program, 100, "--seconds=60", "-o", "a.log")
        return program, command

    def test_the_process_ends(self):
        program, command = self.attached()
        self.assertEqual(program.end(), self.expected([300, 100]))
        printed = self.ended(
            command, DAMAGED, stderr="the log ended early: "
            "the process has ended meanwhile")
        self.check_steps("a.log", 100, 1, printed)

    def test_the_process_is_killed(self):
        program, command = self.attached()
        program.process.kill()
        program.process.wait()
        printed = self.ended(command, DAMAGED,
                             stderr=".* has ended meanwhile.*")
        self.assertIn(f": {OPS * 100} ops", printed)

    def test_tjit_is_switched_off(self):
        program, command = self.attached()
        program.do("off", "off")
        printed = self.ended(command, DAMAGED, stderr="the log ended early: "
                             "tjit was switched off in the process")
        self.check_steps("a.log", 100, 1, printed)
        self.ended(self.start(program.pid), USAGE,
                   stderr=f"tjit is off in process {program.pid} by now.*")
        program.end()

    def test_the_program_runs_no_more_op(self):
        program, command = self.attached()
        command.send_signal(signal.SIGTERM)
        printed = self.ended(command, DAMAGED, stderr="the log ended early: "
                             "the process runs no op now; its log is "
                             "whole, and is closed with its next op")
        self.assertIn(f": {OPS * 100} ops", printed)
        program.steps(10)
        self.check_steps("a.log", 100, 1, printed)
        program.end()

    def test_the_command_is_killed(self):
        """The log ends when its time is over."""
        program = Program(self)
        program.steps(300)
        command = self.begun(program, 100, "--seconds=1", "-o", "a.log")
        command.kill()
        command.wait()
        time.sleep(1.1)
        program.steps(50)
        self.assertEqual(sum(row["event"] == "OP" for row in
                             self.rows("a.log")), OPS * 100)
        self.log_steps(program, 20, "-o", "b.log")
        self.assertEqual(program.end(), self.expected([300, 100, 50, 20, 7]))

    def test_a_disk_that_gets_full(self):
        """A limit of a file's size is as good."""
        limit = 200 << 10
        program = Program(self, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)))
        program.steps(300)
        command = self.begun(program, 10000, "--seconds=60", "-o", "a.log")
        self.interrupt(program, command)
        printed = self.ended(command, DAMAGED, stderr="the log ended early: "
                             "the process could not write more of it")
        counted = int(re.search(r": (\d+) ops", printed)[1])
        self.assertGreater(counted, 5000)
        self.assertLess(counted, OPS * 10000)
        out, err = program.process.communicate(timeout=60)
        self.assertEqual(out, self.expected([300, 10000, 7]))
        self.assertRegex(err, r"^tjit: tjit attach: cannot write "
                         r"\".*/a\.log\": File too large; the log ends here, "
                         r"the program goes on\n$")


class RefusedTest(Case):
    def refused(self, pid, why, *options, **keywords):
        self.assertEqual(
            self.ended(self.start(pid, *options, **keywords), USAGE,
                       stderr=why), "")

    def test_processes(self):
        self.refused(2 ** 22 + 1, r"there is no process 4194305; give the "
                     "number of one that runs now")
        sleep = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleep.wait)
        self.addCleanup(sleep.kill)
        self.refused(sleep.pid, f"there is no tjit in process {sleep.pid}; "
                     "start it with `tjit run -- program`")

    def test_another_user(self):
        program = Program(self)
        program.steps(10)
        if os.geteuid() == 0:
            self.folder.chmod(0o777)
            keywords = {"user": 65534, "group": 65534, "extra_groups": []}
            pid = program.pid
        else:
            keywords, pid = {}, 1
        self.refused(pid, f"cannot see the files of process {pid}: Permission "
                     "denied; attach as the user whose process it is",
                     **keywords)
        program.end()

    def test_the_child_of_a_shell(self):
        shell = subprocess.Popen(
            ["sh", "-c", '"$0" run -- "$1" 1; true', TJIT,
             BIN / "attached_loop"], env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(shell.communicate)
        shell.stdin.write("10\n")
        shell.stdin.flush()
        self.assertEqual(shell.stdout.readline(), "ran\n")
        self.refused(shell.pid, rf"there is no tjit in process {shell.pid}, "
                     r"but in its child \d+: tjit attach \d+")

    def test_tjit_that_is_not_on(self):
        library = BIN.parent / "lib" / "libtjit.so"
        off = r"tjit is off in process {}, by TJIT_DISABLE=1; start it .*"
        for run, value, why in (
                (True, {"TJIT_DISABLE": "1"}, off),
                (False, {"TJIT_DISABLE": "1", "LD_PRELOAD": str(library)}, off),
                (True, {"TJIT_AUTO_COMPILE": "0"},
                 "tjit is loaded in process {} and not on, or has no memory "
                 "to share; .*")):
            program = Program(self, run=run, **value)
            program.steps(10)
            self.refused(program.pid, why.format(program.pid))
            program.process.communicate(timeout=60)

    def test_another_version(self):
        program = Program(self)
        program.steps(10)
        with open(page_of(program.pid), "r+b") as page:
            page.seek(VERSION_AT)
            page.write(struct.pack("<I", 99))
        self.refused(program.pid, f"process {program.pid} runs with another "
                     "tjit: its page is of version 99, this command knows "
                     "version 1; use the `tjit` that lies beside that "
                     "libtjit.so")
        program.end()

    def refused_path(self, program, path, why, *options):
        command = self.start(program.pid, "-o", path, *options)
        wait_until_asked(program.pid)
        program.steps(10)
        self.ended(command, USAGE, stderr=f"process {program.pid} writes no "
                   f"log: {why}")

    def test_paths(self):
        program = Program(self)
        program.steps(10)
        (self.folder / "text").write_text("import torch\n")
        (self.folder / "folder").mkdir()
        where = re.escape(str(self.folder))
        self.refused_path(program, "missing/a.log",
                          f'cannot write "{where}/missing/a.log": No such file '
                          "or directory")
        self.refused_path(program, "folder", f'cannot write "{where}/folder": '
                          "Is a directory")
        self.refused_path(program, "text", f'will not replace "{where}/text": '
                          ".*; name another file, or remove this one")
        self.assertEqual((self.folder / "text").read_text(), "import torch\n")
        (self.folder / "a.log.old").write_text("import torch\n")
        self.refused_path(program, "a.log", 'will not replace '
                          f'"{where}/a.log.old": .*', "--log-mb=1")
        # Another process writes it.
        other = Program(self, TJIT_INSTRUCTION_LOG="own.log")
        other.steps(10)
        self.refused_path(program, "own.log", f'cannot write "{where}/own.log":'
                          " another process writes a log there now")
        self.assertEqual(program.end(), self.expected([10] * 6))
        other.end()

    def test_a_log_of_its_own(self):
        program = Program(self, TJIT_INSTRUCTION_LOG="own.log")
        program.steps(10)
        self.refused(program.pid, f"process {program.pid} writes an "
                     "instruction log already: tjit log "
                     f"{re.escape(str(self.folder))}/own.log")
        self.assertEqual(program.end(), self.expected([10]))
        self.assertEqual(sum(row["event"] == "OP"
                             for row in self.rows("own.log")), 1 + OPS * 10)

    def test_a_log_of_its_own_that_could_not_be(self):
        library = BIN.parent / "lib" / "libtjit.so"
        program = Program(self, run=False, LD_PRELOAD=str(library),
                          TJIT_AUTO_COMPILE="1",
                          TJIT_INSTRUCTION_LOG="missing/own.log")
        program.steps(10)
        self.refused(program.pid, f"process {program.pid} has an instruction "
                     "log of its own, .*missing/own.log, which is not open: it "
                     "ran no op yet, or could not write it")
        program.process.communicate(timeout=60)

    def test_a_small_limit_of_files(self):
        """The page is no file that the limit would be a signal for."""
        program = Program(self, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (4096, 4096)))
        program.steps(10)
        self.refused(program.pid, "tjit is loaded in process .* and not on, or "
                     "has no memory to share; .*")
        program.process.communicate(timeout=60)

    def test_no_op_comes(self):
        program = Program(self)
        program.steps(10)
        self.refused(program.pid, f"process {program.pid} has run no op of "
                     "libtorch under tjit for 5 s, so it did not see the "
                     "request; try again when it computes")
        # The request is withdrawn.
        program.steps(10)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["s.json"])
        self.assertEqual(program.end(), self.expected([10, 10]))

    def test_the_process_ends_before_it_answers(self):
        program = Program(self)
        program.steps(10)
        command = self.start(program.pid)
        wait_until_asked(program.pid)
        program.process.kill()
        program.process.wait()
        self.ended(command, USAGE,
                   stderr=f"process {program.pid} has ended meanwhile")

    def test_ctrl_c_before_it_answers(self):
        program = Program(self)
        program.steps(10)
        command = self.start(program.pid)
        wait_until_asked(program.pid)
        command.send_signal(signal.SIGINT)
        self.ended(command, USAGE, stderr="nothing was written")
        program.steps(10)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["s.json"])

    def test_two_commands(self):
        program = Program(self)
        program.steps(10)
        first = self.start(program.pid, "-o", "a.log")
        wait_until_asked(program.pid)
        self.refused(program.pid, "another `tjit attach` has process "
                     f"{program.pid}; wait for its end, or end it")
        first.kill()
        first.wait()
        # What it asked for is not what the next one asks for.
        self.log_steps(program, 20, "-o", "b.log")
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.log")),
                         ["b.log"])

    def test_closed_descriptors(self):
        program = Program(self)
        program.steps(10)
        program.do("close", "closed")
        self.refused(program.pid, f"process {program.pid} has closed the "
                     "descriptor by which it is reached, as daemons do that "
                     "close all: start it with `tjit run --log=FILE`")
        program.steps(10)
        out, _ = program.process.communicate(timeout=60)
        self.assertEqual(out, self.expected([10, 10]))

    def test_another_view_of_the_files(self):
        """The log lies where the program sees it."""
        if subprocess.run(["unshare", "-rm", "true"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be had here")
        inner = self.folder / "inner"
        inner.mkdir()
        process = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c",
             'mount -t tmpfs none "$0" && exec "$@"', inner, TJIT, "run", "--",
             BIN / "attached_loop", "1"], env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

        def steps():
            process.stdin.write("10\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "ran\n")
        steps()
        command = self.start(process.pid, "-o", inner / "a.log")
        wait_until_asked(process.pid)
        steps()
        self.assertIn("writes", command.stdout.readline())
        command.send_signal(signal.SIGINT)
        wait_until_asked(process.pid)
        steps()
        out, err = command.communicate(timeout=60)
        self.assertEqual((command.returncode, out), (USAGE, ""))
        self.assertIn(f"which cannot be read here: No such file or directory; "
                      f"in a container it lies in /proc/{process.pid}/root"
                      f"{inner}/a.log", err)
        self.assertTrue(pathlib.Path(f"/proc/{process.pid}/root{inner}/a.log")
                        .exists())

    def test_command_line(self):
        for arguments, why in (
                ([], r"no process given: tjit attach \[options\] PID"),
                (["loop"], "loop is not the number of a process; .*"),
                (["0"], "0 is not the number of a process; .*"),
                (["1", "2"], "one process at a time, not 1 and 2"),
                (["1", "--seconds=0"], "--seconds=0 is not used, accepted are "
                 "seconds from 0.1 to 86400"),
                (["1", "--seconds=x"], "--seconds=x is not used, .*"),
                (["1", "--log-mb=0"], "--log-mb=0 is not used, accepted is a "
                 "whole number from 1 to 1000000"),
                (["1", "--all"], "unknown option --all; accepted are .*"),
                (["1", "-o"], ".*")):
            with self.subTest(arguments):
                self.assertEqual(self.ended(self.start(*arguments), USAGE,
                                            stderr=why), "")
        done = subprocess.run([TJIT, "attach", "--help"], text=True,
                              capture_output=True, check=True)
        for option in ("--seconds=N", "-o PATH", "--log-mb=N"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
