"""`tjit explain --why=N LOG` tells what happened to one sequence.

What it proves: the figures of a story are those of the counters, of
`tjit explain` and of `tjit log --json` of the same run, for sequences that are
replayed, left at another op, size or number, paused, switched off, forgotten,
found again and compiled, of one thread and of several, in a region and outside;
rows that are rare, from logs that are made up; logs that are cut short, of
running programs, of other versions, and files that are none.

Usage: why_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import log_writer
from clean_environment import environment
from log_writer import COMPILE, DETECT, DRAIN, EXIT, REPLAY

TJIT = BIN = None
USAGE, DAMAGED, NO_SEAM = 2, 1, 3
NAME = "00000000000a"


def run(*command, timeout=200, **variables):
    return subprocess.run([str(c) for c in command],
                          env=environment(**variables), text=True,
                          capture_output=True, timeout=timeout, check=False)


def value(row, name):
    """Of "name=value" in the details of a row."""
    found = re.search(rf"(?:^| ){name}=(\S*)", row["details"])
    return found and found[1]


def times(n):
    return "once" if n == 1 else f"{n} times"


def ms(ns):
    return f"{ns / 1e6:.3f}"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "run.log"

    def need_seams(self):
        done = run(BIN / "followed_loop", "off", "1", TJIT_AUTO_COMPILE="0")
        if done.returncode == NO_SEAM:
            self.skipTest("this build has no seams for tests")

    def run_logged(self, *command, status=0, backend="replay", options=(),
                   said="", **variables):
        """Sets `did`, the counters, and `rows`, those of the log that are of no
        op."""
        stats = self.folder / "stats.json"
        done = run(TJIT, "run", f"--log={self.log}", f"--stats={stats}",
                   *options, "--", BIN / command[0], *command[1:],
                   TJIT_BACKEND=backend, **variables)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, said or "^$")
        self.did = json.loads(stats.read_text())
        lines = run(TJIT, "log", "--json", self.log).stdout.splitlines()
        rows = list(map(json.loads, lines[1:-1]))
        self.rows = [row for row in rows if row["event"] != "OP"]
        self.last_ns = max((row["time_ns"] + row["took_ns"] for row in rows),
                           default=0)
        self.end = json.loads(lines[-1])

    def of(self, event, what=None, name=None):
        return [row for row in self.rows if row["event"] == event and
                what in (None, row["command"]) and
                name in (None, value(row, "sequence"))]

    def why(self, *arguments, status=0, said=""):
        done = run(TJIT, "explain", *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        if said == "":
            self.assertEqual(done.stderr, "")
        else:
            self.assertRegex(done.stderr, said)
        if status == USAGE:
            self.assertEqual(done.stdout, "")
        return done.stdout

    def sequence(self, number):
        found, = (s for s in self.did["sequence_details"]
                  if s["id"] == number)
        return found

    def name_of(self, number):
        found, = {value(row, "sequence") for row in self.of("DETECT", "Found")
                  if value(row, "id") == str(number)}
        return found

    def check_now(self, number, state=None):
        """The end of the story against the counters and the log. Returns the
        whole story."""
        text = self.why(f"--why={number}", self.log)
        known = self.sequence(number)
        name = self.name_of(number)
        left = known["left"]
        replays = self.of("REPLAY", name=name)
        drains = self.of("DRAIN", name=name)
        self.assertEqual(len(self.of("EXIT", name=name)), sum(left.values()))

        def ops(rows):
            n = sum(int(value(row, "ops")) for row in rows)
            return f"{n} op" if n == 1 else f"{n} ops"

        # Its first ops, of which the report names fewer.
        first_ops = re.escape(known["first_ops"].removesuffix(" -> ..."))
        self.assertRegex(
            text, rf"^sequence {number} \({name}\), {known['ops']} ops: "
            rf"{first_ops}( -> .*)?\n  program: .*, with tjit "
            rf"{self.did['tjit']}\n")
        now = text[text.index("\nnow, at "):]
        self.assertIn(f"\nnow, at {ms(self.last_ns)} ms, where the log "
                      f"ends ({self.end['end']}): {known['state']}\n", now)
        self.assertIn(f"\n  replayed to its end {times(known['replays'])}, left "
                      f"with deferred ops {times(sum(left.values()))}\n", now)
        segments = "segment" if len(replays) == 1 else "segments"
        self.assertIn(f"\n  {ops(replays)} replayed in {len(replays)} "
                      f"{segments}; {ops(drains)} deferred and run eagerly "
                      "after all\n", now)
        for reason, count in left.items():
            self.assertRegex(now, rf"\n  left {times(count)}: [^\n]* "
                             rf"\[{reason}\]\n")
        self.assertEqual(len(re.findall(r"\n  left ", now)), len(left))
        if state is not None:
            self.assertEqual(known["state"], state)
        self.check_times(text)
        return text

    def check_times(self, text):
        """The lines are in order, and each range goes forward."""
        began = [float(t) for t in re.findall(r"(?m)^ +(\d+\.\d{3}) ", text)]
        self.assertEqual(began, sorted(began))
        for first, last in re.findall(r"(?m)^ +(\S+) \.\. (\S+) ", text):
            self.assertLess(float(first), float(last))


class ReplayedTest(Case):
    def test_replayed(self):
        self.run_logged("timed_loop", "300")
        text = self.check_now(1, "replayed")
        self.assertGreater(self.sequence(1)["replays"], 250)
        self.assertEqual(self.did["ops_drained"], 0)
        name = self.name_of(1)
        hot, = self.of("DETECT", "Promoted", name)
        self.assertIn(f"\n  {ms(hot['time_ns']):>10}  ", text)
        self.assertRegex(text, rf"\n +{ms(hot['time_ns'])} +hot at sighting 10 "
                         r"of 10: ")
        # The first replay, at its end; the runs, from the first to the last.
        first = self.of("REPLAY", name=name)[0]
        self.assertRegex(
            text, rf"\n +{ms(first['time_ns'] + first['took_ns'])} +first "
            rf"replay: {value(first, 'ops')} ops ran because: item\(\), ")
        finished = self.of("DETECT", "Finished", name)
        self.assertEqual(len(finished), self.sequence(1)["replays"])
        self.assertRegex(
            text, rf"\n +{ms(finished[0]['time_ns'])} \.\. "
            rf"{ms(finished[-1]['time_ns'])} +replayed to its end "
            rf"{len(finished)} times\n")
        prepared, = self.of("COMPILE", "Complete", name)
        self.assertIn("prepared: a segment of 49 ops, called without ",
                      text)
        self.assertEqual(value(prepared, "direct"), "49")
        self.assertIn("  thread: MAIN\n", text)
        self.assertNotIn("region:", text)
        self.assertTrue(text.endswith("  what to do: nothing: it is replayed\n"))
        # What it won, as the report says it.
        report = run(TJIT, "explain", self.folder / "stats.json").stdout
        took, won = re.search(r"\n +(\S+ \S+ instead of \S+ \S+ a run), (about "
                              r".* (?:won|lost))\n", report).groups()
        self.assertIn(f"\n  {won}: {took}\n", text)
        timed = self.of("DETECT", "Timed", name)
        self.assertGreater(len(timed), 1)
        # Not with each run.
        self.assertLess(len(timed), 3 + self.last_ns / 1e8)
        self.assertRegex(text, rf"\n +{ms(timed[0]['time_ns'])} \.\. "
                         rf"{ms(timed[-1]['time_ns'])} +a run takes \S+ \S+ "
                         r"instead of \S+ \S+ eagerly, by the last "
                         r"measurement\n")

    def test_the_number_may_stand_alone_and_be_a_name(self):
        self.run_logged("timed_loop", "100")
        text = self.why("--why=1", self.log)
        self.assertEqual(self.why("--why", "1", self.log), text)
        self.assertEqual(self.why(self.log, "--why", "1"), text)
        self.assertEqual(self.why(f"--why={self.name_of(1)}", self.log), text)
        self.assertEqual(self.why("--why", self.name_of(1), self.log), text)

    def test_another_threshold(self):
        self.run_logged("timed_loop", "300", options=["--hot-threshold=25"])
        text = self.check_now(1, "replayed")
        self.assertIn("hot at sighting 25 of 25: ", text)
        self.assertIn("seen 25 of the 25 times that make it hot\n", text)

    def test_not_seen_often_enough(self):
        self.run_logged("timed_loop", "300", options=["--hot-threshold=1000"])
        text = self.check_now(1, "seen")
        seen = self.sequence(1)["sightings"]
        self.assertGreater(seen, 290)
        self.assertIn(f"  seen {seen} of the 1000 times that make it hot\n"
                      "  what to do: run for longer, or lower "
                      "TJIT_HOT_THRESHOLD\n", text)
        self.assertNotIn("replay:", text)
        self.assertEqual(self.did["ops_replayed"], 0)

    def test_a_profile_makes_it_hot_at_once(self):
        profile = self.folder / "profile"
        for _ in range(2):
            self.run_logged("followed_loop", "read", "60",
                            TJIT_PROFILE=str(profile))
        self.assertEqual(self.did["traces_known"], 1)
        text = self.check_now(1, "replayed")
        self.assertIn("hot at once, as the profile of an earlier run knows it",
                      text)

    def test_region(self):
        self.run_logged("followed_loop", "region", "60")
        self.assertEqual(self.sequence(1)["region"], "one step=1")
        text = self.check_now(1, "replayed")
        self.assertIn("\n  region: one step=1\n", text)

    def test_threads(self):
        self.run_logged("followed_loop", "threads", "60")
        text = self.check_now(1, "replayed")
        self.assertIn("\n  threads: T1, T2\n", text)

    def test_compiled(self):
        self.run_logged("timed_loop", "20000", backend="llvm",
                        TJIT_CACHE_DIR="off")
        if self.did["kernels_compiled"] == 0:
            self.skipTest("this build has no compiler")
        text = self.check_now(1, "replayed")
        name = self.name_of(1)
        done, = (row for row in self.of("COMPILE", "Complete", name)
                 if value(row, "tier") == "2")
        self.assertEqual(self.did["compile_ns"] // 1000,
                         done["took_ns"] // 1000)
        at = ms(done["time_ns"] + done["took_ns"])
        fused = value(done, "fused")
        self.assertRegex(text, rf"\n +{at} +compiled in [\d.]+ m?s: "
                         rf"{value(done, 'groups')} groups? of {fused} ops "
                         "became machine code\n")
        asked, = (row for row in self.of("COMPILE", "Starting", name)
                  if value(row, "tier") == "2")
        self.assertRegex(text, rf"\n +{ms(asked['time_ns'])} +machine code was "
                         "asked for, for a segment of 49 ops\n")
        code, = self.did["compiled_segments"]
        measured, = self.of("COMPILE", "Measured", name)
        self.assertEqual((value(measured, "library_ns"),
                          value(measured, "compiled_ns"),
                          value(measured, "pays")),
                         (str(code["library_ns"]), str(code["compiled_ns"]),
                          str(int(code["pays"]))))
        self.assertRegex(
            text, rf"measured: {code['compiled_ns'] / 1e3:.4g} us a run with "
            rf"machine code, {code['library_ns'] / 1e3:.4g} us with library "
            rf"calls: the code is {'used' if code['pays'] else 'switched off'}")

    def test_all_sequences_together_are_the_counters(self):
        self.run_logged("timed_loop", "1500", "branches")
        self.assertGreater(len(self.did["sequence_details"]), 1)
        sums = [0, 0, 0]
        for sequence in self.did["sequence_details"]:
            text = self.check_now(sequence["id"])
            found = re.search(r"\n  (\d+) ops? replayed in (\d+) segments?; "
                              r"(\d+) ops? deferred ", text)
            sums = [a + int(b) for a, b in zip(sums, found.groups())]
        self.assertEqual(sums, [self.did["ops_replayed"], self.did["segments"],
                                self.did["ops_drained"]])
        # What was prepared belongs to the sequence whose ops it has.
        for sequence in self.did["sequence_details"]:
            name = self.name_of(sequence["id"])
            for row in self.of("COMPILE", "Complete", name):
                self.assertLess(int(value(row, "ops")), sequence["ops"])


class LeftTest(Case):
    def test_left(self):
        for kind, reason in (("branches", "op_differs"),
                             ("sizes", "meta_differs"),
                             ("numbers", "scalar_differs")):
            with self.subTest(kind):
                self.run_logged("timed_loop", "1500", kind)
                text = self.check_now(1, "replayed")
                count = self.sequence(1)["left"][reason]
                rows = self.of("EXIT", name=self.name_of(1))
                self.assertEqual([value(r, "reason") for r in rows],
                                 [reason] * count)
                first, last = (ms(rows[i]["time_ns"]) for i in (0, -1))
                when = first if count == 1 else rf"{first} \.\. {last}"
                often = "" if count == 1 else f"{count} times "
                noted, = self.did["exits"]
                self.assertRegex(
                    text, rf"\n +{when} +left {often}behind op "
                    rf"{noted['after_ops']} of {self.sequence(1)['ops']} "
                    rf"\(aten::\S+\): .* \[{reason}\]\n")
                self.assertIn(
                    f" the first time at {noted['op']}: {noted['actual']} "
                    f"instead of {noted['expected']}, called by "
                    f"{noted['place']}\n", text)
                # As `tjit explain` says it.
                report = run(TJIT, "explain",
                             self.folder / "stats.json").stdout
                remedy = text.split("what to do: ")[1].split("\n")[0]
                self.assertIn(f"\n  - {remedy}\n", report)

    def test_paused(self):
        self.run_logged("followed_loop", "leaving", "55")
        text = self.check_now(1, "paused")
        exits = self.of("EXIT", name=self.name_of(1))
        skips = [int(value(r, "skip")) for r in exits if value(r, "skip")]
        self.assertGreater(len(skips), 0)
        self.assertLess(self.sequence(1)["skip"], skips[-1] + 1)
        self.assertRegex(text, r"\n +\S+ .* paused( \d+ times)?, as it was left "
                         rf"so often: .* next {skips[-1]} entries are let pass"
                         "\n")
        passed = self.of("DETECT", "Let pass", self.name_of(1))
        self.assertGreater(len(passed), 0)
        # The fast way lets none pass without a row: each one that was to be.
        paused = [r for r in exits if value(r, "skip")][-1]
        since = [r for r in passed if r["time_ns"] > paused["time_ns"]]
        self.assertEqual(self.sequence(1)["skip"], skips[-1] - len(since))
        self.assertIn(f"\n  when it was left last, {skips[-1]} entries were to "
                      f"be let pass: {len(since)} have been, "
                      f"{self.sequence(1)['skip']} are left\n", text)
        first, last = (ms(passed[i]["time_ns"]) for i in (0, -1))
        self.assertIn(f"  {first:>10} .. {last:<10}  let pass {len(passed)} "
                      "times, as it was left so often\n", text)
        self.assertTrue(text.endswith(
            "\n  what to do: pass the same dims, flags and lists in each step, "
            "or let the value be a tensor\n"))

    def test_switched_off(self):
        self.need_seams()
        self.run_logged("followed_loop", "off", "2000", TJIT_HOT_THRESHOLD="4")
        self.assertEqual(self.did["traces_switched_off"], 1)
        text = self.check_now(1, "off")
        known = self.sequence(1)
        row, = self.of("DETECT", "Switched off", self.name_of(1))
        self.assertEqual((value(row, "eager_ns"), value(row, "replay_ns")),
                         (str(known["eager_ns"]), str(known["replay_ns"])))
        self.assertRegex(
            text, rf"\n +{ms(row['time_ns'])} +switched off, as eager is "
            rf"faster: {known['eager_ns'] / 1e3:.4g} us instead of "
            rf"{known['replay_ns'] / 1e3:.4g} us from run to run; .* again "
            r"after 1048576 runs\n")
        self.assertIn("what to do: nothing: it runs as eager libtorch runs it",
                      text)
        # What ran eagerly for the sake of measuring, and since.
        name = self.name_of(1)
        passed = self.of("DETECT", "Let pass", name)
        for why, said in (("trial", "to be compared with replays"),
                          ("off", "as eager is faster")):
            rows = [r for r in passed if value(r, "why") == why]
            self.assertGreater(len(rows), 3)
            self.assertRegex(
                text, rf"\n +{ms(rows[0]['time_ns'])} \.\. "
                rf"{ms(rows[-1]['time_ns'])} +run eagerly {len(rows)} times, "
                rf"{said}\n")
        self.assertIn("\n  since it was switched off it ran eagerly "
                      f"{len(rows)} times\n", text)

    def test_wrong(self):
        self.need_seams()
        self.run_logged("followed_loop", "wrong", "60", TJIT_SHADOW="1",
                        said="TJIT_SHADOW: ")
        self.assertGreater(self.did["shadow_mismatches"], 0)
        text = self.check_now(1, "blacklisted")
        row = self.of("DETECT", "Blacklisted", self.name_of(1))[-1]
        # Each entry since has paid one.
        self.assertLess(self.sequence(1)["skip"], int(value(row, "skip")))
        self.assertRegex(
            text, rf"\n +{ms(row['time_ns'])} +blacklisted: the replay differs "
            rf"from eager \[shadow_mismatch\]: the next {value(row, 'skip')} "
            "entries are let pass\n")
        self.assertIn("\n  what to do: a fault of tjit: report it with what "
                      "TJIT_SHADOW=1 says\n", text)

    def test_left_alone(self):
        self.need_seams()
        self.run_logged("followed_loop", "alone", "60", TJIT_THREAD_TRIALS="1")
        self.assertEqual(self.did["threads_left_alone"], 1)
        row, = self.of("DETECT", "Left alone")
        rest_s = int(value(row, "rest_ns")) // 10**9
        text = self.why("--why=1", self.log)
        self.check_times(text)
        self.assertRegex(
            text, rf"\n +{ms(row['time_ns'])} +its thread is left alone for "
            rf"{rest_s} s, as tjit made all of its ops "
            rf"{value(row, 'slower_percent')} % slower\n")
        self.assertRegex(text, r"\nnow, .*: left alone\n")
        # What ran since ran eagerly, so no row of the sequence is later, but
        # for the one at the end of the log that has its times.
        self.assertLess(max(r["time_ns"] for r in self.rows
                            if value(r, "sequence") == self.name_of(1) and
                            r["command"] != "Timed"),
                        row["time_ns"])


class ForgottenTest(Case):
    def test_cleared_and_found_again(self):
        self.run_logged("followed_loop", "clear", "60")
        name = self.name_of(1)
        finished = self.of("DETECT", "Finished", name)
        forgotten, = self.of("DETECT", "Forgotten", name)
        before = [r for r in finished if r["time_ns"] < forgotten["time_ns"]]
        after = len(finished) - len(before)
        # clear() began all counts of the sequence again.
        self.assertEqual(after, self.sequence(1)["replays"])
        self.assertGreater(min(len(before), after), 30)
        text = self.why("--why=1", self.log)
        self.check_times(text)
        self.assertEqual(text.count(" found: "), 2)
        self.assertRegex(
            text, rf"replayed to its end {len(before)} times\n"
            r"(?: +\S+ (?:\.\. \S+)? +a run takes .*\n)? +"
            rf"{ms(forgotten['time_ns'])} +forgotten, as the program called "
            r"tjit::clear\(\)\n")
        self.assertIn(f"replayed to its end {after} times\n", text)
        self.assertIn(f"\n  replayed to its end {len(finished)} times, ", text)

    def test_no_room(self):
        self.run_logged("followed_loop", "many", "64",
                        TJIT_MAX_TRACE_STEPS="200", TJIT_HOT_THRESHOLD="4")
        self.assertGreater(self.did["evictions"], 0)
        found = {value(r, "id"): r for r in self.of("DETECT", "Found")}
        self.assertEqual(len(found), self.did["traces"])
        kept = {str(s["id"]) for s in self.did["sequence_details"]}
        forgotten = {
            number for number, row in found.items()
            if any(r["time_ns"] > row["time_ns"] for r in
                   self.of("DETECT", "Forgotten", value(row, "sequence")))}
        self.assertEqual(kept & forgotten, set())
        self.assertEqual(kept | forgotten, set(found))
        # The first one, which never came again.
        text = self.why(f"--why={min(forgotten, key=int)}", self.log)
        self.assertIn(" forgotten, as records came near their bound and it was "
                      "run least\n", text)
        self.assertRegex(text, r"\nnow, .*: forgotten\n")
        self.assertIn("\n  what to do: raise TJIT_MAX_TRACE_STEPS, "
                      "TJIT_MAX_TRACE_MB or TJIT_MAX_MEMORY_MB\n", text)
        self.check_now(max(map(int, kept)))
        # More than a list has room for; what was found again is there once.
        names = {value(row, "sequence") for row in found.values()}
        self.assertGreater(len(names), 20)
        done = run(TJIT, "explain", "--why", self.log)
        self.assertEqual(done.returncode, USAGE)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 22)
        numbers = [int(line.split()[0]) for line in lines[1:-1]]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLessEqual(set(map(str, numbers)), set(found))
        self.assertEqual(lines[-1], f"  and {len(names) - 20} more, which `tjit "
                         "log --summary` lists by name")


class MadeUpTest(Case):
    """Rows that hardly any program writes."""

    def story(self, *streams, number="7", status=0, said="", **header):
        self.log.write_bytes(log_writer.log(*streams, **header))
        return self.why(f"--why={number}", self.log, status=status, said=said)

    def found(self, name=NAME, number=7, at=1000000):
        stream = log_writer.Stream()
        return stream.add(DETECT, at, 0, "Found", f"sequence={name} id={number} "
                          "ops=5 add -> mul")

    def add(self, stream, event, at_ms, command, details="", took_ns=0):
        return stream.add(event, int(1e6 * at_ms), took_ns, command,
                          f"sequence={NAME} {details}".strip())

    def test_exits_are_folded(self):
        stream = self.found()
        self.add(stream, DETECT, 1.5, "Promoted", "ops=5 executed=3 add -> mul")
        for at, after, why in ((2, 3, "op_differs"), (3, 4, "op_differs"),
                               (4, 3, "op_differs"), (5, 3, "meta_differs"),
                               (6, 3, "op_differs")):
            self.add(stream, EXIT, at, "Side exit",
                     f"after={after} aten::add reason={why}")
        # A milestone: what comes behind it is told on its own.
        self.add(stream, DETECT, 7, "Switched off",
                 "eager_ns=2000 replay_ns=3500 runs=99")
        self.add(stream, EXIT, 8, "Side exit",
                 "after=3 aten::add reason=op_differs")
        text = self.story(stream)
        lines = [line.split(None, 1)[1].strip() for line in text.splitlines()
                 if "behind op" in line]
        self.assertEqual(lines, [
            ".. 6.000       left 3 times behind op 3 of 5 (aten::add): another "
            "op was called [op_differs]",
            "left behind op 4 of 5 (aten::add): another op was called "
            "[op_differs]",
            "left behind op 3 of 5 (aten::add): sizes, strides or dtype differ "
            "[meta_differs]",
            "left behind op 3 of 5 (aten::add): another op was called "
            "[op_differs]"])
        self.assertIn("switched off, as eager is faster: 2 us instead of 3.5 us "
                      "from run to run; replaying it is tried again after 99 "
                      "runs\n", text)
        # What to do stands once for each reason, and for the worst at the end.
        self.assertEqual(text.count("what to do: each way of a branch"), 1)
        self.assertEqual(text.count("what to do: keep sizes"), 1)
        self.assertIn("\n  left 5 times: another op was called [op_differs]\n"
                      "  left once: sizes, ", text)
        self.assertIn("): off\n", text)

    def test_blacklisted(self):
        stream = self.found()
        self.add(stream, EXIT, 2, "Side exit", "after=3 aten::add "
                 "reason=slot_differs skip=1048576 blacklisted=1")
        text = self.story(stream)
        self.assertIn("blacklisted, as it was left more often than it came to "
                      "its end: the next 1048576 entries are let pass\n", text)
        self.assertIn("): blacklisted\n", text)
        self.assertTrue(text.endswith("  what to do: write to the same tensors "
                                      "in each step instead of swapping them "
                                      "or making them anew\n"))
        # A run that comes through ends that.
        self.add(stream, DETECT, 3, "Finished")
        text = self.story(stream)
        self.assertIn("): replayed\n", text)
        self.assertNotIn("when it was left last", text)
        self.add(stream, DETECT, 4, "Blacklisted",
                 "reason=shadow_mismatch skip=9")
        # That run comes to its end, with another segment; the next one says
        # that it was tried again.
        self.add(stream, REPLAY, 5, "Executed", "ops=2 reason=sync_call")
        self.assertIn("): blacklisted\n", self.story(stream))
        self.add(stream, DETECT, 5, "Finished")
        text = self.story(stream)
        self.assertIn("blacklisted: the replay differs from eager "
                      "[shadow_mismatch]: the next 9 entries are let pass\n",
                      text)
        self.assertIn("): blacklisted\n", text)
        self.add(stream, REPLAY, 6, "Executed", "ops=5 reason=item")
        self.assertIn("): replayed\n", self.story(stream))

    def test_a_thread_is_left_alone(self):
        stream = self.found()
        self.add(stream, DETECT, 2, "Finished")
        stream.add(DETECT, 3000000, 0, "Left alone",
                   "sequence=none rest_ns=10000000000 slower_percent=4.5")
        other = log_writer.Stream(log_writer.THREAD, 1)
        other.add(DETECT, 1500000, 0, "Found",
                  "sequence=00000000000b id=8 ops=9 mm")
        text = self.story(stream, other)
        self.assertRegex(text, r"\n +3\.000 +its thread is left alone for 10 s, "
                         "as tjit made all of its ops 4.5 % slower\n")
        self.assertIn("): left alone\n", text)
        self.assertNotIn("left alone", self.why("--why=8", self.log))
        # The row is of no sequence.
        self.assertNotIn("none", run(TJIT, "log", "--summary",
                                     self.log).stdout)

    def test_not_compiled(self):
        stream = self.found()
        self.add(stream, COMPILE, 2, "Starting", "ops=5 tier=2")
        text = self.story(stream)
        self.assertIn("machine code for 1 segment was asked for and had not "
                      "come\n", text)
        self.add(stream, COMPILE, 3, "Complete", "groups=0 fused=0 tier=2 "
                 "failed=2 why=no memory for code", took_ns=500000)
        text = self.story(stream)
        self.assertRegex(text, r"\n +3\.500 +not compiled, after 500 us: its "
                         "ops stay library calls; 2 groups could not, the first "
                         "because: no memory for code\n")
        self.assertNotIn("had not come", text)
        self.add(stream, COMPILE, 4, "Complete", "groups=0 fused=0 tier=2")
        self.add(stream, COMPILE, 5, "Measured",
                 "ops=5 pays=0 library_ns=1500 compiled_ns=2500")
        text = self.story(stream)
        self.assertIn("its ops stay library calls, as machine code would win "
                      "nothing for them\n", text)
        self.assertIn("measured: 2.5 us a run with machine code, 1.5 us with "
                      "library calls: the code is switched off\n", text)

    def test_a_crash_while_a_segment_is_prepared(self):
        stream = self.found()
        self.add(stream, COMPILE, 2, "Starting", "ops=5 tier=1")
        text = self.story(stream)
        self.assertIn("\n  a segment was being prepared when the log ended\n",
                      text)
        # It failed, and is tried again.
        self.add(stream, COMPILE, 2, "Starting", "ops=5 tier=1")
        self.add(stream, COMPILE, 3, "Complete", "ops=5 direct=3", took_ns=2000)
        text = self.story(stream)
        self.assertNotIn("being prepared", text)
        self.assertRegex(text, r"\n +3\.002 +prepared: a segment of 5 ops, 3 of "
                         "them called without libtorch's dispatcher, in 2 us\n")
        self.add(stream, COMPILE, 4, "Complete", "ops=5 direct=3", took_ns=3000)
        self.assertIn(" dispatcher, in 5 us in all, 2 times\n",
                      self.story(stream))

    def test_a_long_story_is_cut(self):
        stream = self.found()
        for i in range(100):
            self.add(stream, EXIT, 2 + i, "Side exit",
                     f"after={i} aten::add reason=op_differs")
        text = self.story(stream)
        self.assertIn(" ... 41 more lines ...\n", text)
        self.assertIn("behind op 38 of 5 ", text)
        self.assertNotIn("behind op 39 of 5 ", text)
        self.assertNotIn("behind op 79 of 5 ", text)
        self.assertIn("behind op 80 of 5 ", text)
        self.assertIn("left with deferred ops 100 times\n", text)

    def test_a_log_of_an_earlier_tjit(self):
        """It has no numbers, no runs and no thresholds."""
        stream = log_writer.Stream()
        self.add(stream, DETECT, 1, "Found", "ops=5")
        self.add(stream, DETECT, 2, "Promoted", "ops=5 executed=3 add -> mul")
        self.add(stream, REPLAY, 3, "Executed", "ops=4 reason=item")
        self.add(stream, DRAIN, 4, "Drained", "ops=1 reason=mismatch")
        text = self.story(stream, number=NAME)
        self.assertIn(f"sequence {NAME}, 5 ops: add -> mul\n", text)
        self.assertIn("hot at sighting 3: ", text)
        self.assertIn("\n  4 ops replayed in 1 segment; 1 op deferred and run "
                      "eagerly after all\n", text)
        self.story(stream, number="1", status=USAGE,
                   said=rf"\n  {NAME} +5 ops: add -> mul, hot\n$")

    def test_two_of_one_number(self):
        stream = self.found()
        stream.add(DETECT, 2000000, 0, "Found",
                   "sequence=00000000000b id=7 ops=9 mm")
        self.story(stream, status=USAGE, said=r"--why=7 may mean 2 sequences, "
                   r".*; name one as --why=NAME: 00000000000a, 00000000000b\n$")
        self.assertIn("sequence 7 (00000000000b), 9 ops: mm\n",
                      self.story(stream, number="00000000000b"))

    def test_nothing_goes_to_the_terminal_as_it_is(self):
        evil = "\x1b]0;x\x07"
        stream = log_writer.Stream()
        stream.add(DETECT, 1000000, 0, "Found",
                   f"sequence=a{evil} id=7 region={evil}%1b ops=5 {evil}")
        stream.add(EXIT, 2000000, 0, "Side exit", f"sequence=a{evil} "
                   f"after={evil} {evil} reason={evil} skip=3")
        stream.add(DETECT, 2000000, 0, "Differs", f"sequence=a{evil} after=1 "
                   f"reason={evil} op={evil} expected=%1b actual=%1b place=%07")
        text = self.story(stream, program=evil)
        text += run(TJIT, "explain", "--why", self.log).stderr
        self.assertEqual([c for c in text if c < " " and c != "\n"], [])

    def test_damaged_rows(self):
        stream = log_writer.Stream()
        for event in (DETECT, COMPILE, EXIT, REPLAY, DRAIN):
            for what in ("Found", "Seen", "Promoted", "Complete", "Starting",
                         "Measured", "Forgotten", "Side exit", "Left alone"):
                for details in ("", "tier=2", "after=", "reason=", "ops=x",
                                "skip=99999999999999999999"):
                    self.add(stream, event, 1, what, details, took_ns=1e30)
        text = self.story(stream, number=NAME)
        self.assertIn("\nnow, at ", text)


class BadInputTest(Case):
    def test_which_sequences_there_are(self):
        self.run_logged("timed_loop", "1500", "branches")
        listed = "".join(rf"\n  {s['id']} +{s['ops']} ops: mul -> mul -> add.*, "
                         rf"{s['state']}"
                         for s in self.did["sequence_details"]) + r"\n$"
        self.why("--why", self.log, status=USAGE,
                 said=rf"^tjit explain: --why needs the number of a sequence: "
                 rf"--why=N; {self.log} knows{listed}")
        self.why("--why=99", self.log, status=USAGE,
                 said=rf"^tjit explain: there is no sequence 99; {self.log} "
                 f"knows{listed}")
        self.why("--why=mm", self.log, status=USAGE,
                 said="there is no sequence mm; ")

    def test_no_sequence(self):
        self.run_logged("timed_loop", "1")
        self.why("--why=1", self.log, status=USAGE,
                 said=rf"^tjit explain: {self.log} knows no sequence: of the "
                 rf"{self.did['ops_seen']} ops in it none were found to repeat "
                 r"for long enough\n$")

    def test_files_that_are_no_log(self):
        self.run_logged("timed_loop", "100")
        stats = self.folder / "stats.json"
        empty = self.folder / "empty"
        empty.write_text("")
        text = self.folder / "text"
        text.write_text("aten::mm\n")
        newer = self.folder / "newer"
        newer.write_bytes(log_writer.log(log_writer.Stream(), version=3))
        get = (r"; --why wants an instruction log: `tjit run --log=run\.log -- "
               r"program` writes one\n$")
        for path, said in (
                (stats, f"{stats} is a file of TJIT_STATS, which has no times"),
                ("/no/such", "cannot read /no/such: No such file or directory"),
                (BIN, f"{BIN} cannot be explained: it is a folder"),
                (empty, f"{empty} cannot be explained: it is empty"),
                (text, f"{text} cannot be explained: it is no instruction log "
                 "of tjit"),
                (newer, f"{newer} cannot be explained: it is of version 3, this "
                 "tjit reads versions 1 to 2")):
            with self.subTest(path):
                self.why("--why=1", path, status=USAGE,
                         said=f"^tjit explain: {re.escape(said)}{get}")

    def test_command_line(self):
        self.run_logged("timed_loop", "100")
        self.why("--why=1", status=USAGE, said="no instruction log given: tjit "
                 "explain --why=N LOG; `tjit run --log=LOG -- program` writes "
                 "one")
        self.why("--why=1", "--json", self.log, status=USAGE,
                 said="--why and --json do not go together; name one of them")
        self.why("--why=1", "-v", self.log, status=USAGE,
                 said="--why and --verbose do not go together")
        self.why("--why=1", "a", "b", status=USAGE,
                 said="one file is wanted, not a and b")
        # The only word is the file, whatever its name.
        self.why("--why", "77", status=USAGE, said="cannot read 77: ")
        # A log without --why.
        self.why(self.log, status=USAGE, said=rf"^tjit explain: {self.log} is an "
                 rf"instruction log; `tjit explain --why=N {self.log}` follows "
                 r"one of its sequences, and `tjit log` prints its rows\n$")
        self.assertIn("--why=N", self.why("--help"))
        self.assertIn("TJIT_INSTRUCTION_LOG", self.why("--help"))

    def test_cut_short(self):
        self.run_logged("timed_loop", "300")
        data = self.log.read_bytes()
        used = (len(data.rstrip(b"\0")) + 15) // 16 * 16
        cut = self.folder / "cut.log"
        cut.write_bytes(data[:used // 2])
        text = self.why("--why=1", cut, status=DAMAGED,
                        said=f"^tjit explain: {cut}: the file is cut short: ")
        now = int(re.search(r"\n  replayed to its end (\d+) times", text)[1])
        self.assertGreater(now, 20)
        self.assertLess(now, self.sequence(1)["replays"])
        cut.write_bytes(data[:20])
        self.why("--why=1", cut, status=USAGE,
                 said=r"(?s)knows no sequence.*\n.*cut short within its first")

    def test_killed(self):
        done = run(TJIT, "run", f"--log={self.log}", "--",
                   BIN / "logged_program", "kill")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        text = self.why("--why=1", self.log,
                        said="^tjit explain: the program ended without closing "
                        "the log ")
        self.assertRegex(text, r"\nnow, .* \(killed\): replayed\n")

    def test_running(self):
        with subprocess.Popen(
                [TJIT, "run", f"--log={self.log}", "--",
                 BIN / "logged_program", "slow"], env=environment(), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            self.assertEqual(program.stdout.readline(), "waits\n")
            text = self.why("--why=1", self.log, said=rf"^tjit explain: the "
                            rf"program of {self.log} still runs: the story has "
                            r"what it has done until now\n$")
            self.assertRegex(text, r"\nnow, .* \(running\): replayed\n")
            program.communicate("\n", timeout=60)
        after = self.why("--why=1", self.log)
        self.assertRegex(after, r"\nnow, .* \(closed\): replayed\n")


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
