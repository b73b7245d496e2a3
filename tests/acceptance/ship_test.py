"""A network that a C++ program has trained and saved is opened by Python.

What it proves: examples/ship.cpp writes a file that torch.jit.load() of another
process reads without tjit; it computes the bits that the program printed, its
parameters have the network's names, and images of another number are refused
with what it expects.

Usage: ship_test.py SHIP_PROGRAM DATA_FILE TORCH_FOLDER [unittest arguments]
"""
import pathlib
import re
import subprocess
import sys
import unittest

from clean_environment import environment
from torch_python import TorchPythonCase, torch_python

PROGRAM = DATA = None

READER = """
import csv, sys, torch
torch.set_num_threads(1)
net = torch.jit.load(sys.argv[1])
with open(sys.argv[2]) as file:
    rows = [[float(v) for v in row] for row in csv.reader(file)]
images = torch.tensor(rows)[:, :64] / 16
with torch.no_grad():
    print(net(images)[0][0].item().hex())
print(*(f"{k}:{list(v.shape)}" for k, v in net.named_parameters()))
print([a.name for a in net.forward.schema.arguments])
try:
    net(images[:5])
except Exception as error:
    print(str(error).strip().splitlines()[-1])
"""


class ShipTest(TorchPythonCase):
    def test_python_opens_it(self):
        file = self.folder / "digits.pt"
        wrote = subprocess.run([PROGRAM, file, DATA], capture_output=True,
                               text=True, env=environment())
        self.assertEqual(wrote.returncode, 0, wrote.stdout + wrote.stderr)
        said = re.fullmatch(r"\S+: (\S+) % of (\d+) digits are right; same "
                            r"bits; the first is (\S+)\n", wrote.stdout)
        self.assertIsNotNone(said, wrote.stdout)
        read = subprocess.run(
            [self.python, "-W", "ignore", "-c", READER, file, DATA],
            capture_output=True, text=True, env=environment())
        self.assertEqual(read.returncode, 0, read.stderr)
        first, parameters, arguments, refused = read.stdout.splitlines()
        self.assertEqual(float.fromhex(first), float.fromhex(said[3]))
        self.assertEqual(parameters, "0.weight:[32, 64] 0.bias:[32] "
                                     "2.weight:[10, 32] 2.bias:[10]")
        self.assertEqual(arguments, "['self', 'images']")
        self.assertIn(f"images has to be a tensor of Float with sizes "
                      f"[{said[2]}, 64] and strides [64, 1], but got sizes "
                      f"[5, 64] and strides [64, 1]", refused)

    def test_without_a_file(self):
        done = subprocess.run([PROGRAM], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "usage: ship OUT.pt [DATA]\n")

    def test_where_nothing_can_be_written(self):
        done = subprocess.run([PROGRAM, "/no/such/digits.pt", DATA],
                              capture_output=True, text=True,
                              env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/digits.pt: cannot be written: No such file or "
                      "directory", done.stderr)


if __name__ == "__main__":
    PROGRAM, DATA = sys.argv[1:3]
    TorchPythonCase.python = torch_python(pathlib.Path(sys.argv[3]).resolve())
    del sys.argv[1:4]
    unittest.main()
