#!/usr/bin/env python3
"""Each typed op in a loop that one thread made hot, on new threads.

Their teams are new, too: what a new thread of a team asks libtorch for the first
time must never wait for the thread that the team works for. Nothing may hang, and
results are those of the first calls, which were eager.

usage: fresh_threads_test.py TORCH TJIT SOURCE
"""
import pathlib
import re
import subprocess
import sys
import unittest

from clean_environment import environment
from torch_python import torch_python

TORCH, TJIT, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
LOOP = pathlib.Path(__file__).with_name("fresh_threads_loop.py")
# Fewer would mean that the loop does not find arguments any more.
LEAST_OPS = 250
ASKED = 8  # times that eager is asked about an op


def typed_ops(python):
    """Functional ops of the typed wrappers, as torch.ops names them."""
    table = SOURCE / "runtime/intercept/typed_ops.def"
    names = re.findall(r"^TJIT_TYPED_OP\((\w+)\)$", table.read_text(), re.M)
    script = """
import sys, torch
typed = set(sys.stdin.read().split())
for s in torch._C._jit_get_all_schemas():
    name = s.name.removeprefix("aten::")
    full = name + ("_" + s.overload_name if s.overload_name else "")
    if s.name.startswith("aten::") and full in typed and not s.is_mutable:
        print(name + "." + (s.overload_name or "default"))
"""
    done = subprocess.run([str(python), "-W", "ignore", "-c", script],
                          input="\n".join(names), text=True,
                          capture_output=True, check=True,
                          env=environment(), timeout=120)
    return sorted(set(done.stdout.split()))


def run(command, threads, ops, **env):
    done = subprocess.run([*command, str(LOOP), str(threads), *ops],
                          text=True, capture_output=True, timeout=1500,
                          env=environment(OMP_NUM_THREADS=str(threads), **env),
                          check=False)
    verdicts = {}
    for line in done.stdout.splitlines():
        name, _, verdict = line.partition(" ")
        verdicts[name] = verdict
    return verdicts, done.stderr


def is_bad(verdict):
    return not verdict.startswith(("same", "not called"))


class FreshThreadsTest(unittest.TestCase):
    def setUp(self):
        self.python = torch_python(TORCH)
        if self.python is None:
            self.skipTest("no Python with this torch")

    def check(self, threads, **env):
        python = [str(self.python), "-W", "ignore"]
        ops = typed_ops(self.python)
        verdicts, errors = run([str(TJIT), "run", "--", *python], threads, ops,
                               TJIT_HOT_THRESHOLD="2", TJIT_CACHE_DIR="off",
                               TJIT_DEBUG_COMPILE="1", **env)
        bad = sorted(op for op, verdict in verdicts.items() if is_bad(verdict))
        # What libtorch itself does with arguments that are none: some ops then
        # read what is not theirs, which differs in some runs only.
        eager = {}
        for _ in range(ASKED if bad else 0):
            again, _ = run(python, threads,
                           [op for op in bad if op not in eager])
            eager.update((op, v) for op, v in again.items() if is_bad(v))
        ours = {op: verdicts[op] for op in bad
                if verdicts[op].split()[0] != eager.get(op, "same").split()[0]}
        self.assertEqual(ours, {})
        same = [op for op, verdict in verdicts.items() if verdict == "same"]
        self.assertGreater(len(same), LEAST_OPS, verdicts)
        return errors

    def test_two_threads(self):
        errors = self.check(2)
        found = errors.count("[COMPILE] Detected hot sequence")
        self.assertGreater(found, LEAST_OPS / 2, errors[-2000:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
