"""Names of tensors (tjit::name) in all that tjit prints.

What it proves: dumps, graphs as text, DOT and SVG, the file of counters,
`tjit explain`, `tjit report`, the instruction log and graphs of TorchScript
have the names of tensors; names that would end a line, a string or an element
are escaped, so that each reader still reads what was written; what is computed
and counted does not depend on them.

Usage: names_test.py TJIT_COMMAND BIN_FOLDER [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

from clean_environment import environment

TJIT = BIN = None
ON = {"TJIT_AUTO_COMPILE": "1", "TJIT_HOT_THRESHOLD": "2",
      "TJIT_BACKEND": "interpreter"}
WORDS = 'two \\"words\\"\\n; name %0 = x'  # as it is printed


def run(*command, **variables):
    done = subprocess.run([str(c) for c in command],
                          env=environment(**variables), text=True,
                          capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), (command, done)
    return done.stdout


class NamesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, *arguments, **variables):
        return run(BIN / "named_loop", *arguments, **{**ON, **variables})

    def dump(self, parts, **variables):
        path = self.folder / "dump.txt"
        self.program(TJIT_DUMP=parts, TJIT_DUMP_FILE=str(path), **variables)
        return path

    def counters(self, *arguments, **variables):
        path = self.folder / "counters.json"
        printed = self.program(*arguments, TJIT_STATS=str(path), **variables)
        return path, json.loads(path.read_text()), printed

    def test_nothing_depends_on_names(self):
        _, named, printed = self.counters()
        _, unnamed, same = self.counters("unnamed")
        self.assertEqual(printed, same)
        self.assertEqual(printed, run(BIN / "named_loop"))
        self.assertGreater(named["replays_tier2"], 0)
        for name in ("ops_seen", "ops_replayed", "ops_eager", "traces",
                     "segments", "replays_tier2", "side_exits"):
            self.assertEqual(named[name], unnamed[name], name)
        self.assertEqual([s["name"] for s in named["sequence_details"]],
                         [s["name"] for s in unnamed["sequence_details"]])

    def test_a_dump(self):
        text = self.dump("trace,ir").read_text()
        self.assertIn("; names are those of the tensors with which it was "
                      "recorded\n", text)
        self.assertRegex(text, r"  s0: external 256 bytes called eq::state/a\n")
        self.assertIn("aten::mul.Tensor(s0:eq::state/a f32[64]", text)
        self.assertIn(", s1:layer1.weight f32[64]) @1 -> ", text)
        self.assertIn(f' bytes called "{WORDS}"\n', text)
        self.assertIn("; name %0 = eq::state/a (s0)\n", text)
        self.assertIn("; name %1 = layer1.weight (s1)\n", text)
        self.assertRegex(text, r'; name return \d = "<b>&amp;</b>" \(s\d\)\n')

    def test_graphs_are_read_back(self):
        path = self.dump("ir")
        text = run(TJIT, "graph", path)
        self.assertIn("  ; eq::state/a (s0); to %", text)
        self.assertIn("  ; layer1.weight (s1); to %", text)
        again = self.folder / "again.txt"
        again.write_text(text)
        self.assertEqual(run(TJIT, "graph", again), text)
        self.assertIn('\\nlayer1.weight (s1)"', run(TJIT, "graph", "--pick=1",
                                                    "--dot", path))
        svg = run(TJIT, "graph", "--pick=1", "--svg", path)
        texts = [t.firstChild.data for t in
                 xml.dom.minidom.parseString(svg).getElementsByTagName("text")
                 if t.firstChild is not None]
        self.assertTrue(any("eq::state/a (s0)" in t for t in texts), texts)
        self.assertTrue(any('"<b>&amp;</b>" (s' in t for t in texts), texts)

    def test_graphs_of_torchscript(self):
        text = self.dump("torchscript",
                         TJIT_BACKEND="torchscript").read_text()
        self.assertIn("%s0_eq__state_a : Float(64", text)
        self.assertIn("%s1_layer1_weight : Float(64", text)

    def test_explain_and_report(self):
        path, did, _ = self.counters()
        left, = did["exits"]
        self.assertEqual(left["expected"], "f32[64] recorded as eq::state/a")
        self.assertEqual(left["actual"], 'tensor 2 f32[1] called "rest<i>"')
        told = run(TJIT, "explain", path)
        page = self.folder / "report.html"
        run(TJIT, "report", path, "-o", page)
        html = page.read_text()
        self.assertIn('called "rest<i>"', told)
        self.assertIn("rest&lt;i&gt;", html)
        self.assertNotIn("rest<i>", html)
        taken = [e["tensor"] for e in did["exposures"]]
        self.assertIn("layer1.weight", taken)
        self.assertRegex(told, r"bytes, of layer1\.weight\n")
        self.assertIn("layer1.weight", html)

    def test_the_log(self):
        path = self.folder / "run.log"
        self.program(TJIT_INSTRUCTION_LOG=str(path))
        rows = [json.loads(line) for line in
                run(TJIT, "log", "--json", path).splitlines() if line]
        hot = [row for row in rows if row.get("command") == "Promoted"]
        self.assertEqual(len(hot), 1, hot)
        self.assertIn("names=eq::state/a,layer1.weight,", hot[0]["details"])
        self.assertNotIn("\n", hot[0]["details"])
        self.assertIn("mul -> relu -> mul -> add", hot[0]["details"])
        why = run(TJIT, "explain", "--why=1", path)
        self.assertIn("mul -> relu -> mul -> add", why)


if __name__ == "__main__":
    TJIT, BIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
