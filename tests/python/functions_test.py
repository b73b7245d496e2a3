"""Functions and regions of the Python package: tjit.jit(), NoJit and Region.

What it proves: a function that is wrapped returns eager's bits, and by its own
counters most calls did not run it, with arguments and results of all kinds,
with modules, random numbers, indices and backward passes inside; with tjit
imported before torch, behind it, and under `tjit run`. What cannot be replayed
says why, and runs. Errors say what to do.

Usage: functions_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    [unittest arguments]
"""
import sys
import unittest

from package_case import BEHIND, BITS, FIRST, REFUSED, PackageCase

PRELUDE = """
import collections, copy, dataclasses, enum, gc, struct, threading, weakref
F = torch.nn.functional
torch.set_num_threads(1)
torch.manual_seed(1)

""" + BITS + """
def expect(fast, fn, calls, least, keywords=({},)):
    'Each call has the bits of eager, and `least` calls did not run fn.'
    for i, arguments in enumerate(calls):
        named = keywords[i % len(keywords)]
        mine = fast(*arguments, **named)
        with tjit.Pause():
            right = bits(fn(*arguments, **named))
        assert bits(mine) == right, (i, bits(mine), right)
    did = fast.stats()
    assert did['calls'] >= len(calls) and did['replays'] >= least, did
    assert did['not_same'] == 0 and did['why'] == '', did

def both(fn, calls, least, keywords=({},), **options):
    expect(tjit.jit(fn, **options), fn, calls, least, keywords)

def expect_why(fn, calls, why, results=True):
    'It runs at each call, and says why.'
    fast = tjit.jit(fn)
    for arguments in calls:
        mine = fast(*arguments)
        if results:
            with tjit.Pause():
                assert bits(mine) == bits(fn(*arguments))
    did = fast.stats()
    assert did['replays'] == 0 and did['why'].startswith(why), did

def some(n, *shape):
    return [(torch.randn(*shape),) for _ in range(n)]
"""

ARGUMENTS = """
w = torch.randn(8, 8)

def layer(x, dt, bias=None, scale=1.0):
    y = torch.tanh(x @ w) * dt
    return y * scale if bias is None else (y + bias) * scale

# Positional and by name, numbers that vary, several sizes.
both(layer, [(x, 0.1 * i) for i, (x,) in enumerate(some(20, 4, 8))], 12)
both(layer, [(x, 0.1 * i) for i, (x,) in enumerate(some(40, 4, 8))], 20,
     [{'bias': torch.randn(8), 'scale': 0.5}, {'scale': 2.5}])
both(layer, [(torch.randn(i % 3 + 2, 8), 0.5) for i in range(60)], 35)
both(lambda x, p: x.pow(p), [(x.abs(), p) for p in (2.5, 3.5, 4.5, 0.5) * 5
                             for x, in some(1, 6)], 8)
both(lambda x: x * 2 + 1, [(torch.randn(4, 6).t(),) for _ in range(12)], 5)
both(lambda x: x * 2 + 1, [(torch.tensor(0.25 * i),) for i in range(12)], 5)

# Whole numbers and the like are other ways.
class Mode(enum.Enum):
    UP = 1
    DOWN = 2

def way(x, n, mode, name, flag, dtype, size):
    y = x * n if mode is Mode.UP else x - n
    y = y.exp() if name == 'exp' else y.tanh()
    return (y if flag else -y).to(dtype).reshape(size)

ways = [(n, mode, name, flag, dtype, torch.Size(size))
        for n in (1, 2) for mode in Mode for name in ('exp', 'tanh')
        for flag in (True, False)
        for dtype, size in ((torch.float32, [2, 3]), (torch.float64, [6]))]
both(way, [(torch.randn(6), *ways[i // 6]) for i in range(32 * 6)] * 2, 128)
# Two that Python calls equal are two ways.
both(lambda x, n: x * n if n is True else x + n,
     [(torch.randn(3), n) for n in (1, True) * 8], 6)
both(lambda x, n: x + 1 if n is None else x + n,
     [(torch.randn(3), n) for n in (0, False, None) * 8], 8)
both(lambda x, d: x.to(d) + 1, [(torch.randn(3), torch.device('cpu'))] * 10, 4)

# Nests.
@dataclasses.dataclass(frozen=True)
class State:
    x: torch.Tensor
    v: torch.Tensor
    time: float = 0.0

Pair = collections.namedtuple('Pair', 'a b')

def nest(state, parts, named):
    x = state.x + state.v * state.time
    for part in parts:
        x = x * part.a + part.b[0]
    return x + named['c']['d'] * named['e']

both(nest, [(State(torch.randn(4), torch.randn(4), 0.1 * i),
             [Pair(torch.randn(4), (torch.randn(4), 3)) for _ in range(2)],
             {'c': {'d': torch.randn(4)}, 'e': 0.5, 7: None})
            for i in range(20)], 12)
# Another number of parts, other names.
both(lambda xs: sum(xs), [([x for x, in some(i % 2 + 2, 5)],)
                          for i in range(30)], 15)
both(lambda d: d['a'] - d['b'],
     [((lambda a, b: {'a': a, 'b': b} if i % 2 else {'b': b, 'a': a})(
         torch.randn(3), torch.randn(3)),) for i in range(30)], 15)
# The same tensor for two arguments, parts of one storage, a captured one.
both(lambda a, b: a * 2 + b, [(x, x) for x, in some(12, 5)], 6)
base = torch.randn(64)
both(lambda a, b: a * 2 + b,
     [(base[i:i + 4], base[i + 4:i + 8]) for i in range(20)], 8)
both(lambda a: a * 2 + base[:4],
     [(base[i % 3:i % 3 + 4],) for i in range(60)], 20)
# An argument that is changed in place, a captured one, a parameter.
def update(w):
    def step(x, y):
        x.mul_(0.5).add_(y)
        w.add_(0.125)
        return (w * 2).sum() + x
    return step

twin = w.clone()
fast, eager = tjit.jit(update(w)), update(twin)
for i in range(20):
    x, y = torch.randn(8), torch.randn(8)
    theirs = x.clone()
    a = fast(x, y)
    with tjit.Pause():
        b = eager(theirs, y)
    assert bits([a, x, w]) == bits([b, theirs, twin])
    assert x._version == theirs._version and w._version == twin._version
assert fast.stats()['replays'] >= 12, fast.stats()
both(lambda p: (p * 2).detach(), [(torch.nn.Parameter(torch.randn(3)),)
                                  for _ in range(12)], 6)
"""

CONSTANTS = """
# Tensors that are made of numbers inside.
both(lambda x: torch.where(x > 0, x, torch.tensor(0.5)), some(16, 3, 4), 8)
both(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), some(16, 3, 4), 8)
both(lambda x: torch.distributions.Normal(x, 1.5).log_prob(x * 2),
     some(16, 3, 4), 8)
both(lambda x, a: x * torch.tensor(a) + torch.tensor(2, dtype=torch.int64),
     [(x, 0.5 + i) for i, (x,) in enumerate(some(24, 3, 4))], 12)
expect_why(lambda x: torch.tensor(2.0).mul_(3) * x, some(9, 3), 'jit_host_data')
kept = []
def keeps(x):
    kept.append(torch.tensor(2.0))
    return x * 2 if (x > kept[-1]).all() else x * kept[-1]
expect_why(keeps, some(9, 3), 'jit_')
# Each time another one: it is a number that the function finds by itself.
counts = iter(range(100))
def count(x):
    return x * torch.tensor(float(next(counts)))
fast = tjit.jit(count)
for i, (x,) in enumerate(some(12, 3)):
    assert bits(fast(x)) == bits(x * float(i))
assert fast.stats()['replays'] == 0, fast.stats()
"""

RESULTS = """
@dataclasses.dataclass
class Out:
    y: torch.Tensor
    parts: list
    what: str = 'out'
    def __post_init__(self):
        self.extra = 3

Pair = collections.namedtuple('Pair', 'a b')
held = torch.randn(4)
fns = [
    lambda x: x + 1,
    lambda x: (x + 1, x * 2),
    lambda x: [x + 1, [x * 2, (x - 1,)]],
    lambda x: {'a': x + 1, 3: x * 2, None: 'text'},
    lambda x: collections.OrderedDict(a=x + 1),
    lambda x: Pair(x + 1, {'b': x * 2}),
    lambda x: Out(x + 1, [x * 2]),
    lambda x: torch.max(x.reshape(2, 2), dim=1),
    lambda x: (x + 1, None, True, 3, 2.5, 'a', torch.float64, x.shape,
               float('nan'), -0.0),
    lambda x: (x + 1).t(),
    lambda x: torch.split(x * 2, 2),
    lambda x: (x * 2).unbind(),
    lambda x: x.double() > 0,
    lambda x: x.sum(),
]
for i, fn in enumerate(fns):
    both(fn, some(12, 4), 5)
assert tjit.jit(fns[6])(torch.ones(4)).extra == 3

# Nothing is returned.
def nothing(x):
    x.mul_(2)
fast = tjit.jit(nothing)
for _ in range(12):
    x = torch.ones(3)
    assert fast(x) is None and x.tolist() == [2.0] * 3
assert fast.stats()['replays'] >= 6

# What is the same object stays it.
def same(x):
    y = x * 2 + held
    return y, y, y.view(2, 2), x, x[1:], held
fast = tjit.jit(same)
with torch.no_grad():
    for i in range(12):
        x = torch.randn(4)
        a, b, view, argument, part, captured = fast(x)
        assert a is b and view._base is a and argument is x
        assert part._base is x and captured is held
        y = x * 2 + held
        assert bits((a, view, part)) == bits((y, y.view(2, 2), x[1:]))
assert fast.stats()['replays'] >= 6, fast.stats()
fast = tjit.jit(lambda x: x.add_(1))
for i in range(24):
    x = torch.ones(2)
    if i % 2:
        x = torch.nn.Parameter(x, requires_grad=False)
    assert fast(x) is x and x.tolist() == [2.0, 2.0]
assert fast.stats()['replays'] >= 12
fast.reset()
assert all(fast(x) is x for x, in some(12, 4))

# Each call has its own result: the caller may change it, and keep it.
fast = tjit.jit(lambda x: {'a': [x + 1], 'b': {}})
kept = []
for i in range(20):
    out = fast(torch.full((3,), float(i)))
    assert out['b'] == {} and len(out['a']) == 1
    out['b']['mine'] = 1
    out['a'].append(2)
    kept.append(out['a'][0].mul_(2))
assert [k.tolist() for k in kept] == [[2.0 * (i + 1)] * 3 for i in range(20)]
assert fast.stats()['replays'] >= 12

# A result is the next argument.
def step(x):
    return torch.tanh(x * 1.5) + 0.25
fast = tjit.jit(step)
x = y = torch.randn(16)
for i in range(40):
    x = fast(x)
    with tjit.Pause():
        y = step(y)
assert bits(x) == bits(y) and fast.stats()['replays'] >= 25

# A number that is returned follows.
both(lambda x, dt: (x * dt, dt), [(x, float(i // 8)) for i, (x,) in
                                  enumerate(some(80, 3))], 10)
"""

MODULES = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 5)
        self.norm = torch.nn.BatchNorm1d(5)
        self.drop = torch.nn.Dropout(0.5)
        self.none = None
    def forward(self, x):
        return self.drop(self.norm(self.first(x)).relu())

class Holder:
    def __init__(self, net):
        self.net = net
    def run(self, x):
        return self.net(x)

net = Net()
def named(x):
    return net(x)
def around():
    inner = net
    return lambda x: inner(x)

# The mode of a module counts, and that of modules in it, however it is found.
torch.set_grad_enabled(False)
def helper(x):
    return [net(x) for _ in range(1)][0]
def helped(x):
    return helper(x)
for name in ('passed', 'global', 'closure', 'itself', 'method', 'attribute',
             'decorated', 'helped', 'inside'):
    torch.manual_seed(2)
    net = Net()
    torch.manual_seed(2)
    twin = Net()
    fn = {'passed': lambda x, m: m(x), 'global': named, 'closure': around(),
          'itself': net, 'method': net.forward, 'helped': helped,
          'decorated': torch.no_grad()(named), 'inside': tjit.jit(named),
          'attribute': Holder(net).run}[name]
    fast = tjit.jit(fn)
    for i in range(96):
        for one in (net, twin):
            one.train(i // 12 % 2 == 0)
            if i >= 48:
                one.drop.train(i // 12 % 2 == 1)
        x, state = torch.randn(3, 6), torch.get_rng_state()
        mine = fast(x, net) if name == 'passed' else fast(x)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        with tjit.Pause():
            right = twin(x)
        assert bits(mine) == bits(right), (name, i)
        assert bits([*net.buffers()]) == bits([*twin.buffers()]), (name, i)
        assert torch.equal(after, torch.get_rng_state()), (name, i)
    did = fast.stats()
    assert did['replays'] >= 50 and did['plans'] == 4, (name, did)
    assert did['not_same'] == 0, (name, did)

# Two modules of one class, one that has died, and a module that is replaced.
fast = tjit.jit(lambda m, x: m(x))
for i in range(40):
    a = torch.nn.Sequential(torch.nn.Linear(6, 2 + i % 2)) if i % 10 == 0 else a
    x = torch.randn(3, 6)
    assert bits(fast(a, x)) == bits(a(x)), i
    if i % 10 == 4:
        a[0] = torch.nn.Linear(6, 7)
assert fast.stats()['replays'] >= 4, fast.stats()
gone = weakref.ref(a)
del a
gc.collect()
assert gone() is None

# Dropout and draws, and the generator is where eager leaves it.
fast = tjit.jit(lambda x: F.dropout(x, 0.3) + torch.rand(5) + torch.randn(5))
for i in range(16):
    x, state = torch.randn(5), torch.get_rng_state()
    a, after = fast(x), torch.get_rng_state()
    torch.set_rng_state(state)
    with tjit.Pause():
        b = fast.__wrapped__(x)
    assert bits(a) == bits(b) and torch.equal(after, torch.get_rng_state())
assert fast.stats()['replays'] >= 8, fast.stats()

# Indices, and eager's error where one is out of range.
table = torch.randn(10, 4)
classes = torch.nn.Linear(4, 3)
def look_up(i, y):
    rows = F.embedding(i, table)
    return F.cross_entropy(classes(rows), y), rows
fast = tjit.jit(look_up)
for n in range(16):
    i, y = torch.randint(10, (6,)), torch.randint(3, (6,))
    with tjit.Pause():
        right = look_up(i, y)
    assert bits(fast(i, y)) == bits(right)
replays = fast.stats()['replays']
assert replays >= 8, fast.stats()
for bad in (10, -1, 1 << 40):
    i[3] = bad
    with tjit.Pause():
        try:
            look_up(i, y)
        except IndexError as error:
            text = str(error)
    refused(IndexError, lambda: fast(i, y), text)
i[3], y[2] = 0, 3
refused(IndexError, lambda: fast(i, y), 'Target 3 is out of bounds')
y[2] = 0
for n in range(12):
    assert bits(fast(i, y)) == bits(look_up(i, y))
assert fast.stats()['replays'] > replays
"""

TRAINING = """
def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1),
        torch.nn.Linear(32, 4))

def train(wrap, optimizer):
    net, loss = network(), torch.nn.CrossEntropyLoss()
    def forward_and_backward(x, y):
        value = loss(net(x), y)
        value.backward()
        return value.detach()
    fast = wrap(forward_and_backward)
    sgd = optimizer(net.parameters())
    torch.manual_seed(4)
    values = []
    for _ in range(40):
        x, y = torch.randn(8, 16), torch.randint(4, (8,))
        sgd.zero_grad()
        values.append(fast(x, y))
        sgd.step()
    return bits([values, *net.parameters(), *[p.grad for p in net.parameters()],
                 torch.get_rng_state()]), fast

for optimizer in (lambda p: torch.optim.Adam(p, lr=1e-2),
                  lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9)):
    with tjit.Pause():
        right, _ = train(lambda f: f, optimizer)
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        mine, fast = train(tjit.jit, optimizer)
        assert mine == right, threads
        assert fast.stats()['replays'] >= 25, fast.stats()
    # On a thread of its own.
    found = []
    thread = threading.Thread(
        target=lambda: found.append(train(tjit.jit, optimizer)))
    thread.start(); thread.join()
    assert found[0][0] == right and found[0][1].stats()['replays'] >= 25

# Gradients that are returned, that add up, that are not asked for.
net = network().eval()
parameters = list(net.parameters())
fast = tjit.jit(lambda x: torch.autograd.grad(net(x).sum(), parameters))
for x, in some(16, 2, 16):
    with tjit.Pause():
        right = bits(fast.__wrapped__(x))
    assert bits(fast(x)) == right
assert fast.stats()['replays'] >= 8, fast.stats()
nets = network().eval(), network().eval()
def accumulate(net):
    def backward(x):
        net(x).sum().backward()
    return backward
fast = tjit.jit(accumulate(nets[0]))
for x, in some(16, 2, 16):
    fast(x)
    with tjit.Pause():
        accumulate(nets[1])(x)
    mine, right = ([p.grad for p in net.parameters()] for net in nets)
    assert bits(mine) == bits(right)
assert fast.stats()['replays'] >= 6, fast.stats()

# Hooks for what autograd saves are called.
nets = network().eval(), network().eval()
fast, eager = tjit.jit(accumulate(nets[0]), verify_every=0), accumulate(nets[1])
seen = []
for i, (x,) in enumerate(some(24, 2, 16)):
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: (seen.append(1), t * 2)[1], lambda t: t)
    with hooks if i % 2 and i > 12 else torch.enable_grad():
        seen.clear()
        fast(x)
        mine = len(seen)
        with tjit.Pause():
            eager(x)
        assert len(seen) == 2 * mine
    mine, right = ([p.grad for p in net.parameters()] for net in nets)
    assert bits(mine) == bits(right), i
assert fast.stats()['replays'] >= 6

# A layer as strangers write it.
torch.backends.mha.set_fastpath_enabled(False)
torch.manual_seed(5)
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
for threads in (1, 2, 4):
    torch.set_num_threads(threads)
    fast = tjit.jit(lambda x: layer(x))
    with torch.no_grad():
        for x, in some(16, 4, 8, 16):
            with tjit.Pause():
                right = bits(layer(x))
            assert bits(fast(x)) == right
    assert fast.stats()['replays'] >= 8, fast.stats()
"""

REFUSALS = """
kept = []
def keep(x):
    y = x + 1
    kept.append(y)
    return y
def keep_another(x):
    y = x + 1
    kept.append(y * 2)
    return y
def keep_list(x):
    out = [x + 1]
    kept.append(out)
    return out
def keep_view(x):
    y = x + 1
    kept.append(y[1:])
    return y
class Keeper:
    def __call__(self, x):
        self.last = x + 1
        return self.last
p = torch.nn.Parameter(torch.randn(3))
def reads(x):
    return x * 2 if x.sum().item() > 0 else x * 3
def branches(x):
    return x * 2 if (x.sum() > 0) else x * 3
def prints(x):
    return x, str(x + 1)
def hosts(x):
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])[:3]
def hosts_late(x):
    t = torch.empty(2, 2)
    t.data_ptr()
    return x + t.fill_(1).sum()
def blocked(x):
    with tjit.NoJit('it counts'):
        kept.append(0)
    return x + 1
def replaces(named):
    named['x'] = named['x'] + 1
    return named['x'] * 2
def grows(xs):
    xs.append(xs[0] * 2)
    return xs[-1] + 1
for fn in (keep, keep_another, keep_list, keep_view, Keeper()):
    expect_why(fn, some(12, 3), 'jit_value_escapes')
for fn, why in ((reads, 'jit_host_read'),
                (prints, 'jit_host_read'), (hosts, 'jit_host'),
                (hosts_late, 'jit_host_read'), (blocked, 'jit_opaque_scope'),
                (lambda x: x * p, 'jit_gradients'),
                (lambda x: torch.manual_seed(1) and torch.rand(3), 'jit_')):
    expect_why(fn, some(12, 3), why)
fast = tjit.jit(branches)  # by a bool: each outcome is a way
for x, in some(80, 3):
    assert torch.equal(fast(x), branches(x))
did = fast.stats()
assert did['replays'] > 40 and did['plans'] == 2, did
def solves(a):
    m = torch.tanh(a @ a.T) + 9 * torch.eye(4)
    return torch.linalg.solve(m, a) * 2 + torch.linalg.inv(m)
fast = tjit.jit(solves)  # solvers run at the call
with torch.no_grad():
    for _ in range(40):
        a = torch.rand(4, 4)
        assert torch.equal(fast(a), solves(a))
did = fast.stats()
assert did['replays'] > 25 and did['not_same'] == 0, did
expect_why(replaces, [({'x': x},) for x, in some(12, 3)], 'jit_output_argument',
           results=False)
expect_why(grows, [([x],) for x, in some(12, 3)], 'jit_output_argument',
           results=False)
named = {'x': torch.zeros(3)}
fast = tjit.jit(replaces)
for _ in range(12):
    fast(named)
assert named['x'].tolist() == [12.0] * 3
assert len([k for k in kept if type(k) is int]) == 24

# What holds a tensor no longer does not count, and neither does a caller who
# holds results.
def lets_go(x):
    parts = {'y': x + 1}
    cycle = [parts]
    return parts['y'], [parts['y'], x]
both(lets_go, some(12, 3), 5)
results = []
fast = tjit.jit(lambda x: x + 1)
for x, in some(12, 3):
    results.append(fast(x))
assert fast.stats()['replays'] >= 6

# strict.
fast = tjit.jit(reads, strict=True, name='reader')
refused(RuntimeError, lambda: [fast(x) for x, in some(3, 3)], 'reader',
        'jit_host_read')
fast = tjit.jit(lambda x: x + 1, strict=True)
for x, in some(12, 3):
    fast(x)
assert fast.stats()['replays'] >= 6

# Exceptions pass through, and a call after them is replayed.
class Mine(Exception):
    pass
wrong = [False]
def throws(x):
    y = x * 2
    if wrong[0]:
        raise Mine('out')
    return y + 1
fast = tjit.jit(throws, verify_every=1)
for i in range(12):
    wrong[0] = i % 3 == 0
    try:
        fast(torch.ones(3))
        assert not wrong[0]
    except Mine as error:
        assert wrong[0] and str(error) == 'out'
fast, wrong[0] = tjit.jit(throws), False
for i in range(12):
    assert fast(torch.ones(3)).tolist() == [3.0] * 3
assert fast.stats()['replays'] >= 6
refused(RuntimeError, lambda: tjit.jit(lambda x: x @ x)(torch.ones(2, 3)),
        'mat1 and mat2 shapes')

# Arguments and results that cannot be.
class Sub(torch.Tensor):
    pass
f = tjit.jit(lambda x, more=None: x)
one = torch.ones(1)
for bad, words in (
        (1j, 'more of type complex'), ({1}, 'more of type set'),
        ([one, {'a': (1, object())}], "more[1]['a'][1] of type object"),
        (len, 'closure'), (one.as_subclass(Sub), 'as_subclass(torch.Tensor)'),
        ({(1, 2): one}, 'in its keys'), (torch.Generator(), 'torch')):
    refused(TypeError, lambda: f(one, bad), 'tjit.jit: <lambda>()', words)
    refused(TypeError, lambda: f(one, more=bad), words)
refused(TypeError, lambda: tjit.jit(lambda x: {'a': [{x}]})(one),
        "the result['a'][0] is of type set", 'Return tensors')
refused(TypeError, lambda: tjit.jit(lambda x: torch.nn.ReLU())(one), 'ReLU')
refused(TypeError, lambda: tjit.jit(lambda x: x)(one, 3), 'positional')
for wrong_call, words in (
        (lambda: tjit.jit(3), 'no function'),
        (lambda: tjit.jit(staticmethod(len)), '@staticmethod'),
        (lambda: tjit.jit(len, name=3), 'name must be a str'),
        (lambda: tjit.jit(len, verify_every=2.0), 'verify_every must be a int'),
        (lambda: tjit.jit(len, strict=1), 'strict must be a bool')):
    refused(TypeError, wrong_call, words)
refused(ValueError, lambda: tjit.jit(len, verify_every=-1),
        'verify_every is -1')
def generator():
    yield 1
async def coroutine():
    pass
refused(TypeError, lambda: tjit.jit(generator), 'suspended')
refused(TypeError, lambda: tjit.jit(coroutine), 'suspended')
import pickle
for copies in (copy.copy, copy.deepcopy, pickle.dumps):
    refused(TypeError, lambda: copies(f), 'cannot be pickled or copied')
"""

OBJECTS = """
class Solver:
    'Has a state for each object.'
    def __init__(self, scale):
        self.w = torch.full((3,), scale)
    @tjit.jit
    def step(self, x, dt=0.5):
        'A text.'
        return x * self.w * dt
    @tjit.jit(name='named', verify_every=0)
    def other(self, x):
        return x + self.w
    @staticmethod
    @tjit.jit
    def alone(x):
        return x + 1

a, b = Solver(2.0), Solver(3.0)
for i in range(12):
    assert a.step(torch.ones(3)).tolist() == [1.0] * 3
    assert a.step(torch.ones(3), dt=1.0).tolist() == [2.0] * 3
    if i % 2:
        assert b.step(torch.ones(3)).tolist() == [1.5] * 3
    assert Solver.alone(torch.ones(3)).tolist() == [2.0] * 3
    assert a.other(torch.ones(3)).tolist() == [3.0] * 3
assert a.step.stats()['calls'] == 24 and b.step.stats()['calls'] == 6
assert a.step.stats()['replays'] >= 10 and b.step.stats()['replays'] >= 1
assert Solver.alone.stats()['replays'] >= 5
assert a.step.__name__ == 'step' and a.step.__doc__ == 'A text.'
assert a.step.__wrapped__(torch.ones(3)).tolist() == [1.0] * 3
a.step.reset()
assert a.step.stats()['plans'] == 0 and b.step.stats()['plans'] == 1
assert 'named' in tjit.explain()
method = a.step
gone = weakref.ref(a)
del a
assert gone() is not None and method(torch.ones(3)).tolist() == [1.0] * 3
del method
gc.collect()
assert gone() is None and len(Solver.__dict__['step']._states) == 1
class Slots:
    __slots__ = ('w',)
    @tjit.jit
    def step(self, x):
        return x
refused(TypeError, lambda: Slots().step(torch.ones(1)), '__weakref__')

# A method of a module, in both modes.
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        self.line = torch.nn.Linear(4, 4)
    @tjit.jit
    def forward(self, x):
        return self.drop(self.line(x))
net = Net()
with torch.no_grad():
    for i in range(48):
        net.train(i // 12 % 2 == 0)
        x, state = torch.randn(2, 4), torch.get_rng_state()
        mine = net(x)
        torch.set_rng_state(state)
        with tjit.Pause():
            assert bits(mine) == bits(net.drop(net.line(x)))
did = net.forward.stats()
assert did['replays'] >= 24 and did['plans'] == 2, did
twin = copy.deepcopy(net)
assert twin.forward.stats()['calls'] == 0

# Two threads and one object, and each has its bits.
w = torch.randn(16, 16)
def rate(x, dt):
    return torch.tanh(x @ w) * dt + x
fast, wrong = tjit.jit(rate), []
def work(seed):
    generator = torch.Generator().manual_seed(seed)
    x = y = torch.randn(4, 16, generator=generator)
    for i in range(300):
        x = fast(x, 0.25 * (i % 3))
        with tjit.Pause():
            y = rate(y, 0.25 * (i % 3))
        if bits(x) != bits(y):
            wrong.append((seed, i))
threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong and fast.stats()['replays'] >= 900, (wrong[:3], fast.stats())

# A function that calls another one takes it in.
inner = tjit.jit(lambda x: torch.tanh(x) * 2)
def outer(x):
    return inner(x) + inner(x + 1)
fast = tjit.jit(outer)
for x, in some(12, 5):
    with tjit.Pause():
        right = bits(outer(x))
    assert bits(fast(x)) == right
assert fast.stats()['replays'] >= 6
# While it is off, and on again, and forgotten.
calls = [0]
def counted(x):
    calls[0] += 1
    return x * 3
fast = tjit.jit(counted, verify_every=0)
for i in range(8):
    fast(torch.ones(2))
assert calls[0] <= 3, calls
tjit.clear()
for i in range(8):
    assert fast(torch.ones(2)).tolist() == [3.0, 3.0]
assert 3 < calls[0] <= 7, calls
before = calls[0]
with tjit.Pause():
    for i in range(8):
        fast(torch.ones(2))
assert calls[0] == before + 8
assert tjit.wait_until_compiled()
fast(torch.ones(2))
assert calls[0] == before + 8
followed = tjit.jit(counted, follow=True)
before = calls[0]
for i in range(12):
    followed(torch.ones(2))
did = followed.stats()
assert calls[0] == before + 12 and did['replays'] == 0 and did['verified'] >= 6

# Modes that see functions of torch, and transforms, find the function.
from torch.overrides import TorchFunctionMode
class Sees(TorchFunctionMode):
    seen = 0
    def __torch_function__(self, f, kinds, args=(), kwargs=None):
        Sees.seen += 1
        return f(*args, **(kwargs or {}))
before = calls[0]
with Sees():
    fast(torch.ones(2))
assert calls[0] == before + 1 and Sees.seen >= 1
batched = torch.func.vmap(fast)(torch.ones(4, 2))
assert batched.tolist() == [[3.0, 3.0]] * 4
import torch.autograd.forward_ad as forward
with forward.dual_level():
    dual = fast(forward.make_dual(torch.ones(2), torch.ones(2)))
    assert forward.unpack_dual(dual).tangent.tolist() == [3.0, 3.0]
slope = torch.func.grad(lambda x: fast(x).sum())(torch.ones(2))
assert slope.tolist() == [3.0, 3.0]
traced = torch.jit.trace(lambda x: fast(x), (torch.ones(2),))
assert 'aten::mul' in str(traced.graph)
assert traced(torch.full((2,), 2.0)).tolist() == [6.0, 6.0]
with torch.device('meta'):
    made = tjit.jit(lambda x: torch.ones(2))(torch.ones(2))
    assert made.device.type == 'meta'
with torch.autocast('cpu', torch.bfloat16):
    assert tjit.jit(lambda x: x @ x)(torch.ones(2, 2)).dtype is torch.bfloat16

# Functions and what they were called with are let go.
class Thing:
    pass
def make():
    thing = Thing()
    def f(x):
        thing
        return {'a': x + 1}
    return tjit.jit(f), weakref.ref(thing)
fast, thing = make()
for x, in some(12, 3):
    fast(x)
x = weakref.ref(x)
assert x() is None
del fast
gc.collect()
assert thing() is None
"""

FORK = """
import os
w = torch.randn(8, 8)
fn = lambda x: torch.tanh(x @ w) + 1
fast = tjit.jit(fn)
calls = some(40, 4, 8)
for x, in calls[:12]:
    fast(x)
right = [bits(fn(x)) for x, in calls]
child = os.fork()
if child == 0:
    before = fast.stats()['replays']
    good = all(bits(fast(x)) == right[i] for i, (x,) in enumerate(calls))
    os._exit(0 if good and fast.stats()['replays'] > before + 20 else 1)
assert os.waitpid(child, 0)[1] == 0
assert [bits(fast(x)) for x, in calls] == right
"""

REGIONS = """
x = torch.linspace(0, 1, 32)
def loop(y):
    for _ in range(3):
        y = torch.tanh(y * 1.5) + 0.25
    return y
with tjit.Pause():
    right = bits(loop(x))

tjit.set_region_options('a/cold', exclude=True)
tjit.set_region_options('ops*', exclude_ops=['aten::tanh', 'myops::'],
                        threshold=3, backend='replay', shapes='exact',
                        compile=False, strict=False)
@tjit.Region('a')
def named():
    return loop(x)

assert tjit.enable(hot_threshold=3)
for i in range(20):
    with tjit.Region('a') as outer:
        y = loop(x)
        with tjit.Region('cold'):
            cold = loop(x)
    assert bits(y) == right and bits(cold) == right
    with tjit.Region('ops'):
        y = loop(x)
    assert bits(y) == right and bits(named()) == right
a, cold, ops = (tjit.region_stats(n) for n in ('a', 'a/cold', 'ops'))
assert a['entries'] == 40 and a['ops_replayed'] > 200, a
assert cold['entries'] == 20 and cold['ops_replayed'] == 0, cold
assert cold['ops_eager'] == 180, cold
assert ops['ops_replayed'] > 50 and ops['ops_eager'] >= 60, ops
assert 'aten::tanh' in ops['at_call'], ops
assert tjit.region_stats('nowhere')['entries'] == 0
assert '2 regions' in tjit.explain() or '3 regions' in tjit.explain()
# Of its thread alone, and left by an exception.
entries = []
def elsewhere():
    with tjit.Region('b'):
        loop(x)
    entries.append((tjit.region_stats('b')['entries'],
                    tjit.region_stats('a/b')['entries']))
try:
    with tjit.Region('a'):
        thread = threading.Thread(target=elsewhere)
        thread.start(); thread.join()
        raise KeyError
except KeyError:
    pass
elsewhere()
assert entries == [(1, 0), (2, 0)], entries
# A function of jit() in a region.
fast = tjit.jit(loop)
for i in range(12):
    with tjit.Region('a'):
        assert bits(fast(x)) == right
assert fast.stats()['replays'] >= 6

def entered(name):
    with tjit.Region(name):
        pass
refused(ValueError, lambda: entered(''), 'name')
refused(ValueError, lambda: entered('a*'), 'a*')
refused(TypeError, lambda: tjit.Region(3), 'name must be a str')
refused(TypeError, lambda: tjit.NoJit(3), 'why must be a str')
R = tjit.set_region_options
refused(TypeError, lambda: R('a', treshold=3), 'did you mean threshold?')
refused(TypeError, lambda: R('a', exclude_ops='aten::add'), 'list of names')
refused(TypeError, lambda: R('a', threshold='3'), 'threshold must be a int')
refused(ValueError, lambda: R('a', threshold=1), 'threshold')
refused(ValueError, lambda: R('a', shapes='some'), 'any and exact')
refused(ValueError, lambda: R('a', backend='lvm'), 'lvm')
refused(ValueError, lambda: R('a', exclude=True, exclude_ops=['aten::add']),
        'exclude')
def generator():
    yield 1
refused(TypeError, lambda: tjit.Region('a')(generator), 'with')
"""


class JitTest(PackageCase):
    def expect(self, program, imports=FIRST, on="", **options):
        done = self.run_program(
            imports + REFUSED + PRELUDE + on + program + "print('ok')\n",
            **options)
        self.assertEqual(done.stdout, "ok\n", done.stderr)
        self.assertEqual(done.stderr, "")

    ON = "assert tjit.enable(hot_threshold=3)\n"

    def expect_anyhow(self, program):
        """For functions alone, and where tjit is on for all; in any order."""
        self.expect(program)
        self.expect(program, on=self.ON)
        self.expect(program, BEHIND)

    def test_arguments(self):
        self.expect_anyhow(ARGUMENTS)

    def test_arguments_under_tjit_run(self):
        self.expect(ARGUMENTS, run=True)
        self.expect(ARGUMENTS, BEHIND, run=True)

    def test_constants(self):
        self.expect_anyhow(CONSTANTS)

    def test_results(self):
        self.expect_anyhow(RESULTS)

    def test_modules(self):
        self.expect_anyhow(MODULES)

    def test_training(self):
        self.expect_anyhow(TRAINING)

    def test_refusals(self):
        self.expect(REFUSALS)
        self.expect(REFUSALS, on=self.ON)

    def test_objects(self):
        self.expect(OBJECTS)
        self.expect(OBJECTS, on=self.ON)

    def test_fork(self):
        self.expect(FORK)
        self.expect(FORK, on=self.ON)

    def test_regions(self):
        self.expect(REGIONS)

    def test_switched_off_by_the_operator(self):
        done = self.run_program(
            FIRST + "f = tjit.jit(lambda x: x + 1)\n"
            "for i in range(9):\n    assert f(torch.ones(1)).item() == 2\n"
            "print(f.stats()['replays'])", TJIT_DISABLE="1")
        self.assertEqual(done.stdout, "0\n")


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
