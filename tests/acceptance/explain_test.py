"""`tjit explain` answers "why is this not compiled?", and what it won if it is.

What it proves: from a file of TJIT_STATS, as TJIT_STATS=- and by
tjit::explain() the same report; a compiled sequence with replays and measured
times, one that was not seen often enough, a program without repetition, one
without an op; the counts in it are those of the counters; files that are none
are named, status 2.

Usage: explain_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment

TJIT = BIN = None
USAGE = 2


def run(*command, **variables):
    return subprocess.run([str(c) for c in command],
                          env=environment(**variables), text=True,
                          capture_output=True, timeout=120, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stats = pathlib.Path(folder.name) / "stats.json"

    def explain(self, *options, program="unmodified_loop"):
        """Runs the program, then explains it: counters and text.

        By library calls: how far the worker gets with machine code before so
        short a program ends differs from run to run.
        """
        done = run(TJIT, "run", f"--stats={self.stats}", *options, "--",
                   BIN / program, TJIT_BACKEND="replay")
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        told = run(TJIT, "explain", self.stats)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return json.loads(self.stats.read_text()), told.stdout


class ExplainTest(Case):
    def test_compiled(self):
        did, text = self.explain()
        self.assertIn(f"tjit: {did['ops_seen']} ops were called: "
                      f"{did['ops_replayed']} replayed (", text)
        # The loop has 14 ops a step, of which item() runs at the call.
        found = re.search(r"compiled, 14 ops: .*\n *seen (\d+) times, replayed "
                          r"(\d+) times\n *\S+ .s instead of \S+ .s a run, "
                          r"about \S+ m?u?s (won|lost)\n *1 op runs at the "
                          r"call: aten::_local_scalar_dense\n", text)
        self.assertIsNotNone(found, text)
        self.assertGreater(int(found.group(2)), 280)
        self.assertIn("300  aten::_local_scalar_dense: reads values\n", text)
        self.assertIn(f"{did['flushes']['item']}  item(), equal, nonzero: a "
                      "value was read [item]\n", text)

    def test_times_are_measured(self):
        did, _ = self.explain()
        sequence, = did["sequence_details"]
        self.assertGreater(sequence["replay_ns"], 0)
        self.assertGreater(sequence["eager_ns"], sequence["replay_ns"])
        self.assertEqual(sequence["won_ns"], sequence["replays"] *
                         (sequence["eager_ns"] - sequence["replay_ns"]))

    def test_eager_ops_are_all_counted(self):
        did, _ = self.explain()
        self.assertEqual(sum(op["calls"] for op in did["eager_ops"]),
                         did["ops_eager"])

    def test_a_compiled_segment_says_when_it_has_paid(self):
        did, text = self.explain()
        self.assertEqual(did["compiled_segments"], [])
        self.assertNotIn("segments measured", text)
        did["compiled_segments"] = [
            {"ops": 9, "first_op": "aten::mul", "pays": pays,
             "compile_ns": 30000000, "library_ns": 5600, "compiled_ns": ns,
             "break_even_runs": 0} for pays, ns in ((True, 1700), (False, 5700))]
        self.stats.write_text(json.dumps(did))
        told = run(TJIT, "explain", self.stats)
        self.assertIn(
            "segments measured with compiled code and with library calls:\n"
            "  9 ops from aten::mul: 1.7 us a run instead of 5.6 us, compiled "
            "in 30 ms, which 7693 runs win back\n"
            "  9 ops from aten::mul: 5.7 us a run instead of 5.6 us, compiled "
            "in 30 ms: switched off\n", told.stdout)

    def test_functions_say_where_they_come_from(self):
        did, text = self.explain()
        self.assertNotIn("functions of compiled code", text)
        did["functions"] = [{"name": "tanh", "dtype": "f32", "from": "MKL's"}]
        self.stats.write_text(json.dumps(did))
        told = run(TJIT, "explain", self.stats)
        self.assertIn("functions of compiled code:\n  tanh f32: MKL's\n",
                      told.stdout)

    def test_not_seen_often_enough(self):
        _, text = self.explain("--hot-threshold=1000")
        self.assertRegex(text, r"seen, 14 ops: .*\n *seen (29\d|300) of 1000 "
                               r"times, then its ops are deferred\n")
        self.assertIn(": 0 replayed (0.0 %)", text)

    def test_nothing_repeats(self):
        done = run(BIN / "embed", "1", TJIT_AUTO_COMPILE="1", TJIT_STATS="-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no sequence: no stretch of ops repeated for long "
                      "enough (", done.stderr)

    def test_report_at_exit(self):
        _, text = self.explain()
        done = run(TJIT, "run", "--stats=-", "--", BIN / "unmodified_loop",
                   TJIT_BACKEND="replay")
        self.assertEqual(done.returncode, 7)

        def without_times(report):
            return re.sub(r"\S+ .s instead .*", "", report)

        self.assertEqual(without_times(done.stderr), without_times(text))
        self.assertFalse(pathlib.Path("-").exists())

    def test_no_op(self):
        done = run(BIN / "late_loader", "torch", "libc.so.6",
                   LD_PRELOAD=str(BIN.parent / "lib" / "libtjit.so"),
                   TJIT_AUTO_COMPILE="1", TJIT_STATS="-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tjit saw no op: is it switched on", done.stderr)


class BadFileTest(Case):
    def check(self, text, *arguments):
        done = run(TJIT, "explain", *arguments)
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertIn("tjit explain: " + text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_command_line(self):
        self.check("no file given")
        self.check("one file is wanted", "a", "b")
        self.check("unknown option --all; accepted is --help", "--all")
        self.check("cannot read /no/such: No such file", "/no/such")
        self.check(f"cannot read {BIN}: Is a directory", BIN)
        done = run(TJIT, "explain", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: tjit explain FILE", done.stdout)

    def test_contents(self):
        self.explain()
        good = self.stats.read_text()
        for text, said in (
                ("", f"{self.stats} is empty"),
                (good[:len(good) // 2], f"{self.stats}:"),
                ("words", f"{self.stats}: it is no file of TJIT_STATS"),
                ('{"ops_seen": 3}\n', f"{self.stats}: it is no file of "),
                (good.replace('"replays": ', '"replays": x'),
                 f"{self.stats}:"),
                (good.replace('"replays": ', '"replay": '),
                 f"{self.stats}: "),
                ("\x7fELF\x01\x02", f"{self.stats}:")):
            with self.subTest(text[:20]):
                self.stats.write_text(text)
                self.check(said, self.stats)


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
