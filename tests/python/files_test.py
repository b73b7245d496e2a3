"""Functions of the Python package as files: save_package(), save_torchscript()
and load_package().

What it proves: a package that Python has saved gives the function's bits in
another process, replayed at its first call, with arguments in their order and
the results in what they were in; `tjit package`, which is C++, finds the same
bits in it; Python finds those of C++ in a file that a C++ program has saved; a
module is opened by a Python without tjit. What is wrong is an error that says
what to do.

Usage: files_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    SHIP_PROGRAM [unittest arguments]
"""
import re
import subprocess
import sys
import unittest

from package_case import (BEHIND, BITS, FIRST, NEVER, REFUSED, PackageCase,
                          environment)

SHIP = None

PRELUDE = REFUSED + """
import collections, dataclasses, os, struct
torch.set_num_threads(1)
""" + BITS + """
# Of two processes.
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                          torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 3))
net(torch.randn(9, 8))
net.eval()
w = torch.randn(8, 8)

@dataclasses.dataclass
class State:
    x: torch.Tensor
    n: int

Pair = collections.namedtuple('Pair', 'low high')

@torch.no_grad()
def predict(scale, x):
    return net(x) * scale

@torch.no_grad()
def parts(state, more):
    y = torch.tanh(state.x @ w)
    return {'y': y, 'n': state.n, 'pair': Pair(y.amin(1), y.amax(1)),
            'rest': [(y + more['dt'], None), State(y * 2, 5)], 3: y.max(1)}

class Held:
    def __init__(self):
        self.net = net
        self.seen = torch.zeros(3)
    @tjit.jit
    def observe(self, x):
        with torch.no_grad():
            y = self.net(x)
            self.seen.add_(y.sum(0))
            return y, self.seen.clone()

def replayed(fn, *args, **kwargs):
    for _ in range(6):
        fn(*args, **kwargs)
    assert fn.stats()['replays'] > 0, fn.stats()
    return fn

x = torch.randn(5, 8)
"""

SAVE = """
fast = tjit.jit(predict)
for i in range(8):
    fast(0.25 * i, x)
replayed(fast, 0.5, x)
tjit.save_package('predict.tjit', fast, 0.5, x)
named = replayed(tjit.jit(predict, name='named'), scale=0.5, x=x)
tjit.save_package('named.tjit', named, scale=0.5, x=x, tensors=net,
                  arguments=['by'], given=['0.weight'], keeps_example=False)
nest = State(x, 7), {'dt': 0.25}
tjit.save_package('parts.tjit', replayed(tjit.jit(parts), *nest), *nest,
                  tensors={'w': w})
held = Held()
replayed(held.observe, x)
held.seen.zero_()
tjit.save_package('held.tjit', held.observe, x,
                  tensors=[('seen', held.seen), *net.named_parameters()])
tjit.save_torchscript('net.pt', fast, 0.5, x)
"""

LOAD = """
p = tjit.load_package('predict.tjit')
assert p.names == ('scale', 'x') and p.name == 'predict', p.names
wanted = {n: list(t.shape) for n, t in
          [*net.named_parameters(), *net.named_buffers()]}
del wanted['2.num_batches_tracked']
assert {n: eval(t[5:]) for n, t in p.tensors.items()} == wanted, p.tensors
assert repr(p) == ('<tjit.Package predict(scale: float, x: Float[5, 8]) with '
                   '8 tensors>'), repr(p)
before = p.stats()['replays']
assert bits(p(0.5, x)) == bits(predict(0.5, x))
assert p.stats()['replays'] == before + 1, p.stats()
for i in range(20):
    x = torch.randn(5, 8)
    assert bits(p(x=x, scale=1.5 * i)) == bits(predict(1.5 * i, x)), i
assert bits(p(2, x=x)) == bits(predict(2, x))
assert p.stats()['replays'] > before + 10, p.stats()
assert p.verify() == ''

# Structures, those of them that a file has.
q = tjit.load_package('parts.tjit')
assert q.names == ('state_x', 'more_dt'), q.names
got, right = q(x, 0.25), parts(State(x, 7), {'dt': 0.25})
assert list(got) == list(right) == ['y', 'n', 'pair', 'rest', 3]
assert bits(got['y']) == bits(right['y']) and got['n'] == 7
assert type(got['pair']).__name__ == 'Pair' and len(got['pair']) == 2
assert bits(got['pair'].low) == bits(right['pair'].low)
assert bits(got['pair'].high) == bits(right['pair'].high)
assert bits(got['rest'][0]) == bits(right['rest'][0])
assert bits(got['rest'][1].x) == bits(right['rest'][1].x)
assert type(got['rest']) is list and got['rest'][1].n == 5
assert bits(got[3].values) == bits(right[3].values)
assert bits(got[3].indices) == bits(right[3].indices)

# What it writes into is its own, and as before the warm-up.
h, mine = tjit.load_package('held.tjit'), Held()
for _ in range(8):
    assert bits(h(x)) == bits(mine.observe.__wrapped__(x))
assert h.stats()['replays'] > 6, h.stats()
assert h.verify() == ''

# Tensors that are given share their memory.
L = tjit.load_package
refused(RuntimeError, lambda: L('named.tjit'), 'named.tjit has to be given '
        'tensor "0.weight" (Float with sizes [16, 8] and strides [8, 1])',
        'pass it to load_package() by this name')
weight = net[0].weight.detach().clone()
refused(RuntimeError, lambda: L('named.tjit', {'0.weight': weight[1:]}),
        '"0.weight" has to be Float with sizes [16, 8]', 'but is', '[15, 8]')
refused(RuntimeError, lambda: L('named.tjit', {'0.weight': weight, 'q': w}),
        'has no tensor "q"')
g = L('named.tjit', tensors={'0.weight': weight}, warms_up=False)
assert g.names == ('by', 'x') and g.stats()['calls'] == 0
assert bits(g(0.5, x)) == bits(predict(0.5, x))
weight *= 2
with torch.no_grad():
    net[0].weight *= 2
for _ in range(6):
    assert bits(g(0.5, x)) == bits(predict(0.5, x))
assert g.stats()['replays'] > 0, g.stats()
refused(RuntimeError, g.verify, 'was saved without an example')

# Wrong arguments.
refused(RuntimeError, lambda: p(0.5, torch.ones(4, 8)),
        'x has to be a tensor of Float with sizes [5, 8] and strides [8, 1], '
        'but got sizes [4, 8]')
refused(RuntimeError, lambda: p(0.5, torch.ones(5, 8).double()), 'x has to be')
refused(TypeError, lambda: p(0.5), '"predict" takes scale, x; it was called '
        'with 1')
refused(TypeError, lambda: p(0.5, x, x), 'takes scale, x')
refused(TypeError, lambda: p(0.5, scale=0.5), 'with 1, scale')
refused(TypeError, lambda: p(0.5, y=x), 'with 1, y')
refused(TypeError, lambda: p(True, x), 'takes a float for scale, and got True')
refused(TypeError, lambda: p(0.5, [1.0]), 'takes a torch.Tensor for x')
import copy, pickle
refused(TypeError, lambda: pickle.dumps(p), 'load its file again')
refused(TypeError, lambda: copy.copy(p), 'load its file again')

# Wrong files.
refused(RuntimeError, lambda: L('none.tjit'), 'none.tjit cannot be read: No '
        'such file')
refused(RuntimeError, lambda: L('net.pt'), 'is a module of TorchScript and no '
        'package')
data = open('predict.tjit', 'rb').read()
at = data.index(bytes(net[3].weight.detach().reshape(-1).view(torch.uint8)
                      .tolist()))
with open('bad.tjit', 'wb') as file:
    file.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
refused(RuntimeError, lambda: L('bad.tjit'), 'bad.tjit is damaged')
with open('bad.tjit', 'wb') as file:
    file.write(data[:len(data) // 2])
refused(RuntimeError, lambda: L('bad.tjit'), 'bad.tjit is damaged')
refused(TypeError, lambda: L(3), 'path must be a str, and is 3')
refused(ValueError, lambda: L('a\\0b'), 'zero byte')
refused(TypeError, lambda: L('named.tjit', {'0.weight': 3}), 'tensors by name')
refused(TypeError, lambda: L('named.tjit', warms_up=1), 'warms_up')
"""

REFUSALS = """
S, T = tjit.save_package, tjit.save_torchscript
fast = tjit.jit(predict)
for save in (S, T):
    refused(RuntimeError, lambda: save('a', fast, 0.5, x),
            '"predict" is not replayed for these arguments',
            'call it with them until stats().replays grows')
replayed(fast, 0.5, x)
sgd = torch.optim.SGD(net.parameters())
for save in (S, T):
    refused(TypeError, lambda: save('a', fast, 0.5, sgd), 'an optimizer has no '
            'form in a file')
    refused(RuntimeError, lambda: save('a', fast, 0.5, x[1:]),
            'is not replayed')
    refused(RuntimeError, lambda: save('/none/a', fast, 0.5, x),
            '/none/a: cannot be written')
    refused(TypeError, lambda: save('a', predict, 0.5, x), 'tjit.jit()')
    refused(TypeError, lambda: save(3, fast, 0.5, x), 'path must be a str')
    refused(TypeError, lambda: save('a', fast, 0.5, {x}),
            'cannot be called with x of type set')
    refused(TypeError, lambda: save('a', fast, 0.5, x, tensors={'w': 3}),
            'tensors by name', "('w', 3)")
    refused(TypeError, lambda: save('a', fast, 0.5, x, arguments='x'),
            'arguments must be a list of names')
    refused(ValueError, lambda: save('a', fast, 0.5, x, arguments=['a'] * 3),
            'arguments has 3 names, but the example has 2')
    refused(RuntimeError, lambda: save('a', fast, 0.5, x, arguments=['1']),
            '"1" is no name of an argument')
    refused(TypeError, lambda: save('a', fast, 0.5, x, tensors=5),
            f'tjit.{save.__name__}: tensors must be tensors by name',
            'and is 5, a int')
    refused(TypeError, lambda: save('a', fast, 0.5, x, arguments=5),
            f'tjit.{save.__name__}: arguments must be a list of names, and is '
            '5, a int')
refused(TypeError, lambda: S('a', fast, 0.5, x, given=None),
        'tjit.save_package: given must be a list of names, and is None')
refused(TypeError, lambda: S('a', fast, 0.5, x, given=[3]), 'given', '3')
refused(TypeError, lambda: S('a', fast, 0.5, x, keeps_example=1),
        'keeps_example must be a bool')
refused(RuntimeError, lambda: S('a', fast, 0.5, x, given=['q']),
        '"q" is to be given, but the function uses no tensor of that name')
more = torch.nn.Sequential(torch.nn.Linear(8, 3))
@tjit.jit
def two(x):
    with torch.no_grad():
        return net(x) + more(x)
replayed(two, x)
refused(ValueError, lambda: S('a', two, x), 'two modules of two() have a '
        'tensor "0.weight"; pass tensors=')
S('two.tjit', two, x, tensors={'more.w': more[0].weight})
assert bits(tjit.load_package('two.tjit')(x)) == bits(two(x))
kind = replayed(tjit.jit(lambda x: (x + 1, x.dtype)), x)
refused(TypeError, lambda: S('a', kind, x), 'the result[1] is of type '
        'torch.dtype, which a file has not')
@dataclasses.dataclass
class Hidden:
    y: torch.Tensor
    _u: torch.Tensor
hides = replayed(tjit.jit(lambda x: [Hidden(x + 1, x * 2)]), x)
refused(ValueError, lambda: S('a', hides, x), 'the result[0] is of type ',
        'Hidden, whose field "_u" no named tuple can have; rename it')
@tjit.jit
def loss(x):
    more.zero_grad()
    more(x).sum().backward()
replayed(loss, x)
refused(RuntimeError, lambda: S('a', loss, x), 'has a backward pass inside')
assert not os.path.exists('a')
"""

# Without tjit.
OPEN = """
torch.set_num_threads(1)
module = torch.jit.load(FILE)
print([a.name for a in module.forward.schema.arguments])
print(sorted(n for n, _ in module.named_parameters()))
"""

# What C++ has saved.
FROM_SHIP = """
torch.set_num_threads(1)
import csv
with open(DATA) as file:
    rows = [[float(v) for v in row] for row in csv.reader(file)]
images = torch.tensor(rows)[:, :64] / 16
p = tjit.load_package(FILE)
assert p.names == ('images',), p.names
before = p.stats()['replays']
y = p(images)
assert p.stats()['replays'] == before + 1
assert p.verify() == ''
with torch.no_grad():
    assert torch.equal(y, torch.jit.load(FILE)(images))
print(y[0][0].item().hex())
"""


class FilesTest(PackageCase):
    def expect(self, program, imports=FIRST, **options):
        text = (imports + PRELUDE + f"os.chdir({str(self.folder)!r})\n" +
                program + "print('ok')\n")
        self.assertEqual(self.out_of(text, **options), "ok\n")

    def package(self, action, file):
        done = subprocess.run(
            [self.tjit, "package", action, self.folder / file], text=True,
            capture_output=True, check=False,
            env=environment(TJIT_CACHE_DIR="off", TMPDIR=str(self.folder)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_saved_and_loaded(self):
        self.expect(SAVE)
        self.expect(LOAD)
        self.expect(LOAD, BEHIND)

    def test_cpp_loads_what_python_saved(self):
        self.expect("assert tjit.enable(hot_threshold=3)\n" + SAVE, BEHIND)
        shown = self.package("show", "predict.tjit")
        self.assertRegex(shown, r'predict.tjit: "predict", saved with libtorch')
        self.assertRegex(shown, r"\n  x +Float \[5, 8\], strides \[8, 1\]\n")
        self.assertRegex(shown, r"\n  3\.weight +Float \[3, 16\]")
        for file in ("predict.tjit", "parts.tjit", "held.tjit"):
            self.assertIn(": the same bits as when it was saved\n",
                          self.package("verify", file))
        said = re.search(r": 1000 calls, (\d+) of them replayed",
                         self.package("run", "predict.tjit"))
        self.assertGreater(int(said[1]), 990)

    def test_a_module_is_opened_without_tjit(self):
        self.expect(SAVE)
        for file in ("net.pt", "predict.tjit"):
            path = str(self.folder / file)
            said = self.out_of(NEVER + f"FILE = {path!r}\n" + OPEN)
            self.assertEqual(said, "['self', 'x', 'scale']\n['0.bias', "
                             "'0.weight', '2.bias', '2.weight', '3.bias', "
                             "'3.weight']\n")
        self.expect("with torch.no_grad():\n"
                    "    y = torch.jit.load('net.pt')(x, 0.5)\n"
                    "assert bits(y) == bits(predict(0.5, x))\n")

    def test_python_loads_what_cpp_saved(self):
        if SHIP is None:
            self.skipTest("examples are not built")
        data = self.source / "examples/data/digits.csv"
        file = self.folder / "digits.tjit"
        wrote = subprocess.run([SHIP, file, data], text=True, check=False,
                               capture_output=True, env=environment())
        self.assertEqual(wrote.returncode, 0, wrote.stdout + wrote.stderr)
        first = re.search(r"the first is (\S+)\n", wrote.stdout)[1]
        said = self.out_of(FIRST + f"DATA, FILE = {str(data)!r}, "
                           f"{str(file)!r}\n" + FROM_SHIP)
        self.assertEqual(float.fromhex(said), float.fromhex(first))

    def test_refusals(self):
        self.expect(REFUSALS)

    def test_switched_off_by_the_operator(self):
        done = self.run_program(
            FIRST + REFUSED + "refused(RuntimeError, lambda: "
            "tjit.load_package('a'), 'a cannot be read: No such file')\n",
            TJIT_DISABLE="1")
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    SHIP = None if sys.argv[5] == "none" else sys.argv[5]
    del sys.argv[1:6]
    unittest.main()
