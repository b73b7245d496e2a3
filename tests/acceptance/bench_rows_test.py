"""The rows of bench/peers/ are those of the C++ suite.

What it proves: what the peers compile computes, as eager torch in Python, the
numbers of the row of that name in C++; other numbers and other sizes are told.
No peer is needed, only torch in Python. Rows that share their mathematics with
one of these are left out.

Usage: bench_rows_test.py FOLDER_OF_PROGRAMS TORCH_FOLDER [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment
from torch_python import torch_python

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
PROGRAMS = TORCH = None
ROWS = (  # label, program, benchmark
    ("chain10-64", "inference", "row1/chain10-64"),
    ("softmax-mask-s", "kernels", "row6/softmax-mask-s"),
    ("reduce-sum", "kernels", "row8/reduce-sum"),
    ("mlp-tiny", "inference", "row9/mlp-tiny"),
    ("decode-tok", "dense", "row12/decode-tok"),
    ("rate-triple-1", "science", "row13/rate-triple-1"),
    ("elasticity-1", "science", "row14/elasticity-1"),
    ("radial-return-1024", "science", "row15/radial-return-1024"),
    ("cahn-hilliard-200", "science", "row16/cahn-hilliard-200"),
    ("lbm-10", "science", "row17/lbm-10"),
    ("pinn", "training", "row18/pinn/optim"),
    ("mlp-adam", "training", "row19/mlp-adam/optim"),
    ("mlp-large", "products", "row21/mlp-large/optim"),
    ("adam-100x1k", "products", "row22/adam-100x1k/optim"),
    ("block", "training", "row24/block/optim"),
)


class BenchRowsTest(unittest.TestCase):
    def setUp(self):
        self.python = torch_python(TORCH)
        if self.python is None:
            self.skipTest("no Python has this torch")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.expected = pathlib.Path(folder.name)

    def said(self, label, program, benchmark):
        """What measure.py says of a row as eager torch."""
        done = subprocess.run(
            [self.python, "-W", "ignore", PEERS / "measure.py", label,
             "--peer", "E", "--eager", PROGRAMS / f"bench_{program}_plain",
             "--benchmark", benchmark, "--repetitions", "1",
             "--min-time", "0.001",
             "--expected", self.expected / benchmark.replace("/", "-")],
            env=environment(OMP_NUM_THREADS="1"), text=True,
            capture_output=True, timeout=120, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def test_rows(self):
        for row in ROWS:
            with self.subTest(row[0]):
                self.assertIn("samples", self.said(*row))

    def test_other_numbers(self):
        self.assertIn("apart from eager's", self.said(
            "transc-64k", "inference", "row1/chain10-64k")["error"])

    def test_other_sizes(self):
        self.assertIn("other sizes", self.said(
            "chain10-64", "inference", "row1/chain10-64k")["error"])


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    TORCH = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
