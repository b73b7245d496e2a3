"""Runs libtorch's own C++ tests with libtjit preloaded and compares.

What it proves: the tests of torch/bin/test_api (or another program of that
folder) that pass without tjit pass with every result hidden until it is
legally read (TJIT_STRESS=hide), with tjit on at the lowest threshold, the same
with every replay compared with eager (TJIT_SHADOW=1), and with every op
deferred from its first sighting and compared (TJIT_STRESS=late); the counters
show that results were hidden, ops replayed and results compared, so that a
pass cannot come from tjit doing nothing.

A test that ends the process is reported with the end of its output, and the
run goes on behind it.

Generators that no test seeds draw the same in every run (fixed_seed.cpp).

Usage: torch_suites.py TORCH_FOLDER LIBTJIT LIBFIXED_SEED [unittest arguments]
       TORCH_SUITES_FILTER=RNNTest.* ...     some tests only
       TORCH_SUITES_PROGRAM=test_jit ...     another program of torch/bin
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
SUITE = os.environ.get("TORCH_SUITES_PROGRAM", "test_api")
FILTER = os.environ.get("TORCH_SUITES_FILTER", "*")
EXCLUDED = "*CUDA*:*MultiGPU*"
# The ops to be hidden or replayed at least: millions in the whole test_api.
LEAST_OPS = 1_000_000 if (SUITE, FILTER) == ("test_api", "*") else 0
SHARDS = 2
# Of test_api's 66 s without tjit they take 36: 25 a pole that is balanced.
FIRST_SHARD = ("IntegrationTest.", "RNNTest.")
MAX_CRASHES = 20
# Side exits that only a fault of tjit can cause (bail_reasons.def).
FAULTS = ("thunk_failed", "step_threw")
LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w./]+)", re.M)


class Outcome:
    """What a run of the suite showed: test names, and counters summed."""

    def __init__(self):
        self.passed = set()
        self.failed = {}  # name -> end of the output
        self.stats = {}

    def add(self, other):
        self.passed |= other.passed
        self.failed.update(other.failed)
        for name, value in other.stats.items():
            if isinstance(value, int):
                self.stats[name] = self.stats.get(name, 0) + value
        for table in ("side_exits", "flushes"):
            for reason, times in other.stats.get(table, {}).items():
                sums = self.stats.setdefault(table, {})
                sums[reason] = sums.get(reason, 0) + times


def environment(folder, **extra):
    """The caller's environment without its TJIT_ variables."""
    env = {k: v for k, v in os.environ.items() if is_passed_on(k)}
    # One thread each: the tests' tensors are tiny, and waiting threads spin.
    env.update(OMP_NUM_THREADS="1", TMPDIR=folder, TJIT_PROFILE="off",
               LD_PRELOAD=str(FIXED_SEED), **extra)
    return env


def list_tests():
    command = [TORCH / "bin" / SUITE, "--gtest_list_tests",
               f"--gtest_filter={FILTER}-{EXCLUDED}"]
    text = subprocess.run(command, check=True, text=True, timeout=60,
                          capture_output=True).stdout
    names, group = [], ""
    for line in text.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(group + name)
        elif name.endswith("."):
            group = name
    return names


def read(output, outcome):
    """Sorts the tests of one process by result; returns the one it died in."""
    running, begin = None, 0
    for match in LINE.finditer(output):
        what, name = match.groups()
        if what == "RUN":
            running, begin = name, match.start()
            continue
        if name != running:
            continue  # the summary at the end
        if what == "FAILED":
            outcome.failed[name] = output[begin:match.end()][-3000:]
        else:
            outcome.passed.add(name)
        running = None
    if running:
        outcome.failed[running] = output[begin:][-6000:]
    return running


def run_tests(names, folder, extra):
    """Runs `names` in one process, or more where one dies."""
    outcome = Outcome()
    names = list(names)
    for attempt in range(MAX_CRASHES):
        if not names:
            break
        stats = pathlib.Path(folder) / f"stats{attempt}.json"
        env = environment(folder, **extra)
        if extra:
            env.update(LD_PRELOAD=f"{LIBTJIT}:{FIXED_SEED}",
                       TJIT_STATS=str(stats))
        process = subprocess.run(
            [TORCH / "bin" / SUITE, "--gtest_color=no",
             "--gtest_filter=" + ":".join(names)],
            env=env, cwd=folder, text=True, errors="replace", check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
        before = len(outcome.passed) + len(outcome.failed)
        died_in = read(process.stdout, outcome)
        if stats.exists() and stats.stat().st_size:
            step = Outcome()
            step.stats = json.loads(stats.read_text())
            outcome.add(step)
        if died_in is None and process.returncode not in (0, 1):
            outcome.failed["(exit of the process)"] = process.stdout[-6000:]
        if len(outcome.passed) + len(outcome.failed) == before:
            outcome.failed["(start of the process)"] = process.stdout[-6000:]
            break
        names = [n for n in names
                 if n not in outcome.passed and n not in outcome.failed]
    return outcome


def shards():
    """The tests of each process, which takes about as long as the others."""
    names = list_tests()
    first = [n for n in names if n.startswith(FIRST_SHARD)]
    if not first:
        return [names[i::SHARDS] for i in range(SHARDS)]
    rest = [n for n in names if not n.startswith(FIRST_SHARD)]
    return [first] + [rest[i::SHARDS - 1] for i in range(SHARDS - 1)]


def run_suite(**extra):
    """Runs all tests in SHARDS processes at a time."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:
        parts = []
        for i, names in enumerate(shards()):
            part = pathlib.Path(folder) / str(i)
            part.mkdir()
            parts.append(pool.submit(run_tests, names, str(part), extra))
        for part in parts:
            outcome.add(part.result())
    return outcome


def queue_length(stats):
    """Ops that were pending in the mean when pending ops ran."""
    return ((stats["ops_replayed"] + stats["ops_drained"]) /
            max(1, sum(stats.get("flushes", {}).values())))


@functools.lru_cache(maxsize=None)
def plain():
    return run_suite()


class SuiteCase(unittest.TestCase):
    """What both modes have in common."""

    def compare(self, **extra):
        expected = plain()
        self.assertGreater(len(expected.passed), 0)
        got = run_suite(**extra)
        lost = sorted(expected.passed - got.passed)
        text = "".join(
            f"\n--- {name}\n{got.failed.get(name, '(not run)')}\n"
            for name in lost)
        crash = [n for n in got.failed if n.startswith("(")]
        text += "".join(f"\n--- {n}\n{got.failed[n]}\n" for n in crash)
        print(f"{SUITE}: {len(expected.passed)} tests pass without tjit, "
              f"{len(got.passed & expected.passed)} of them with "
              + " ".join(f"{k}={v}" for k, v in extra.items()))
        self.assertFalse(lost or crash,
                         f"{len(lost)} tests no longer pass:{text}")
        return got.stats


class HideTest(SuiteCase):
    def test_every_result_hidden(self):
        stats = self.compare(TJIT_AUTO_COMPILE="1", TJIT_STRESS="hide")
        print(f"{stats.get('ops_hidden')} ops had their results hidden")
        self.assertGreater(stats.get("ops_hidden", 0), LEAST_OPS)


class ReplayTest(SuiteCase):
    def test_lowest_threshold(self):
        self.check(self.compare(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="2"))

    def check(self, stats):
        print(f"{stats.get('ops_replayed')} of {stats.get('ops_seen')} ops "
              "were replayed")
        self.assertGreater(stats.get("ops_replayed", 0), LEAST_OPS)
        exits = stats.get("side_exits", {})
        print("side exits:", exits)
        self.assertFalse([why for why in FAULTS if why in exits])
        pending = (stats["ops_seen"] - stats["ops_eager"] -
                   stats["ops_replayed"] - stats["ops_drained"])
        # The lazy backend ends with ops pending, which are dropped at exit.
        self.assertIn(pending, range(100) if SUITE == "test_lazy" else (0,))
        self.assertEqual(stats["ops_deferred"], stats["ops_replayed"] +
                         stats["ops_drained"] + pending)
        print(f"mean queue length {queue_length(stats):.1f}")

    def check_comparisons(self, stats):
        print(f"{stats.get('shadow_checks')} results were compared with "
              f"eager's, {stats.get('shadow_mismatches')} differ")
        self.assertGreater(stats.get("shadow_checks", 0), LEAST_OPS)
        self.assertEqual(stats.get("shadow_mismatches"), 0)


class ShadowTest(ReplayTest):
    def test_lowest_threshold(self):
        stats = self.compare(TJIT_AUTO_COMPILE="1", TJIT_HOT_THRESHOLD="2",
                             TJIT_SHADOW="1")
        self.check(stats)
        self.check_comparisons(stats)


class LateTest(ReplayTest):
    def test_lowest_threshold(self):
        stats = self.compare(TJIT_AUTO_COMPILE="1", TJIT_STRESS="late")
        self.check(stats)
        self.check_comparisons(stats)
        print(f"{stats['ops_late']} of {stats['ops_seen']} ops ran late")
        if (SUITE, FILTER) == ("test_api", "*"):
            self.assertGreater(2 * stats["ops_late"], stats["ops_seen"])
        self.assertGreater(stats["ops_late"], 0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    TORCH, LIBTJIT, FIXED_SEED = (pathlib.Path(sys.argv.pop(1)).resolve()
                                  for _ in range(3))
    for needed in (TORCH / "bin" / SUITE, LIBTJIT, FIXED_SEED):
        if not needed.exists():
            sys.exit(f"torch_suites.py: {needed} is not there")
    unittest.main(verbosity=2)
