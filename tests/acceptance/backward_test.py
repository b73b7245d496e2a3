#!/usr/bin/env python3
"""Backward passes of Python programs are what they are with libtorch's engine.

What it proves: a list of cases (hooks, custom functions, checkpoints, double
backward, views, errors) prints the same with tjit and without, of which some run
on tjit's own engine and some are left to libtorch's, for the reasons that they
should; a model in DistributedDataParallel, whose hooks ask the engine for a
callback at the end of the pass, has the same gradients; over random graphs both engines call the same ops in the same order, by
the instruction log, and give the same gradients.

Usage: backward_test.py TJIT_COMMAND TORCH_FOLDER [unittest arguments]
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

from clean_environment import environment
from torch_python import TorchPythonCase, torch_python

TJIT = None
HERE = pathlib.Path(__file__).resolve().parent
# Of each row of `tjit log`: the op, and what goes in and comes out.
ROW = re.compile(r"\| (\w+::\S+) \|.*?\| (\S.* -> .*)$", re.M)


class BackwardTest(TorchPythonCase):
    def run_program(self, *arguments, program="backward_programs.py",
                    engine=None, log=False):
        """What it prints, its counters, and its instruction log."""
        stats, ops = self.folder / "stats.json", self.folder / "ops.log"
        command, variables = [], {}
        if engine is not None:
            command = [TJIT, "run", f"--stats={stats}", "--"]
            variables["TJIT_BACKWARD"] = engine
        if log:
            variables["TJIT_INSTRUCTION_LOG"] = str(ops)
        done = subprocess.run(
            [str(c) for c in (*command, self.python, "-W", "ignore",
                              HERE / program, *arguments)],
            env=environment(**variables), text=True, capture_output=True,
            timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        did = json.loads(stats.read_text()) if engine is not None else {}
        text = ""
        if log:
            text = subprocess.run([TJIT, "log", str(ops)], text=True,
                                  capture_output=True, check=True).stdout
        return done.stdout, did, text

    def test_cases(self):
        eager, _, _ = self.run_program("cases")
        ours, did, _ = self.run_program("cases", engine="own")
        self.assertEqual(ours, eager)
        self.assertGreaterEqual(did["backwards_own"], 40, did)
        self.assertEqual(set(did["backwards_left"]), {"nested", "anomaly"}, did)

    def test_random_passes(self):
        program = "backward_random.py"
        eager, _, _ = self.run_program("0", "250", program=program)
        ours, did, _ = self.run_program("0", "250", program=program,
                                        engine="own")
        self.assertEqual(ours, eager)
        self.assertGreater(did["backwards_own"], 400, did)
        self.assertLess(set(did["backwards_left"]),
                        {"nested", "create_graph", "view_written", "refused"})

    def test_distributed(self):
        eager, _, _ = self.run_program("distributed")
        ours, did, _ = self.run_program("distributed", engine="own")
        self.assertEqual(ours, eager)
        self.assertEqual(did["backwards_own"], 5, did)

    def test_random_graphs(self):
        eager, _, _ = self.run_program("random", "40")
        theirs, _, their_ops = self.run_program("random", "40",
                                                engine="libtorch", log=True)
        ours, did, our_ops = self.run_program("random", "40", engine="own",
                                              log=True)
        self.assertEqual(theirs, eager)
        self.assertEqual(ours, eager)
        self.assertGreater(did["backwards_own"], 80, did)
        self.assertEqual(did["backwards_libtorch"], 0, did)
        rows = ROW.findall(their_ops)
        self.assertGreater(len(rows), 1000)
        self.assertEqual(ROW.findall(our_ops), rows)


if __name__ == "__main__":
    TJIT, torch = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    TorchPythonCase.python = torch_python(torch)
    del sys.argv[1:3]
    unittest.main()
