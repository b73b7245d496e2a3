"""Runs the test programs of torch/test with libtjit preloaded and compares.

What it proves: each program passes the same tests, and ends with the same
status, without tjit, with every op deferred from its first sighting
(TJIT_STRESS=late) and with tjit on at the lowest threshold. Counters of all
programs together show that ops ran late, and were seen; a difference between
late and eager bits fails the test.

Generators that no program seeds draw the same in every run (fixed_seed.cpp):
some tests fail now and then by what they draw, without tjit too.

Usage: torch_programs.py TORCH_FOLDER LIBTJIT LIBFIXED_SEED [unittest arguments]
       TORCH_PROGRAMS=atest,basic ...        some programs only
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import is_passed_on

TORCH = LIBTJIT = FIXED_SEED = None
ONLY = [n for n in os.environ.get("TORCH_PROGRAMS", "").split(",") if n]
PASSED = re.compile(r"^\[ +OK +\] ([\w./]+)", re.M)
SECONDS = 200  # of one program


def run_program(path, extra):
    """The tests that pass and the status, as a set of strings; counters."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items()
               if is_passed_on(k)}
        stats = pathlib.Path(folder) / "stats.json"
        env.update(OMP_NUM_THREADS="1", TMPDIR=folder, TJIT_PROFILE="off",
                   LD_PRELOAD=str(FIXED_SEED), **extra)
        if extra:
            env.update(LD_PRELOAD=f"{LIBTJIT}:{FIXED_SEED}",
                       TJIT_STATS=str(stats))
        try:
            done = subprocess.run(
                [path, "--gtest_color=no"], env=env, cwd=folder, text=True,
                errors="replace", check=False, timeout=SECONDS,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
            output, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired:
            output, status = "", "timeout"
        has_stats = stats.exists() and stats.stat().st_size
        counters = json.loads(stats.read_text()) if has_stats else {}
    found = {f"{path.name}: {name}" for name in PASSED.findall(output)}
    found.add(f"{path.name}: status {status}")
    return found, counters, output[-3000:]


def run_all(**extra):
    programs = [p for p in sorted((TORCH / "test").iterdir())
                if os.access(p, os.X_OK) and p.is_file() and
                (not ONLY or p.name in ONLY)]
    passed, sums, outputs = set(), {}, {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda p: run_program(p, extra), programs)
        for path, (found, counters, output) in zip(programs, results):
            passed |= found
            outputs[path.name] = output
            for name, value in counters.items():
                if isinstance(value, int):
                    sums[name] = sums.get(name, 0) + value
    return passed, sums, outputs


@functools.lru_cache(maxsize=None)
def plain():
    return run_all()


class ProgramsTest(unittest.TestCase):
    def compare(self, **extra):
        expected = plain()[0]
        self.assertTrue(expected)
        passed, sums, outputs = run_all(**extra)
        lost = sorted(expected - passed)
        print(f"{len(expected)} results without tjit, "
              f"{len(expected & passed)} of them with "
              + " ".join(f"{k}={v}" for k, v in extra.items()))
        text = "".join(f"\n--- {name}\n{outputs[name.split(':')[0]]}\n"
                       for name in lost[:10])
        self.assertFalse(lost, f"no longer so: {lost}{text}")
        # What is pending when a process ends is dropped.
        done = sums["ops_replayed"] + sums["ops_drained"]
        pending = sums["ops_deferred"] - done
        self.assertGreaterEqual(pending, 0)
        self.assertEqual(sums["ops_seen"], sums["ops_eager"] + done + pending)
        return sums

    def test_late(self):
        sums = self.compare(TJIT_AUTO_COMPILE="1", TJIT_STRESS="late")
        print(f"{sums['ops_late']} of {sums['ops_seen']} ops ran late")
        self.assertGreater(sums["ops_late"], 0)
        self.assertEqual(sums["shadow_mismatches"], 0)

    def test_replay(self):
        sums = self.compare(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="2")
        print(f"{sums['ops_replayed']} of {sums['ops_seen']} ops replayed")
        self.assertGreater(sums["ops_seen"], 0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    TORCH, LIBTJIT, FIXED_SEED = (pathlib.Path(sys.argv.pop(1)).resolve()
                                  for _ in range(3))
    for needed in (TORCH / "test", LIBTJIT, FIXED_SEED):
        if not needed.exists():
            sys.exit(f"torch_programs.py: {needed} is not there")
    unittest.main(verbosity=2)
