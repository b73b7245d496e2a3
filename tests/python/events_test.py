"""Names of tensors and callbacks on events, from Python.

What it proves: tjit.name() names tensors and modules, and what tjit prints has
these names; tjit.on_event() tells what the counters count, on another thread,
survives callbacks that raise, and ends; wrong arguments are errors that say what
is accepted; the interpreter ends with a callback there, also in a forked child.

Usage: events_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    [unittest arguments]
"""
import json
import sys
import unittest

from package_case import FIRST, REFUSED, PackageCase

STEPS = """
def step(x, w):
    y = torch.add(torch.mul(torch.relu(torch.mul(x, w)), 0.5), x)
    tjit.mark_step()
    return y
"""


class NamesTest(PackageCase):
    def test_tensors_and_modules(self):
        self.out_of(FIRST + """
x = torch.ones(4)
assert tjit.name_of(x) == ""
tjit.name(x, "eq::state/a")
assert tjit.name_of(x) == "eq::state/a"
assert tjit.name_of(x.view(2, 2)) == "eq::state/a"
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
tjit.name(net)
assert tjit.name_of(net[0].weight) == "0.weight"
assert tjit.name_of(net[1].running_mean) == "1.running_mean"
tjit.name(net, "teacher")
assert tjit.name_of(net[0].bias) == "teacher.0.bias"
tjit.name(x, "\\u03b1 \\"b\\"\\n")
assert tjit.name_of(x) == "\\u03b1 \\"b\\"\\n"
""")

    def test_bad_input(self):
        self.out_of(FIRST + REFUSED + """
x = torch.ones(4)
refused(ValueError, lambda: tjit.name(x), "the name is empty")
refused(ValueError, lambda: tjit.name(x, "x" * 201), "201 bytes", "200")
refused(ValueError, lambda: tjit.name(x, "a\\0b"), "zero byte")
refused(ValueError, lambda: tjit.name(x.to_sparse(), "s"), "layout Sparse")
refused(TypeError, lambda: tjit.name(x, 3), "text must be a str")
refused(TypeError, lambda: tjit.name([x], "x"), "torch.Tensor", "list")
refused(TypeError, lambda: tjit.name_of("x"), "torch.Tensor", "str")
refused(TypeError, lambda: tjit.on_event(3), "call must be callable")
refused(TypeError, lambda: tjit.wait_for_events("1"), "number of seconds")
""")

    def test_names_are_printed(self):
        said = self.out_of(FIRST + STEPS + """
assert tjit.enable(hot_threshold=2)
x, w, other = torch.ones(64), torch.ones(64), torch.ones(32)
tjit.name(x, "the state")
tjit.name(w, "weight")
tjit.name(other, "rest")
with torch.no_grad():
    for i in range(30):
        torch.sigmoid(w[:1])
        step(other if i == 20 else x, w[:32] if i == 20 else w)
print(tjit.explain())
""")
        self.assertIn('"the state"', said)
        self.assertIn("called rest", said)


class EventsTest(PackageCase):
    def test_events_are_those_of_the_counters(self):
        lines = self.out_of(FIRST + STEPS + """
import dataclasses, json, threading
told, threads = [], set()
def call(event):
    told.append(event)
    threads.add(threading.get_ident())
callback = tjit.on_event(call)
assert tjit.enable(hot_threshold=2, backend="interpreter")
x, w = torch.ones(64), torch.ones(64)
with torch.no_grad():
    for _ in range(30):
        step(x, w)
    tjit.wait_until_compiled()
    torch.relu(torch.mul(x, w))
    torch.tanh(x)
assert tjit.wait_for_events()
callback.remove()
callback.remove()
assert threading.get_ident() not in threads
tjit.clear()
with torch.no_grad():
    for _ in range(30):
        step(x, w)
assert tjit.wait_for_events()
before = len(told)
print(json.dumps([dataclasses.asdict(e) for e in told]))
print(json.dumps(tjit.stats()))
""").splitlines()
        told, did = json.loads(lines[0]), json.loads(lines[1])
        kinds = [event["kind"] for event in told]
        self.assertEqual(kinds.count("promoted"), 1, told)
        self.assertEqual(told[kinds.index("promoted")]["ops"], 4)
        self.assertEqual(kinds.count("fell_back"), 1, told)
        fell = told[kinds.index("fell_back")]
        self.assertEqual((fell["reason"], fell["actual"], fell["ops"]),
                         ("op_differs", "aten::tanh", 2))
        self.assertGreater(kinds.count("compiled"), 0)
        self.assertGreater(sum(e["kernels_compiled"] for e in told), 0)
        self.assertEqual(did["traces"], 2)

    def test_one_that_raises(self):
        done = self.run_program(FIRST + STEPS + """
calls = []
def call(event):
    calls.append(event.kind)
    if len(calls) == 2:
        callback.remove()
    raise KeyError("a bug of the callback")
callback = tjit.on_event(call)
assert tjit.enable(hot_threshold=2)
for _ in range(3):
    tjit.clear()
    for _ in range(10):
        step(torch.ones(64), torch.ones(64))
    assert tjit.wait_for_events()
assert len(calls) == 2, calls
""")
        self.assertEqual(done.stderr.count("\nKeyError: "), 2)
        self.assertIn("tjit.on_event: the callback raised what follows",
                      done.stderr)

    def test_the_interpreter_ends(self):
        self.out_of(FIRST + STEPS + """
import os, time
def call(event):
    time.sleep(0.2)
    torch.ones(3).add(1)
tjit.on_event(call)
assert tjit.enable(hot_threshold=2)
for _ in range(10):
    step(torch.ones(64), torch.ones(64))
if os.fork() == 0:
    tjit.clear()
    for _ in range(10):
        step(torch.ones(64), torch.ones(64))
else:
    assert os.wait()[1] == 0
""")


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
