"""Counts instructions per op: tjit disabled after use, against no tjit.

What it proves: after enable() and disable(), an 8x8 add and an 8x8 addmm
execute at most 60 instructions more than in a program without tjit.

Usage: instructions_test.py FOLDER_OF_PROGRAMS VALGRIND [unittest arguments]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import is_passed_on

PROGRAMS = VALGRIND = None
STEPS, OPS_A_STEP, LIMIT = 200, 10, 60


def instructions_per_op(row, *flags):
    """Counted by callgrind inside CountedSteps() only."""
    suffix = "" if flags else "_plain"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [VALGRIND, "--tool=callgrind", "--toggle-collect=*CountedSteps*",
             f"--callgrind-out-file={folder}/callgrind.out",
             PROGRAMS / f"bench_dispatch_overhead{suffix}", f"--row={row}",
             f"--steps={STEPS}", *flags],
            env={k: v for k, v in os.environ.items()
                 if is_passed_on(k)},
            text=True, capture_output=True, timeout=600, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr[-2000:])
    collected = re.search(r"Collected : (\d+)", done.stderr)
    return int(collected.group(1)) / (STEPS * OPS_A_STEP)


class InstructionsTest(unittest.TestCase):
    def check(self, row):
        plain = instructions_per_op(row)
        disabled = instructions_per_op(row, "--enable_disable")
        print(f"{row}: {plain:.0f} without tjit, {disabled:.0f} disabled")
        self.assertGreater(plain, 100)
        self.assertLessEqual(disabled - plain, LIMIT)

    def test_add(self):
        self.check("row26/ten-adds")

    def test_addmm(self):
        self.check("row26/ten-addmm")


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    VALGRIND = sys.argv.pop(1)
    unittest.main()
