"""`tjit report` shows what a run did as one HTML page, and shows it right.

What it proves: the figures of the page of examples/digits are those of the
file of TJIT_STATS, and those that the page computes are what the file gives by
another computation; lists, reasons, regions and functions of tjit::jit() have
their rows; a program's name is only shown, never run; the page asks for nothing
from elsewhere; in Chromium it has no error, fits windows of 1280 and 400
pixels, and its tables can be sorted; the timeline's sums are those of the log, and there is a graph for
each function of the dump; files that are none, and pages that cannot
be written, are named with status 2; a run without an op gives a page that says
so.

Usage: report_test.py TJIT_COMMAND BIN_FOLDER DATA_FILE [unittest arguments]
With TJIT_REPORT_PICTURES=FOLDER the screenshots are kept there.
"""
import base64
import hashlib
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from clean_environment import environment, heed_modes

TJIT = BIN = DATA = None
USAGE = 2
EPOCHS, STEPS = 5, 24
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VOID = {"meta", "link", "br", "img"}


def run(*command, **variables):
    return subprocess.run([str(c) for c in command],
                          env=environment(**variables), text=True,
                          capture_output=True, timeout=120, check=False)


class Page(html.parser.HTMLParser):
    """The tables of a page by id, each a list of rows: {key: (text, value)}."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tiles, self.captions = {}, {}, {}
        self.ids, self.tags, self.open, self.texts = [], [], [], []
        self.rows = self.cell = self.caption = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "table":
            self.rows = self.tables.setdefault(attrs["id"], [])
            self.table = attrs["id"]
        elif tag == "tr" and "thead" not in self.open:
            self.rows.append({})
        elif tag in ("td", "dd") and "data-key" in attrs:
            into = self.rows[-1] if tag == "td" else self.tiles
            value = attrs.get("data-value")
            self.cell = into[attrs["data-key"]] = [
                "", None if value is None else int(value)]
        elif tag == "caption":
            self.captions[self.table] = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)
        if tag in ("td", "dd"):
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[0] += data
        if "caption" in self.open:
            self.captions[self.table] += data
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)

    def text(self):
        return "".join(self.texts)

    def values(self, table, key):
        return [row[key][1] for row in self.tables[table]]

    def words(self, table, key):
        return [row[key][0] for row in self.tables[table]]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.stats = self.folder / "stats.json"
        self.page = self.folder / "page.html"

    def report(self, *options):
        done = run(TJIT, "report", self.stats, *options, "-o", self.page)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "", ""))
        text = self.page.read_text()
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)), page.ids)
        self.assertEqual([t for t in page.tables
                          if not page.captions.get(t, "").strip()], [])
        return page

    def digits(self):
        done = run(TJIT, "run", f"--stats={self.stats}", "--", BIN / "digits",
                   DATA, EPOCHS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        did = json.loads(self.stats.read_text())
        # Else the page is one of a program that was not replayed.
        self.assertGreater(did["ops_replayed"], 0.7 * did["ops_seen"], did)
        return did

    def logged_digits(self):
        """The same with a log and a dump."""
        self.log, self.dump = self.folder / "log", self.folder / "dump"
        done = run(TJIT, "run", f"--stats={self.stats}", f"--log={self.log}",
                   "--", BIN / "digits", DATA, EPOCHS, TJIT_DUMP="ir",
                   TJIT_DUMP_FILE=str(self.dump))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        did = json.loads(self.stats.read_text())
        self.assertGreater(did["ops_replayed"], 0.7 * did["ops_seen"], did)
        return did

    def changed(self, **keys):
        """Writes a file of a run by hand, where runs have nothing to show."""
        if not self.stats.exists():
            self.digits()
        did = json.loads(self.stats.read_text())
        did.update(keys)
        self.stats.write_text(json.dumps(did))
        return did


class DigitsTest(Case):
    def setUp(self):
        super().setUp()
        self.did = self.digits()
        self.shown = self.report()

    def test_counters(self):
        rows = self.shown.tables["counter-table"]
        shown = {row["name"][0]: row["count"][1] for row in rows}
        counted = {name: value for name, value in self.did.items()
                   if isinstance(value, int) and name not in
                   ("schema", "wall_ns", "median_segment_length")}
        self.assertEqual(shown, counted)
        for row in rows:
            self.assertEqual(int(row["count"][0].replace(",", "")),
                             row["count"][1])
            self.assertGreater(len(row["doc"][0]), 10, row)

    def test_what_was_won(self):
        did, tiles = self.did, self.shown.tiles
        known = [s for s in did["sequence_details"] if s["replays"] and
                 s["eager_ns"] and s["replay_ns"]]
        self.assertNotEqual(known, [])
        before = sum(s["eager_ns"] * s["replays"] for s in known)
        after = sum(s["replay_ns"] * s["replays"] for s in known)
        self.assertEqual(tiles["won_ns"][1], before - after)
        self.assertEqual(tiles["factor"][0], f"{before / after:.2f}x")
        self.assertEqual(tiles["ops_seen"][1], did["ops_seen"])
        self.assertEqual(tiles["ops_replayed"][1], did["ops_replayed"])
        self.assertEqual(tiles["ops_replayed"][0],
                         f"{100 * did['ops_replayed'] / did['ops_seen']:.1f} %")
        self.assertEqual(tiles["wall_ns"][1], did["wall_ns"])
        self.assertEqual(tiles["memory_peak_bytes"][1],
                         did["memory_peak_bytes"])
        self.assertIn("How this is measured", self.shown.text())

    def test_where_time_goes(self):
        did = self.did
        time = {k: v[1] for row in self.shown.tables["time"]
                for k, v in row.items()}
        executed = sum(s["executed_ns"] * s["replays"]
                       for s in did["sequence_details"])
        runs = sum(s["replay_ns"] * s["replays"]
                   for s in did["sequence_details"])
        self.assertEqual(time["executed_ns"], executed)
        self.assertEqual(time["between_ns"], runs - executed)
        self.assertEqual(time["start_ns"], did["start_ns"])
        parts = sum(value for key, value in time.items() if key != "part")
        self.assertEqual(parts, max(did["wall_ns"], runs + did["start_ns"]))
        ops = {k: v[1] for row in self.shown.tables["ops"]
               for k, v in row.items()}
        self.assertEqual(sum(value for key, value in ops.items()
                             if key != "part"), did["ops_seen"])
        self.assertEqual(ops["ops_eager"], did["ops_eager"])
        self.assertEqual(ops["steps_fused"], did["steps_fused"])

    def test_bars_are_as_wide_as_their_parts(self):
        widths = [float(re.search(r"width:([\d.]+)%", attrs["style"]).group(1))
                  for _, attrs in self.shown.tags if "style" in attrs]
        values = [row[key][1] for name in ("time", "ops")
                  for row in self.shown.tables[name] for key in row
                  if key != "part"]
        wholes = [sum(values[:4])] * 4 + [sum(values[4:])] * 5
        expected = [100 * v / w for v, w in zip(values, wholes) if v > 0]
        self.assertEqual(len(widths), len(expected))
        for width, percent in zip(widths, expected):
            self.assertAlmostEqual(width, percent, delta=0.001)

    def test_sequences(self):
        rows = {row["id"][1]: row for row in
                self.shown.tables["sequence-table"]}
        self.assertEqual(len(rows), len(self.did["sequence_details"]))
        for s in self.did["sequence_details"]:
            row = rows[s["id"]]
            for key in ("ops", "sightings", "replays", "eager_ns", "replay_ns",
                        "won_ns"):
                self.assertEqual(row[key][1], s[key], key)
            self.assertEqual(row["state"][0], s["state"])
            self.assertEqual(row["first_ops"][0], s["first_ops"])
            name = f"sequence-{s['id']}"
            self.assertIn(name, self.shown.ids)
            if s["at_call"]:
                self.assertEqual(
                    dict(zip(self.shown.words(f"{name}-call", "name"),
                             self.shown.values(f"{name}-call", "times"))),
                    s["at_call"])

    def test_segments_and_reasons(self):
        did = self.did
        self.assertEqual(self.shown.values("segments", "segments"),
                         [n for n in did["segment_length"] if n])
        self.assertEqual(sum(self.shown.values("segments", "ops")),
                         did["ops_replayed"])
        for key in ("library_ns", "compiled_ns", "compile_ns",
                    "break_even_runs"):
            if did["compiled_segments"]:
                self.assertEqual(self.shown.values("code", key),
                                 [c[key] for c in did["compiled_segments"]])
        self.assertEqual(dict(zip(self.shown.words("flushes", "name"),
                                  self.shown.values("flushes", "times"))),
                         did["flushes"])
        self.assertEqual(self.shown.values("eager-table", "calls"),
                         [op["calls"] for op in did["eager_ops"]])
        # The epoch with tjit switched off has taken no pointers away.
        self.assertEqual(did["exposures"], [])
        self.assertNotIn("exposures", self.shown.tables)

    def test_pointers_that_were_taken(self):
        taken = [{"place": "train.cpp", "times": 24, "bytes": 36864,
                  "tensor": ""},
                 {"place": "init()", "times": 2, "bytes": 64, "tensor": "w"}]
        self.changed(exposures=taken, blocks_exposed=26)
        shown = self.report()
        self.assertEqual(shown.values("exposures", "bytes"), [36864, 64])
        self.assertEqual(shown.values("exposures", "times"), [24, 2])

    def test_explain_says_the_same(self):
        told = run(TJIT, "explain", self.stats).stdout
        advice = re.search(r"why not more:\n((?:  - .*\n)+)", told)
        self.assertEqual(self.shown.words("obstacles", "what"),
                         re.findall(r"  - (.*)\n", advice.group(1)))
        self.assertIn(self.shown.tiles["factor"][0], told)

    def test_needs_nothing_from_elsewhere(self):
        text = self.page.read_text()
        self.assertNotRegex(text, r"https?://|@import|url\(")
        for tag, attrs in self.shown.tags:
            self.assertNotIn("src", attrs, tag)
            if "href" in attrs:
                self.assertRegex(attrs["href"], r"^(#[\w-]+|data:,)$")
                if attrs["href"].startswith("#"):
                    self.assertIn(attrs["href"][1:], self.shown.ids)
        script, = re.findall(r"<script>(.*?)</script>", text, re.S)
        digest = hashlib.sha256(script.encode()).digest()
        self.assertIn(f"script-src 'sha256-{base64.b64encode(digest).decode()}'",
                      text)


class PicturesTest(Case):
    def rows_of_log(self):
        done = run(TJIT, "log", "--json", self.log)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row for row in rows if "event" in row]

    def test_timeline(self):
        did = self.logged_digits()
        shown = self.report(f"--log={self.log}")
        times = {row["kind"][0]: row["time_ns"][1]
                 for row in shown.tables["timeline-table"]}
        rows = self.rows_of_log()
        for event in ("REPLAY", "COMPILE"):
            took = sum(row["took_ns"] for row in rows
                       if row["event"] == event and row["took_ns"])
            self.assertGreater(took, 0)
            kind, = (k for k in times if event.lower() in k.lower())
            # A slice has 1 ns at least.
            self.assertAlmostEqual(times[kind], took, delta=len(rows))
        took = sum(row["took_ns"] for row in rows
                   if row["event"] == "OP" and not row["deferred"])
        took += sum(row["took_ns"] for row in rows
                    if row["event"] in ("REPLAY", "COMPILE", "DRAIN", "WAIT"))
        self.assertAlmostEqual(sum(times.values()), took, delta=len(rows))
        text = shown.text()
        ops = sum(row["event"] == "OP" for row in rows)
        self.assertGreaterEqual(ops, did["ops_seen"])
        self.assertIn(f"{ops} ops, ", text)
        self.assertFalse("of another " in text)
        self.assertEqual([attrs["class"] for tag, attrs in shown.tags
                          if tag == "svg"], ["tjit-timeline"])
        self.assertIn("timeline", shown.ids)
        self.assertNotIn("graphs", shown.ids)

    def test_log_of_another_run(self):
        self.logged_digits()
        ops = sum(row["event"] == "OP" for row in self.rows_of_log())
        self.changed(ops_seen=ops + 1)
        text = self.report(f"--log={self.log}").text()
        self.assertTrue(f"The log has {ops} ops, the counters {ops + 1}: the "
                        "log is of another run" in text)
        self.changed(program="./train")
        text = self.report(f"--log={self.log}").text()
        self.assertTrue("The log is of another program: " in text)

    def test_graphs(self):
        self.logged_digits()
        shown = self.report(f"--dump={self.dump}")
        done = run(TJIT, "graph", "--list", self.dump)
        listed = re.findall(r"\d+: (.*) final, (\d+) ops", done.stdout)
        self.assertGreater(len(listed), 2)
        drawn = [attrs for tag, attrs in shown.tags
                 if tag == "img" and attrs.get("class") == "graph"]
        self.assertEqual([attrs["alt"] for attrs in drawn],
                         [f"graph of {name} final" for name, _ in listed])
        for attrs, (_, ops) in zip(drawn, listed):
            head, data = attrs["src"].split(",")
            self.assertEqual(head, "data:image/svg+xml;base64")
            svg = xml.etree.ElementTree.fromstring(base64.b64decode(data))
            boxes = svg.findall("{http://www.w3.org/2000/svg}g")
            self.assertGreaterEqual(len(boxes), int(ops))
        text = shown.text()
        for name, ops in listed:
            self.assertIn(f"{name} final, {ops} ops", text)

    def test_many_graphs(self):
        self.digits()
        self.dump = self.folder / "dump"
        lines = ["func f() {", "  external %0: f32[4]"]
        for i in range(151):
            lines.append(f"  %{i + 1} = neg f32[4] %{i}")
        function = "\n".join([*lines, "  return %151", "}", ""])
        self.dump.write_text("".join(
            f"; ==== segment {i} group 1 final\n{function}"
            for i in range(1, 63)))
        text = self.report(f"--dump={self.dump}").text()
        self.assertIn("behind all passes: 62.", text)
        self.assertIn("2 more are not shown", text)
        self.assertIn("More than 150 ops are not drawn", text)


class OtherRunsTest(Case):
    def test_lists_that_digits_has_not(self):
        self.changed(
            side_exits={"op_differs": 7},
            backwards_left={"hooks": 2}, not_compiled={"too <small>": 3},
            exits=[{"sequence": 1, "after_ops": 4, "reason": "op_differs",
                    "op": "aten::mul", "expected": "aten::mul",
                    "actual": "aten::add", "place": "Train(A<int>&)+0x21"}],
            regions=[{"name": "a & b", "excluded": False, "entries": 5,
                      "ops_seen": 50, "ops_eager": 10, "ops_replayed": 40,
                      "ops_drained": 0, "bodies": 1, "sequences": 1,
                      "ops_at_call": 0, "at_call": {}}],
            jit_functions=[{"name": "step", "calls": 9, "replays": 7, "ways": 1,
                            "why": "", "parts": ""}])
        page = self.report()
        left, = page.tables["left"]
        self.assertEqual((left["times"][1], left["reason"][0], left["name"][0]),
                         (7, "another op was called", "op_differs"))
        self.assertIn("tjit::mark_step()", left["remedy"][0])
        first, = page.tables["sequence-1-exits"]
        self.assertEqual((first["after_ops"][1], first["actual"][0],
                          first["place"][0]),
                         (4, "aten::add", "Train(A<int>&)+0x21"))
        region, = page.tables["region-table"]
        self.assertEqual((region["name"][0], region["ops_replayed"][1]),
                         ("a & b", 40))
        self.assertEqual(page.values("jit-table", "replays"), [7])
        self.assertEqual(page.words("not-compiled", "name"), ["too <small>"])
        self.assertEqual(page.values("backwards", "times"), [2])

    def ran(self, *program):
        done = run(TJIT, "run", f"--stats={self.stats}", "--", BIN / program[0],
                   *program[1:])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(self.stats.read_text()), self.report()

    def test_a_program_with_tjit_jit(self):
        did, page = self.ran("whole_step")
        self.assertGreater(did["jit_replays"], 1000, did)
        function, = did["jit_functions"]
        row, = page.tables["jit-table"]
        self.assertEqual(row["name"][0], function["name"])
        for key in ("calls", "replays", "ways"):
            self.assertEqual(row[key][1], function[key])

    def test_a_program_with_branches(self):
        did, page = self.ran("timed_loop", "3000", "branches")
        self.assertGreater(did["side_exits"]["op_differs"], 0, did)
        self.assertEqual(dict(zip(page.words("left", "name"),
                                  page.values("left", "times"))),
                         did["side_exits"])
        shown = {(row["after_ops"][1], row["expected"][0], row["actual"][0])
                 for name, rows in page.tables.items()
                 if name.endswith("-exits") for row in rows}
        self.assertEqual(shown, {
            (e["after_ops"], e["expected"], e["actual"]) for e in did["exits"]})

    def test_a_program_with_regions(self):
        did, page = self.ran("cahn_hilliard")
        self.assertNotEqual(did["regions"], [])
        self.assertEqual(page.words("region-table", "name"),
                         [r["name"] for r in did["regions"]])
        for key in ("entries", "ops_seen", "ops_replayed", "ops_eager"):
            self.assertEqual(page.values("region-table", key),
                             [r[key] for r in did["regions"]])

    def test_times_that_were_not_measured(self):
        did = self.digits()
        for sequence in did["sequence_details"]:
            sequence.update(eager_ns=0, replay_ns=0, executed_ns=0, won_ns=0)
        self.changed(sequence_details=did["sequence_details"])
        page = self.report()
        self.assertEqual(page.tiles["won_ns"], ["not measured", None])
        self.assertEqual(page.tiles["factor"], ["not measured", None])
        self.assertEqual(set(page.words("sequence-table", "won_ns")),
                         {"not measured"})

    def test_time_that_was_lost(self):
        did = self.digits()
        for sequence in did["sequence_details"]:
            sequence.update(eager_ns=1000, replay_ns=4000, executed_ns=10)
        self.changed(sequence_details=did["sequence_details"])
        page = self.report()
        lost = 3000 * sum(s["replays"] for s in did["sequence_details"])
        self.assertEqual(page.tiles["won_ns"][1], -lost)
        self.assertRegex(page.tiles["won_ns"][0], r"^-\S+ [mu]s \(lost\)$")
        self.assertEqual(page.tiles["factor"][0], "0.25x")

    def test_parts_that_exceed_the_whole(self):
        self.changed(wall_ns=1000)
        self.assertIn("add up to more than the process took",
                      self.report().text())

    def test_no_op(self):
        done = run(TJIT, "run", f"--stats={self.stats}", "--", "/bin/true")
        self.assertEqual(done.returncode, 0, done.stderr)
        why = json.loads(self.stats.read_text())["why"]
        page = self.report()
        self.assertIn(f"tjit saw no op: {why}", page.text())
        self.assertIn("empty", page.ids)
        self.assertNotIn("sequences", page.ids)
        self.assertEqual(page.tiles["ops_seen"][1], 0)

    def test_nothing_repeats(self):
        done = run(TJIT, "run", f"--stats={self.stats}", "--hot-threshold=9999",
                   "--", BIN / "unmodified_loop")
        self.assertEqual(done.returncode, 7, done.stderr)
        page = self.report()
        self.assertEqual(page.tiles["won_ns"][0], "nothing replayed")
        self.assertEqual(set(page.words("sequence-table", "state")), {"seen"})

    def test_another_version_of_one_schema(self):
        self.changed(tjit="0.0.9", ops_of_old=12)
        page = self.report()
        self.assertIn("The run was made by tjit 0.0.9", page.text())
        row, = (row for row in page.tables["counter-table"]
                if row["name"][0] == "ops_of_old")
        self.assertEqual((row["count"][1], row["doc"][0]),
                         (12, "not known to this version of tjit"))

    def test_text_is_only_shown(self):
        evil = "</code></title><script>console.error('ran')</script>\"'&\x01"
        did = self.digits()
        for sequence in did["sequence_details"]:
            sequence["first_ops"] = evil
        self.changed(program=evil, sequence_details=did["sequence_details"])
        page = self.report()
        self.assertEqual(sum(tag == "script" for tag, _ in page.tags), 1)
        safe = evil.replace("\x01", "\ufffd")
        self.assertEqual(set(page.words("sequence-table", "first_ops")), {safe})
        self.assertIn(safe, page.text())
        if CHROMIUM:
            self.assertEqual(browse(self.page, 1280)[1], [])


class BadInputTest(Case):
    def check(self, text, *arguments, **more):
        done = subprocess.run(
            [str(a) for a in (TJIT, "report", *arguments)], env=environment(),
            text=True, capture_output=True, timeout=60, check=False, **more)
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertIn("tjit report: " + text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(self.page.exists())

    def test_command_line(self):
        self.check("no file given", "-o", self.page)
        self.check("no output given: -o PATH", self.stats)
        self.check("no output given: -o PATH", self.stats, "-o")
        self.check("no output given: -o PATH", self.stats, "-o", "")
        self.check("one file is wanted, not a and b", "a", "b", "-o", self.page)
        self.check("unknown option --all; accepted are --help, -o PATH, "
                   "--log=LOG and --dump=DUMP", "--all")
        done = run(TJIT, "report", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: tjit report FILE -o PATH\n", done.stdout)
        self.assertRegex(done.stdout, r"  -o PATH +where to write the page\n")

    def test_pictures(self):
        self.logged_digits()
        none = self.folder / "none"
        for option, what in (("--log", "log"), ("--dump", "dump")):
            done = run(TJIT, "report", self.stats, f"{option}={none}", "-o",
                       self.page)
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(str(none), done.stderr)
            self.assertIn("No such file", done.stderr)
            done = run(TJIT, "report", self.stats, f"{option}={self.stats}",
                       "-o", self.page)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn(str(self.stats), done.stderr)
            self.assertFalse(self.page.exists())
            path = getattr(self, what)
            before = path.read_bytes()
            self.check(f"{path} is the file to read: name another one",
                       self.stats, f"{option}={path}", "-o", path)
            self.assertEqual(path.read_bytes(), before)
        # A log that was cut short is drawn as far as it goes.
        self.log.write_bytes(self.log.read_bytes()[:60000])
        self.assertTrue("cut short" in
                        self.report(f"--log={self.log}").text())

    def test_contents(self):
        self.check("cannot read /no/such: No such file", "/no/such", "-o",
                   self.page)
        self.check(f"cannot read {BIN}: Is a directory", BIN, "-o", self.page)
        self.digits()
        good = self.stats.read_text()
        for text, said in (
                # A program that writes it has the file open, and empty.
                ("", " is empty: the program that writes it has not ended, or "
                     "was killed"),
                (good[:len(good) // 2], ":"),
                ("words", ": it is no file of TJIT_STATS"),
                ("[1, 2]", ": it is no file of TJIT_STATS"),
                ("\x7fELF\x01", ": it is no file of TJIT_STATS"),
                (good.replace('"schema": 1', '"schema": 2'),
                 ": it has schema 2, and this tjit reads schema 1: use the "
                 "command of the tjit that wrote it, version 0."),
                (good.replace('"replays": ', '"replay": '),
                 ": this is no file of TJIT_STATS: (/sequence_details/0) key "
                 "'replays' not found")):
            with self.subTest(text[:20]):
                self.stats.write_text(text)
                self.check(f"{self.stats}{said}", self.stats, "-o", self.page)
        self.stats.write_text(good[:len(good) // 2])
        done = run(TJIT, "report", self.stats, "-o", self.page)
        self.assertIn("this is no file of TJIT_STATS: ", done.stderr)

    def test_output(self):
        self.digits()
        self.check(f"cannot write {self.folder}: Is a directory", self.stats,
                   "-o", self.folder)
        good = self.stats.read_text()
        self.check(f"{self.stats} is the file to read: name another one",
                   self.stats, "-o", self.stats)
        self.assertEqual(self.stats.read_text(), good)
        other = self.folder / "train.py"
        other.write_text("import torch\n")
        self.check(f'will not replace "{other}": it is no report of tjit',
                   self.stats, "-o", other)
        self.assertEqual(other.read_text(), "import torch\n")
        for _ in range(2):  # the second time over the first page
            self.assertEqual(run(TJIT, "report", self.stats, "-o",
                                 self.page).returncode, 0)
        self.page.unlink()
        missing = self.folder / "no" / "page.html"
        self.check(f"cannot write {missing}: No such file", self.stats, "-o",
                   missing)
        self.check("cannot write /dev/full: No space left", self.stats, "-o",
                   "/dev/full")
        locked = self.folder / "locked"
        locked.mkdir(mode=0o500)
        self.check(f"cannot write {locked}/p: Permission denied", self.stats,
                   "-o", locked / "p", preexec_fn=heed_modes)


def browse(page, width, do="--dump-dom"):
    """Opens a page in Chromium: what it printed, and lines of the console.

    Chromium ends by itself when it has done `do`.
    """
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
             "--hide-scrollbars", "--no-first-run", "--enable-logging=stderr",
             f"--user-data-dir={profile}", f"--window-size={width},2400",
             do, f"file://{page}"],
            text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines()
                         if "CONSOLE" in line]


# Says how wide the page became, and sorts the counters by value, twice.
PROBE = """<script>
document.body.dataset.width = document.documentElement.scrollWidth;
const head = document.querySelector('#counter-table th[data-key=count] button');
for (const word of ['first', 'second']) {
  head.click();
  document.body.dataset[word] = [...document.querySelectorAll(
      '#counter-table td[data-key=count]')].map(c => c.dataset.value).join(' ');
}
</script></body>"""
# No window is narrower than 500 pixels, but a frame is.
FRAME = """<body><iframe style="border: 0" width="{width}" height="800"
srcdoc="{page}"></iframe><script>
window.onload = () => Object.assign(
    document.body.dataset, frames[0].document.body.dataset);
</script></body>"""


@unittest.skipUnless(CHROMIUM, "Chromium is not installed: apt-get install "
                               "chromium lets this test look at the page")
class BrowserTest(Case):
    def test_pictures(self):
        self.logged_digits()
        self.report(f"--log={self.log}", f"--dump={self.dump}")
        kept = os.environ.get("TJIT_REPORT_PICTURES", self.folder)
        for width in (1280, 400):
            picture = pathlib.Path(kept) / f"report-{width}.png"
            _, errors = browse(self.page, width,
                               f"--screenshot={picture}")
            self.assertEqual(errors, [])
            png = picture.read_bytes()
            self.assertEqual(struct.unpack(">II", png[16:24]), (width, 2400))
            self.assertGreater(len(png), 20000)

    def test_a_console_with_an_error_is_seen(self):
        self.page.write_text("<script>console.error('seen')</script>")
        self.assertEqual(len(browse(self.page, 400)[1]), 1)

    def test_fits_and_sorts(self):
        did = self.logged_digits()
        self.report(f"--log={self.log}", f"--dump={self.dump}")
        text, count = re.subn(r'<meta http-equiv="Content-Security-Policy".*?>',
                              "", self.page.read_text())
        self.assertEqual(count, 1)
        inner = html.escape(text.replace("</body>", PROBE))
        for width in (1280, 400):
            self.page.write_text(FRAME.format(width=width, page=inner))
            dom, errors = browse(self.page, 1400)
            self.assertEqual(errors, [])
            body, = (attrs for tag, attrs in Page(dom).tags if tag == "body")
            self.assertEqual(int(body["data-width"]), width)
            down, up = ([int(n) for n in body[f"data-{word}"].split()]
                        for word in ("first", "second"))
            self.assertEqual(down, sorted(down, reverse=True))
            self.assertEqual(up, sorted(down))
            self.assertIn(did["ops_seen"], down)


if __name__ == "__main__":
    TJIT, BIN, DATA = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
