"""Python programs that know nothing of tjit see what eager shows them.

What it proves: torch.profiler, started and stopped while a training loop is
replayed, lists the ops of eager with their counts and shapes, and the spans of
what was replayed, with the shapes of what they read; importing nested tensors, whose kernels libtorch registers late, blames
nobody.

Usage: python_test.py TJIT_COMMAND TORCH_FOLDER [unittest arguments]
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
SPAN = re.compile(r"tjit: (\d+) ops? [\w.]+( \.\.\. [\w.]+)?")
OWN = re.compile(r"tjit: (prepare|code for \d+ of) \d+ ops? .*")

PROFILED = """
import collections, json, sys, torch
from torch.profiler import ProfilerActivity, profile
torch.manual_seed(1)
torch.set_num_threads(1)
x, y = torch.randn(64, 16), torch.randn(64, 4)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1),
    torch.nn.Linear(32, 4))
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
total = torch.zeros(1)

def run(steps):
    for _ in range(steps):
        adam.zero_grad()
        out = model(x)
        loss = (out - y).pow(2).mean() + 0.1 * out.abs().mean(0).sum()
        loss.backward()
        adam.step()
        z = torch.zeros(64, 4)
        z += (out.detach() * 2).to(torch.float64).to(torch.float32)
        total.mul_(0.5).add_(z.sum())
        print(loss.item().hex())

run(150)
seen = []
for _ in range(2):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        run(5)
    own = [e for e in p.events() if e.name.startswith("tjit: ")]
    seen.append({
        "ops": collections.Counter(f"{e.name} {e.input_shapes}"
                                   for e in p.events() if e not in own),
        "own": collections.Counter(e.name for e in own),
        "shapes": [(e.name, e.input_shapes) for e in own]})
    run(50)
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
"""

NESTED = """
import torch
x = torch.ones(8)
for _ in range(60):
    y = (x * 2 + 1).sum().item()
import torch.nested._internal.ops
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)],
                                    layout=torch.jagged)
for _ in range(60):
    y = (x * 2 + 1).sum().item()
print(y, (nested * 2).values().sum().item())
"""


class PythonTest(TorchPythonCase):
    def run_python(self, program, *arguments, on):
        path = self.folder / "program.py"
        path.write_text(program)
        stats = self.folder / "stats.json"
        command = [TJIT, "run", f"--stats={stats}", "--"] if on else []
        done = subprocess.run(
            [str(c) for c in (*command, self.python, "-W", "ignore", path,
                              *arguments)],
            env=environment(), text=True, capture_output=True, timeout=240,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, json.loads(stats.read_text()) if on else {}

    def profile(self, on):
        out = self.folder / "ops.json"
        done, did = self.run_python(PROFILED, out, on=on)
        return done.stdout, json.loads(out.read_text()), did

    def test_profiler(self):
        losses, eager, _ = self.profile(on=False)
        ours, seen, did = self.profile(on=True)
        self.assertEqual(ours, losses)
        # 260 steps, of which few come before they are replayed.
        self.assertGreater(did["ops_replayed"], 0.8 * did["ops_seen"], did)
        for number, (now, wanted) in enumerate(zip(seen, eager)):
            ops, own = now["ops"], now["own"]
            spans = {name: count for name, count in own.items()
                     if SPAN.fullmatch(name)}
            self.assertTrue(all(
                name in spans or OWN.fullmatch(name) for name in own), own)
            self.assertEqual(ops, wanted["ops"])
            self.assertEqual(wanted["own"], {})
            # A kernel calls it, which does not run.
            self.assertIn("aten::_to_copy [[64, 4], [], [], [], [], [], []]",
                          ops)
            for name, shapes in now["shapes"]:
                if name in spans:
                    self.assertTrue(shapes and all(shape is not None
                                                   for shape in shapes), name)
            in_spans = sum(count * int(SPAN.fullmatch(name).group(1))
                           for name, count in spans.items())
            # The first profile teaches what kernels call.
            steps = 4 if number == 0 else 5
            self.assertGreaterEqual(sum(spans.values()), steps, spans)
            self.assertGreaterEqual(in_spans, steps * 30, spans)

    def test_nested_tensors(self):
        eager, _ = self.run_python(NESTED, on=False)
        ours, did = self.run_python(NESTED, on=True)
        self.assertEqual((ours.stdout, ours.stderr),
                         (eager.stdout, eager.stderr))
        self.assertGreater(did["ops_replayed"], 100, did)


if __name__ == "__main__":
    TJIT, torch = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    TorchPythonCase.python = torch_python(torch)
    del sys.argv[1:3]
    unittest.main()
