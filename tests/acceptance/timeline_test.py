"""The pictures of an instruction log show what the log says.

What it proves, of `tjit log --chrome`: the trace has a slice or an instant for
each row, as many ops as the counters say, arrows for each op that ran later,
slices that nest or are disjoint on each track, and lengths as in the log. Of
`tjit timeline`: its figures are those of the rows, and what is painted is as
wide as they are long. Of both: --last draws the end, a long log takes little
memory, and what is wrong with a file is said.

Python's json reads the traces here, as no test installs packages. An
independent reader is `trace-lanefix --snap-threshold-us=0 IN OUT` (pip install
trace-lanefix): it counts the slices, and has to find nothing to move.

Usage: timeline_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import collections
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import log_writer
from clean_environment import environment
from log_writer import Stream

TJIT = BIN = None
USAGE, DAMAGED = 2, 1
SVG = "{http://www.w3.org/2000/svg}"
# Runs a command and prints how many KiB it had at most.
MEASURE = ("import resource, subprocess, sys; "
           "subprocess.run(sys.argv[1:], check=True); "
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
WAITING = "waits for other threads and for code (WAIT)"
# Of one Loop() of logged_program.cpp.
OPS = 1001


def slices(trace, *categories):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and
            (not categories or e["cat"] in categories)]


def instants(trace):
    return [e for e in trace["traceEvents"] if e["ph"] == "i"]


def tracks(trace):
    """Names by tid."""
    return {e["tid"]: e["args"]["name"] for e in trace["traceEvents"]
            if e["name"] == "thread_name"}


def begin_ns(event):
    return round(event["ts"] * 1000)


def end_ns(event):
    return begin_ns(event) + round(event["dur"] * 1000)


def crossings(trace):
    """Pairs of slices of one track that neither nest nor are disjoint."""
    found = []
    by_track = collections.defaultdict(list)
    for event in slices(trace):
        by_track[event["tid"]].append(event)
    for events in by_track.values():
        events.sort(key=lambda e: (begin_ns(e), -end_ns(e)))
        around = []
        for event in events:
            while around and end_ns(around[-1]) <= begin_ns(event):
                around.pop()
            if around and end_ns(event) > end_ns(around[-1]):
                found.append((around[-1], event))
            around.append(event)
    return found


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, *streams, **keywords):
        (self.folder / name).write_bytes(log_writer.log(*streams, **keywords))

    def tjit(self, *arguments, status=0, stderr=""):
        """What the command prints."""
        done = subprocess.run([TJIT, *arguments], text=True, cwd=self.folder,
                              env=environment(), capture_output=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if stderr == "":
            self.assertEqual(done.stderr, "")
        else:
            self.assertRegex(done.stderr, stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stdout

    def run_logged(self, name, *command, on=True, status=0):
        """Returns the counters."""
        extra = {} if on else {"TJIT_AUTO_COMPILE": "0"}
        stats = self.folder / f"{name}.json"
        done = subprocess.run(
            [TJIT, "run", f"--log={self.folder / name}", f"--stats={stats}",
             "--", BIN / command[0], *command[1:]], text=True,
            env=environment(TJIT_HOT_THRESHOLD="3", **extra),
            capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(stats.read_text()) if on and stats.exists() else {}

    def rows(self, name, *options):
        """The rows, as `tjit log --json` has them."""
        lines = self.tjit("log", "--json", *options, name).splitlines()
        return [json.loads(line) for line in lines][1:-1]

    def trace(self, name, *options, **keywords):
        out = self.folder / f"{name}.trace"
        self.tjit("log", f"--chrome={out}", *options, name, **keywords)
        return json.loads(out.read_text())

    def close_to(self, value, expected):
        """Within 3 %."""
        self.assertAlmostEqual(value, expected, delta=0.03 * abs(expected))


class ChromeTest(Case):
    def check(self, name, did=None):
        """The trace against the rows, and the counters where there are some.
        Returns the trace."""
        rows = self.rows(name)
        trace = self.trace(name)
        self.assertEqual(crossings(trace), [])
        events = collections.Counter(row["event"] for row in rows)
        deferred = sum(row["deferred"] for row in rows)
        self.assertEqual(len(slices(trace)) + len(instants(trace)), len(rows))
        self.assertEqual(len(slices(trace, "op", "deferred")), events["OP"])
        self.assertEqual(len(slices(trace, "deferred")), deferred)
        self.assertEqual(len(slices(trace, "replay")), events["REPLAY"])
        self.assertEqual(len(slices(trace, "drain")), events["DRAIN"])
        self.assertEqual(len(slices(trace, "wait")), events["WAIT"])
        kinds = collections.Counter(e["cat"] for e in instants(trace))
        self.assertEqual(kinds["exit"], events["EXIT"])
        self.assertEqual(kinds["detect"], events["DETECT"])
        for category, event in (("op", "OP"), ("replay", "REPLAY"),
                                ("drain", "DRAIN"), ("compile", "COMPILE"),
                                ("wait", "WAIT")):
            took_ns = sum(row["took_ns"] for row in rows
                          if row["event"] == event)
            self.close_to(1000 * sum(e["dur"] for e in slices(trace, category)),
                          took_ns)
        self.close_to(max(map(end_ns, slices(trace))),
                      max(row["time_ns"] + row["took_ns"] for row in rows))
        arrows = self.check_arrows(trace)
        if did is not None:
            self.assertEqual(len(slices(trace, "op", "deferred")),
                             did["ops_seen"])
            self.assertEqual(deferred, did["ops_deferred"])
            self.assertEqual(events["REPLAY"], did["segments"])
            self.assertGreater(did["ops_replayed"], 500)
            self.assertEqual(arrows, did["ops_replayed"] + did["ops_drained"])
        return trace

    def check_arrows(self, trace):
        """From a deferred op to what ran it. Returns how many there are."""
        called = {(e["tid"], begin_ns(e)) for e in slices(trace, "deferred")}
        ran = {(e["tid"], begin_ns(e)) for e in slices(trace, "replay",
                                                       "drain")}
        ends = collections.defaultdict(dict)
        for event in trace["traceEvents"]:
            if event["ph"] in "sf":
                ends[event["id"]][event["ph"]] = event
        for pair in ends.values():
            tail, head = pair["s"], pair["f"]
            self.assertIn((tail["tid"], begin_ns(tail)), called)
            self.assertIn((head["tid"], begin_ns(head)), ran)
            self.assertLess(tail["ts"], head["ts"])
        return len(ends)

    def test_loop(self):
        did = self.run_logged("a.log", "timed_loop", "3000")
        trace = self.check("a.log", did)
        head = trace["otherData"]
        self.assertEqual(head["program"], f"{BIN / 'timed_loop'} 3000")
        self.assertEqual(trace["traceEvents"][0]["args"]["name"],
                         head["program"])
        replay = slices(trace, "replay")[-1]
        self.assertEqual(replay["name"], "REPLAY Executed")
        self.assertRegex(replay["args"]["sequence"], "^[0-9a-f]{12}$")
        self.assertEqual(replay["args"]["ops"], "49")
        self.assertEqual(replay["args"]["reason"], "item")
        op = slices(trace, "deferred")[-2]
        self.assertEqual(op["name"], "aten::add.Tensor")
        self.assertEqual(op["args"]["bytes"], 16384)
        self.assertEqual(op["args"]["details"],
                         "f32[64,64], f32[64,64] -> f32[64,64]")
        # Code of tier 2 comes from another thread, that of tier 1 does not.
        names = tracks(trace)
        where = {e["args"].get("tier", "1"): names[e["tid"]]
                 for e in slices(trace, "compile")}
        self.assertEqual(where, {"1": "MAIN", "2": "COMPILER"})

    def test_training(self):
        self.check("a.log", self.run_logged("a.log", "unmodified_loop",
                                            status=7))

    def test_exits(self):
        did = self.run_logged("a.log", "timed_loop", "1000", "branches")
        trace = self.check("a.log", did)
        exits = [e for e in instants(trace) if e["cat"] == "exit"]
        self.assertGreater(len(exits), 0)
        self.assertIn("reason", exits[0]["args"])

    def test_threads(self):
        self.run_logged("a.log", "logged_program", "threads", status=7)
        trace = self.check("a.log")
        names = tracks(trace)
        ops = collections.Counter(names[e["tid"]]
                                  for e in slices(trace, "op", "deferred"))
        self.assertEqual(ops, {"MAIN": OPS, "T1": OPS, "T2": OPS})

    def test_eager(self):
        self.run_logged("a.log", "timed_loop", "100", on=False)
        trace = self.check("a.log")
        self.assertEqual({e["cat"] for e in slices(trace)}, {"op"})

    def test_an_end_that_is_rounded_up(self):
        # As a float it is 31 ns longer, into the op that follows.
        long_ns = (1 << 30) + 97
        main = Stream().add(log_writer.REPLAY, 1000, long_ns, "Executed",
                            "sequence=a ops=0 reason=item")
        main.op(1000 + long_ns, 9000).op(1000 + long_ns + 9000, 5000)
        self.write("a.log", main)
        first, second = slices(self.check("a.log"), "op")
        self.assertEqual((begin_ns(first), end_ns(first)),
                         (1000 + long_ns + 31, 1000 + long_ns + 9000))
        self.assertEqual(end_ns(second) - begin_ns(second), 5000)

    def test_an_end_that_is_rounded_down(self):
        # As a float it is 33 ns shorter, so that what it encloses sticks out.
        long_ns = (1 << 30) + 33
        main = Stream().add(log_writer.REPLAY, 1000, long_ns, "Executed",
                            "sequence=a ops=0 reason=item")
        main.op(long_ns - 8000, 9000)
        self.write("a.log", main)
        (op,) = slices(self.check("a.log"), "op")
        self.assertEqual((begin_ns(op), end_ns(op)),
                         (long_ns - 8000, 1000 + (1 << 30)))

    def test_ops_of_the_same_moment(self):
        self.write("a.log", Stream().deferred(10).deferred(10).deferred(10)
                   .add(log_writer.REPLAY, 10, 100, "Executed",
                        "sequence=a ops=3 reason=item"))
        trace = self.check("a.log")
        self.assertEqual(self.check_arrows(trace), 3)
        self.assertEqual([begin_ns(e) for e in slices(trace)], [10, 11, 12, 13])

    def test_a_row_that_is_written_late(self):
        # COMPILE of tier 1 within REPLAY: what happened in it comes first.
        main = Stream().add(log_writer.REPLAY, 100, 900, "Executed",
                            "sequence=a ops=0 reason=item")
        main.op(200, 50).op(300, 50)
        main.add(log_writer.COMPILE, 190, 200, "Complete", "sequence=a ops=4")
        main.op(1100, 50)
        self.write("a.log", main)
        trace = self.check("a.log")
        self.assertEqual(set(tracks(trace).values()), {"MAIN"})

    def test_code_that_is_picked_up_late(self):
        main = Stream().op(1000, 500)
        for time_ns in (600, 700):
            main.add(log_writer.COMPILE, time_ns, 900, "Complete",
                     "sequence=a tier=2")
        self.write("a.log", main)
        trace = self.check("a.log")
        self.assertEqual(sorted(tracks(trace).values()),
                         ["COMPILER", "COMPILER", "MAIN"])

    def test_workers_have_tracks_of_their_own(self):
        self.write("a.log", Stream(log_writer.WORKER).op(10, 100),
                   Stream(log_writer.WORKER).op(50, 100))
        trace = self.check("a.log")
        self.assertEqual(list(tracks(trace).values()), ["WORKER", "WORKER"])

    def test_another_thread_runs_what_was_deferred(self):
        self.write("a.log", Stream().deferred(10).deferred(20),
                   Stream(log_writer.THREAD, 1).deferred(5).add(
                       log_writer.REPLAY, 50, 10, "Executed",
                       "sequence=a ops=2 reason=read"))
        trace = self.check("a.log")
        names = tracks(trace)
        ends = [(e["ph"], names[e["tid"]]) for e in trace["traceEvents"]
                if e["ph"] in "sf"]
        self.assertEqual(ends, [("s", "MAIN"), ("f", "T1")] * 2)

    def test_an_op_that_never_ended(self):
        self.write("a.log", Stream().op(10, 20).op(50, 0,
                                                   flags=log_writer.OPEN),
                   Stream(log_writer.THREAD, 1).op(60, 40))
        trace = self.trace("a.log")
        self.assertEqual(crossings(trace), [])
        last = slices(trace)[-1]
        self.assertEqual((begin_ns(last), end_ns(last)), (50, 100))
        self.assertTrue(last["args"]["unfinished"])

    def test_last(self):
        self.run_logged("a.log", "timed_loop", "100")
        every = self.tjit("log", "--micros", "a.log").splitlines()
        self.assertEqual(self.tjit("log", "--micros", "--last=60",
                                   "a.log").splitlines(), every[-60:])
        adds = [line for line in every if "aten::add.Tensor" in line]
        self.assertEqual(self.tjit("log", "--micros", "--last=60", "--op=add*",
                                   "a.log").splitlines(), adds[-60:])
        end_s = max(float(line.split("s |")[0]) for line in every)
        half = f"{end_s / 2:.6f}"
        rows = self.rows("a.log")
        last_ns = max(row["time_ns"] for row in rows)
        late = [row for row in rows
                if row["time_ns"] >= last_ns - 1e9 * float(half)]
        self.assertGreater(len(late), 100)
        self.assertLess(len(late), len(rows))
        self.assertEqual(self.rows("a.log", f"--last={half}s"), late)
        # All of them, where there are fewer.
        self.assertEqual(self.rows("a.log", "--last=1000000"), rows)
        self.assertEqual(self.rows("a.log", "--last=1000s"), rows)
        trace = self.trace("a.log", "--last=60")
        self.assertEqual(len(slices(trace)) + len(instants(trace)), 60)
        drawn = len(slices(trace, "deferred"))
        self.assertGreater(drawn, 49)
        # An op that is not drawn has no arrow.
        self.assertIn(self.check_arrows(trace), (drawn, 49))

    def test_filters(self):
        self.run_logged("a.log", "timed_loop", "100")
        trace = self.trace("a.log", "--event=REPLAY")
        self.assertEqual({e["cat"] for e in slices(trace)}, {"replay"})
        self.assertEqual(len(slices(trace)),
                         len(self.rows("a.log", "--event=REPLAY")))


class WaitsTest(Case):
    """waiting_threads, whose threads wait for each other: it says how long by
    its own clock."""

    def waited(self, mode):
        """How long, in ns."""
        done = subprocess.run(
            [TJIT, "run", f"--log={self.folder / 'a.log'}", "--",
             BIN / "waiting_threads", mode], text=True, capture_output=True,
            env=environment(TJIT_HOT_THRESHOLD="3", TJIT_BACKEND="replay",
                            OMP_NUM_THREADS="1"), timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return int(done.stdout)

    def check(self, mode, waits_for, waiter, runner):
        """The row, and the slice, of the wait. Returns its length."""
        said_ns = self.waited(mode)
        rows = self.rows("a.log")
        waits = [row for row in rows if row["event"] == "WAIT" and
                 row["details"] == f"for={waits_for}"]
        wait = max(waits, key=lambda row: row["took_ns"])
        self.assertEqual((wait["command"], wait["source"]), ("Waited", waiter))
        # The program's clock has the read itself, too.
        self.assertGreater(said_ns, 3e6)
        self.assertLessEqual(wait["took_ns"], 1.001 * said_ns)
        self.assertGreater(wait["took_ns"], 0.6 * said_ns)
        # It ends behind what is waited for, on the other thread.
        end = wait["time_ns"] + wait["took_ns"]
        run = [row for row in rows if row["event"] == "REPLAY" and
               row["source"] == runner and row["time_ns"] < end][-1]
        self.assertGreater(run["time_ns"] + run["took_ns"], wait["time_ns"])
        self.assertLessEqual(run["time_ns"] + run["took_ns"], 1.001 * end)
        self.assertGreater(end - wait["time_ns"], 0.6 * (
            run["time_ns"] + run["took_ns"] - wait["time_ns"]))
        self.check_trace(rows, wait)
        return wait["took_ns"]

    def check_trace(self, rows, wait):
        trace = self.trace("a.log")
        self.assertEqual(crossings(trace), [])
        drawn = slices(trace, "wait")
        self.assertEqual(len(drawn), sum(r["event"] == "WAIT" for r in rows))
        piece, = (e for e in drawn if begin_ns(e) == wait["time_ns"])
        self.assertEqual(piece["name"],
                         f"WAIT for {wait['details'].split('=')[1]}")
        self.assertEqual(tracks(trace)[piece["tid"]], wait["source"])
        self.assertAlmostEqual(1000 * piece["dur"], wait["took_ns"],
                               delta=1 + wait["took_ns"] / 2**22)
        # Who waits does nothing else meanwhile.
        self.assertEqual([e["name"] for e in slices(trace)
                          if e["tid"] == piece["tid"] and e is not piece and
                          begin_ns(piece) <= begin_ns(e) < end_ns(piece)], [])

    def test_for_another_thread(self):
        self.check("other", "thread", waiter="T1", runner="MAIN")

    def test_for_the_own_state(self):
        took_ns = self.check("own", "own_state", waiter="MAIN", runner="T1")
        rows = [row for row in self.rows("a.log") if row["event"] == "WAIT"]
        all_ms = sum(row["took_ns"] for row in rows) / 1e6
        # The other pictures have it, too.
        self.tjit("timeline", "a.log", "a.log", "-o", "out.svg")
        svg = (self.folder / "out.svg").read_text()
        drawn = re.search(rf">{re.escape(WAITING)}</text>\n<text [^>]*>"
                          r"([\d.]+) ms<", svg)
        self.assertAlmostEqual(float(drawn[1]), all_ms, delta=0.0011)
        self.assertRegex(self.tjit("log", "--summary", "a.log"),
                         r"\n +times +ms +waits\n( .*\n)* +\d+ +[\d.]+  "
                         r"for=own_state\n")
        summary = json.loads(self.tjit("log", "--summary", "--json", "a.log"))
        own, = (w for w in summary["waits"]
                if w["details"] == "for=own_state")
        self.assertGreaterEqual(own["wait_ns"], took_ns)
        self.assertEqual(self.rows("a.log", "--event=WAIT"), rows)

    def test_a_wait_that_never_ended(self):
        """As in a program that hangs, and is killed."""
        self.write("a.log", Stream().op(10, 20).add(
            log_writer.WAIT, 50, 0, "Waited", "for=thread",
            flags=log_writer.OPEN),
                   Stream(log_writer.THREAD, 1).op(60, 40))
        wait, = slices(self.trace("a.log"), "wait")
        self.assertEqual((begin_ns(wait), end_ns(wait)), (50, 100))
        self.assertIn("WAIT | MAIN | Waited | for=thread (UNFINISHED)\n",
                      self.tjit("log", "a.log"))


class Page(html.parser.HTMLParser):
    """The tags of a page, and what they would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loaded = collections.Counter(), []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.loaded += [value for name, value in attrs
                        if name in ("src", "href", "xlink:href", "data")]


class TimelineTest(Case):
    LEFT, COLUMNS, BAR = 110, 1200, 44

    def draw(self, *options, before="before.log", after="after.log", **keywords):
        out = self.folder / "out.svg"
        self.tjit("timeline", *options, before, after, "-o", out, **keywords)
        return xml.etree.ElementTree.parse(out).getroot()

    def texts(self, svg, style):
        return [e.text for e in svg.iter(f"{SVG}text")
                if e.get("class") == style]

    def legend(self, svg):
        """(ms before, ms after) by what the legend says."""
        kinds = self.texts(svg, "kind")
        ms = [float(text.removesuffix(" ms"))
              for text in self.texts(svg, "number")]
        return {kind.split(":")[0]: (ms[2 * i], ms[2 * i + 1])
                for i, kind in enumerate(kinds)}

    def wall_ms(self, rows):
        end = max(row["time_ns"] + row["took_ns"] for row in rows)
        return 1e-6 * (end - min(row["time_ns"] for row in rows))

    def bars(self, svg):
        """Of each bar: the rectangles painted on it, in pixels."""
        bars = []
        for rect in svg.iter(f"{SVG}rect"):
            box = [float(rect.get(a, "0").rstrip("%"))
                   for a in ("x", "y", "width", "height")]
            if rect.get("class") == "lane":
                bars.append((box[1], []))
            elif bars and bars[-1][0] - 1 < box[1] < bars[-1][0] + self.BAR:
                bars[-1][1].append(box)
        return [painted for _, painted in bars]

    def test_figures(self):
        self.run_logged("before.log", "timed_loop", "300", on=False)
        did = self.run_logged("after.log", "timed_loop", "300")
        self.assertGreater(did["ops_replayed"], 10000)
        svg = self.draw()
        runs = [self.rows("before.log"), self.rows("after.log")]
        walls = [self.wall_ms(rows) for rows in runs]
        said = re.match(r"Before ([\d.]+) ms, after ([\d.]+) ms: ([\d.]+) "
                        r"times as fast$", self.texts(svg, "title")[0])
        for value, expected in zip(map(float, said.groups()),
                                   (*walls, walls[0] / walls[1])):
            self.assertAlmostEqual(value, expected, delta=0.011)
        for text, rows, wall_ms in zip(self.texts(svg, "sums"), runs, walls):
            ops = [row for row in rows if row["event"] == "OP"]
            exits = sum(row["event"] == "EXIT" for row in rows)
            self.assertEqual(
                text.split(", ")[1:],
                [f"{len(ops)} ops",
                 f"{sum(op['deferred'] for op in ops)} of them deferred",
                 f"{exits} exits"])
            self.close_to(float(text.split(" ms")[0]), wall_ms)
        self.assertIn(f"{did['ops_seen']} ops, {did['ops_deferred']} of them "
                      "deferred", self.texts(svg, "sums")[1])
        self.check_legend(self.legend(svg), runs)

    def check_legend(self, legend, runs):
        names = {"reductions": ("OP", "sum"),
                 "copies": ("OP", "fill_|linspace|_local_scalar_dense"),
                 "elementwise and other ops":
                     ("OP", "add|mul|tanh|sub|clamp"),
                 "segments that tjit runs (REPLAY)": ("REPLAY", "Executed"),
                 "preparing and compiling (COMPILE)": ("COMPILE", "Complete"),
                 WAITING: ("WAIT", "Waited")}
        # The compiler may be through when the program ends.
        self.assertLessEqual(set(names) - {WAITING}, set(legend))
        for kind, times in legend.items():
            event, command = names.get(kind, ("DRAIN", "Drained"))
            for ms, rows in zip(times, runs):
                took = sum(row["took_ns"] for row in rows
                           if row["event"] == event and
                           re.match(rf"(aten::)?({command})\b", row["command"]))
                # A slice has 1 ns at least.
                self.assertAlmostEqual(ms, 1e-6 * took,
                                       delta=0.001 + 0.0001 * ms, msg=kind)

    def test_what_is_painted_is_as_wide_as_it_is_long(self):
        self.run_logged("before.log", "timed_loop", "300", on=False)
        self.run_logged("after.log", "timed_loop", "300")
        svg = self.draw()
        runs = [self.rows("before.log"), self.rows("after.log")]
        walls = [self.wall_ms(rows) for rows in runs]
        ends = [float(e.get("x1")) - self.LEFT for e in svg.iter(f"{SVG}line")
                if e.get("class") == "end"]
        for end, wall_ms in zip(ends, walls):
            self.close_to(end, self.COLUMNS * wall_ms / max(walls))
        # The bar of MAIN in the run before: nothing is within something else.
        area = sum(width * height for _, _, width, height in self.bars(svg)[0])
        took_ms = 1e-6 * sum(row["took_ns"] for row in runs[0])
        self.close_to(area / self.BAR / self.COLUMNS, took_ms / max(walls))
        self.assertGreater(len(self.texts(svg, "tick")), 3)
        self.assertEqual(self.texts(svg, "name")[:2], ["MAIN", "MAIN"])

    def test_kinds(self):
        names = {"products": ["mm", "addmm.out", "_convolution", "bmm"],
                 "reductions": ["sum.dim_IntList", "_softmax", "mse_loss",
                                "native_batch_norm"],
                 "copies": ["copy_", "fill_.Scalar", "cat", "index_select"],
                 "random numbers": ["uniform_", "bernoulli_.float"],
                 "elementwise and other ops": ["mul.Tensor", "tanh", "exp",
                                               "maximum"]}
        before = Stream()
        time_ns = 0
        expected = {}
        for i, (kind, ops) in enumerate(names.items()):
            took_ns = 100_000 * (i + 1)
            expected[kind] = (len(ops) * took_ns / 1e6, 0)
            for op in ops:
                before.op(time_ns, took_ns, f"aten::{op}")
                time_ns += took_ns
        after = Stream()
        after.add(log_writer.DRAIN, 10, 2_000_000, "Drained", "sequence=a ops=0")
        after.add(log_writer.EXIT, 20, 0, "Side exit", "sequence=a")
        after.op(2_000_100, 0)
        expected["pending ops that ran eagerly (DRAIN)"] = (0, 2)
        self.write("before.log", before, program="a <b> & \"c\"")
        self.write("after.log", after)
        svg = self.draw()
        self.assertEqual(self.legend(svg), expected)
        self.assertIn("a <b> & \"c\"", self.texts(svg, "head"))
        self.assertIn("1 exits", self.texts(svg, "sums")[1])
        colours = {e.get("fill") for e in svg.iter(f"{SVG}rect")}
        self.assertGreaterEqual(len(colours - {None, "#fff"}), 6)
        # Wide slices say what they are.
        self.assertIn("sum", self.texts(svg, "label dark"))
        self.assertIn("DRAIN", self.texts(svg, "label"))

    def test_threads_that_have_no_room(self):
        streams = [Stream(log_writer.THREAD, i).op(i, 1000)
                   for i in range(1, 13)]
        self.write("before.log", *streams)
        self.write("after.log", streams[0])
        svg = self.draw()
        self.assertEqual(self.texts(svg, "more"),
                         ["4 more threads are in the sums and not drawn"])
        self.assertEqual(self.legend(svg)["elementwise and other ops"],
                         (0.012, 0.001))

    def test_last(self):
        self.write("before.log", Stream().op(0, 1000).op(5000, 1000)
                   .op(9000, 1000))
        self.write("after.log", Stream().op(0, 100).op(500, 100).op(900, 100))
        svg = self.draw("--last=2")
        self.assertEqual(self.texts(svg, "title"),
                         ["Before 0.005 ms, after 0.001 ms: 10.00 times as "
                          "fast"])
        self.assertTrue(all(" 2 ops," in text
                            for text in self.texts(svg, "sums")))
        svg = self.draw("--last=0.0000045s")
        self.assertEqual([text.split(", ")[1]
                          for text in self.texts(svg, "sums")],
                         ["2 ops", "3 ops"])

    def test_page(self):
        self.write("a.log", Stream().op(0, 1000))
        self.tjit("timeline", "a.log", "a.log", "-o", "out.html")
        text = (self.folder / "out.html").read_text()
        page = Page()
        page.feed(text)
        self.assertEqual((page.tags["html"], page.tags["svg"]), (1, 1))
        self.assertEqual((page.tags["script"], page.loaded), (0, []))
        self.assertEqual(re.findall("https?://[^\"]*", text),
                         ["http://www.w3.org/2000/svg"])
        # One's own may be replaced.
        self.tjit("timeline", "a.log", "a.log", "-o", "out.html")


class LongLogTest(Case):
    def test_a_long_log_takes_little_memory(self):
        rows = log_writer.write_long_log(self.folder / "a.log", chunks=1024)
        self.assertGreater(rows, 4_000_000)
        limit_kb = 40 * 1024  # the file has 64 MiB
        for arguments in (["log", "--chrome=/dev/null", "--last=100", "a.log"],
                          ["log", "--chrome=/dev/null", "--last=0.1s", "a.log"],
                          ["timeline", "a.log", "a.log", "-o", "out.svg"]):
            # A process begins with the memory of the one that made it: a
            # small one.
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, TJIT, *arguments], text=True,
                cwd=self.folder, env=environment(), capture_output=True,
                timeout=120, check=True)
            used_kb = int(done.stdout.split()[-1])
            self.assertGreater(used_kb, 0)
            self.assertLess(used_kb, limit_kb, arguments)


class BadInputTest(Case):
    def setUp(self):
        super().setUp()
        self.write("a.log", Stream().op(0, 1000).op(2000, 1000))

    def check(self, name, said, status=USAGE):
        """Both commands say so, and do not write."""
        for arguments in (["log", "--chrome=out.svg", name],
                          ["timeline", name, "a.log", "-o", "out.svg"],
                          ["timeline", "a.log", name, "-o", "out.svg"]):
            with self.subTest(arguments):
                self.tjit(*arguments, status=status, stderr=said)
                if status == USAGE:
                    self.assertFalse((self.folder / "out.svg").exists())
                (self.folder / "out.svg").unlink(missing_ok=True)

    def test_no_logs(self):
        (self.folder / "text").write_text("aten::mm\n")
        (self.folder / "empty").write_text("")
        self.check("none", "cannot read none: No such file or directory")
        self.check("text", "text cannot be drawn: it is no instruction log")
        self.check("empty", "empty cannot be drawn: it is empty")
        self.check(".", "it is a folder")

    def test_another_version(self):
        self.write("new.log", Stream().op(0, 1), version=3)
        self.check("new.log", "new.log cannot be drawn: it is of version 3, "
                   "this tjit reads versions 1 to 2")

    def test_an_earlier_version(self):
        """It has no rows of waits, and is read."""
        self.write("old.log", Stream().op(0, 1000), version=1)
        self.tjit("log", "--chrome=out.trace", "old.log")
        self.tjit("timeline", "old.log", "a.log", "-o", "out.svg")

    def test_cut_short(self):
        data = (self.folder / "a.log").read_bytes()
        (self.folder / "cut.log").write_bytes(data[:-1000])
        self.check("cut.log", "cut.log: the file is cut short: 1000 of ",
                   status=DAMAGED)
        (self.folder / "page.log").write_bytes(data[:2000])
        self.tjit("log", "--chrome=out.json", "page.log", status=DAMAGED,
                  stderr="cut short within its first page")
        trace = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(slices(trace), [])

    def test_no_ops(self):
        self.write("empty.log", Stream())
        self.tjit("timeline", "a.log", "empty.log", "-o", "out.svg",
                  status=USAGE, stderr="empty.log cannot be drawn: it has no "
                  "rows of ops")

    def test_programs_that_run_and_that_were_killed(self):
        program = subprocess.Popen(
            [TJIT, "run", f"--log={self.folder / 'live.log'}", "--",
             BIN / "logged_program", "slow"], env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), "waits\n")
        self.check("live.log", "the program of live.log still runs: the "
                   "(trace|picture) has what it has done until now", status=0)
        self.tjit("log", "--chrome=out.json", "live.log", stderr="still runs")
        trace = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(len(slices(trace, "op", "deferred")), OPS)
        program.kill()
        program.communicate()
        self.check("live.log", "the program ended without closing the log",
                   status=0)

    def test_paths_that_cannot_be_written(self):
        (self.folder / "folder.svg").mkdir()
        (self.folder / "mine.svg").write_text("<svg>mine</svg>")
        (self.folder / "full.svg").symlink_to("/dev/full")
        for path, said in (
                ("none/a.svg", "cannot write none/a.svg: No such file"),
                ("folder.svg", "cannot write folder.svg: Is a directory"),
                ("full.svg", "cannot write full.svg: No space left on device"),
                ("mine.svg", "will not replace \"mine.svg\": it is no "
                 "(timeline|Chrome trace) of tjit, but 15 bytes that begin "
                 "with \"<svg>mine</svg>\"; name another file")):
            with self.subTest(path):
                self.tjit("log", f"--chrome={path}", "a.log", status=USAGE,
                          stderr=said)
                self.tjit("timeline", "a.log", "a.log", "-o", path,
                          status=USAGE, stderr=said)
        self.assertEqual((self.folder / "mine.svg").read_text(),
                         "<svg>mine</svg>")
        # The log itself is no trace.
        self.tjit("log", "--chrome=a.log", "a.log", status=USAGE,
                  stderr="will not replace \"a.log\"")

    def test_command_lines(self):
        for arguments, said in (
                (["log", "--chrome", "a.log"], "--chrome needs a value: "
                 "--chrome=OUT"),
                (["log", "--chrome=o", "--follow", "a.log"],
                 "--chrome and --follow do not go together"),
                (["log", "--chrome=o", "--json", "a.log"],
                 "--chrome and --json do not go together"),
                (["log", "--last=0", "a.log"], "--last=0 is not used, accepted "
                 "are a number of rows from 1 on, or of seconds: 1000, 2.5s"),
                (["log", "--last=-1s", "a.log"], "--last=-1s is not used"),
                (["log", "--last=1x", "a.log"], "--last=1x is not used"),
                (["log", "--last=infs", "a.log"], "--last=infs is not used"),
                (["timeline", "a.log", "-o", "o.svg"],
                 "two files are wanted: tjit timeline"),
                (["timeline", "a.log", "a.log", "b.log", "-o", "o.svg"],
                 "two files are wanted, not a.log and b.log"),
                (["timeline", "a.log", "a.log"], "no output given: -o PATH"),
                (["timeline", "a.log", "a.log", "-o"],
                 "no output given: -o PATH"),
                (["timeline", "a.log", "a.log", "-o", "o.png"], "-o o.png is "
                 "not used, accepted is a path that ends in .svg or .html"),
                (["timeline", "--last=x", "a.log", "a.log", "-o", "o.svg"],
                 "--last=x is not used"),
                (["timeline", "--all", "a.log", "a.log", "-o", "o.svg"],
                 "unknown option --all; accepted are")):
            with self.subTest(arguments):
                self.assertEqual(self.tjit(*arguments, status=USAGE,
                                           stderr=said), "")
        self.assertIn("-o PATH", self.tjit("timeline", "--help"))


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
