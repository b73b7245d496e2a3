"""Functions of tjit.jit() in Python whose results have a graph for gradients.

What it proves: with gradients=True a forward pass and the backward pass through
it are replayed, by the function's own counters, and parameters, gradients,
buffers and random numbers have eager's bits: with modules, dropout, batch norm,
results of all kinds, optimizers, hooks and penalties on gradients, whose
backward passes run the function again; with tjit on for such functions alone and
for all. Where it may not run again the error says why.

Usage: gradients_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    [unittest arguments]
"""
import sys
import unittest

from package_case import BITS, FIRST, REFUSED, PackageCase

PRELUDE = """
import collections, copy, dataclasses, gc, struct, threading, weakref
nn, F = torch.nn, torch.nn.functional
torch.set_num_threads(1)
torch.manual_seed(1)
""" + BITS + """
def descend(net, forward, steps, every=1000, kind=torch.optim.Adam):
    'What eager and a replay have to agree in. Each `every` steps there is a '
    'penalty on the gradients.'
    torch.manual_seed(3)
    seen, optimizer = [], kind(net.parameters(), lr=0.05)
    for i in range(steps):
        x = torch.randn(8, 4, requires_grad=True)
        optimizer.zero_grad()
        loss = forward(x).pow(2).mean()
        if i % every == every - 1:
            g, = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + g.pow(2).sum()
        loss.backward()
        seen += bits(loss), bits(x.grad), bits(torch.get_rng_state())
        seen += [bits(p.grad) for p in net.parameters()]
        optimizer.step()
    return seen + [bits(t) for t in net.state_dict().values()]

def both(net, least, steps=40, again=0, **options):
    'The bits of eager; `least` calls of the forward pass were replayed.'
    right = copy.deepcopy(net)
    runs = []
    net.register_forward_pre_hook(lambda *_: runs.append(1))
    fast = tjit.jit(net, gradients=True, verify_every=0)
    mine = descend(net, fast, steps, **options)
    with tjit.Pause():
        expected = descend(right, right, steps, **options)
    assert len(mine) == len(expected)
    for i, (a, b) in enumerate(zip(mine, expected)):
        assert a == b, (i, a, b)
    did = fast.stats()
    assert did['replays'] >= least and did['why'] == '', did
    assert len(runs) + did['replays'] == steps + again, (len(runs), did)
"""

NETWORKS = """
both(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)), 30)
both(nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(),
                   nn.Dropout(0.3), nn.Linear(16, 2)), 30)
both(nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(),
                   nn.Linear(16, 2)), 30, kind=torch.optim.AdamW)
# Passes of another kind run the function again.
both(nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Tanh(),
                   nn.Dropout(0.3), nn.Linear(16, 2)), 20, steps=60, again=2,
     every=25)
"""

RESULTS = """
net = nn.Linear(4, 6)

@dataclasses.dataclass
class Out:
    mean: torch.Tensor
    others: dict

def forward(x, scale):
    h = net(x).tanh() * scale
    return Out(h.mean(), {'h': h * 2, 'n': 3, 'none': None})

fast = tjit.jit(forward, gradients=True)
for i in range(40):
    x, scale = torch.randn(5, 4), 0.5 + i
    def run(function):
        out = function(x, scale)
        assert type(out) is Out and out.others['n'] == 3
        loss = out.mean + out.others['h'].pow(2).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        got = bits(out), bits(loss), [bits(p.grad) for p in net.parameters()]
        net.zero_grad()
        return got
    mine = run(fast)
    with tjit.Pause():
        assert mine == run(forward), i
did = fast.stats()
assert did['replays'] >= 24 and did['why'] == '', did

# A dict that is a dataclass, as models of transformers return.
@dataclasses.dataclass
class Output(collections.OrderedDict):
    loss: torch.Tensor = None
    hidden: torch.Tensor = None
    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

fast_output = tjit.jit(lambda x: Output(loss=net(x).sum()), gradients=True)
for i in range(12):
    out = fast_output(torch.randn(5, 4))
    assert type(out) is Output and list(out) == ['loss'] and out.hidden is None
    assert out.loss is out['loss'] and out.loss.requires_grad
    out.loss.backward()
assert fast_output.stats()['replays'] >= 4, fast_output.stats()
net.zero_grad()

# A hook of a result, and one that the caller keeps.
kept = []
for i in range(12):
    y = fast(torch.randn(5, 4), 1.0).mean
    y.register_hook(lambda g: kept.append(g.item()))
    y.backward()
assert kept == [1.0] * 12
# Without gradients it is another function.
with torch.no_grad():
    assert not fast(torch.randn(5, 4), 2.0).mean.requires_grad

# A cell in a loop, in two threads.
def train():
    torch.manual_seed(5)
    cell = nn.LSTMCell(4, 6)
    right = copy.deepcopy(cell)
    step = tjit.jit(lambda x, h, c: cell(x, (h, c)), gradients=True)
    def loss_of(function, xs):
        h, c = torch.zeros(3, 6), torch.zeros(3, 6)
        for x in xs:
            h, c = function(x, h, c)
        return h.sum()
    for i in range(30):
        xs = torch.randn(7, 3, 4)
        mine = loss_of(step, xs)
        mine.backward()
        other = loss_of(lambda x, h, c: right(x, (h, c)), xs)
        other.backward()
        assert bits(mine) == bits(other)
        for p, q in zip(cell.parameters(), right.parameters()):
            assert bits(p.grad) == bits(q.grad)
    done.append(step.stats()['replays'])

done = []
train()
assert done.pop() >= 120
threads = [threading.Thread(target=train) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
assert len(done) == 2
"""

AGAIN = """
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh())
fails = False

def forward(x, scales):
    if fails:
        raise KeyError('gone')
    return net(x) * scales[0]

def new(least=5):
    fast = tjit.jit(forward, gradients=True, verify_every=0)
    for i in range(12):
        x = torch.randn(8, 4, requires_grad=True)
        fast(x, [2.0]).sum().backward()
    assert fast.stats()['replays'] >= least, fast.stats()
    return fast

def penalty(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)

def call(fast):
    x = torch.randn(8, 4, requires_grad=True)
    before = fast.stats()['replays']
    scales = [2.0]
    y = fast(x, scales)
    assert fast.stats()['replays'] == before + 1
    return x, y, scales

fast = new()
x, y, scales = call(fast)
net.eval()
refused(RuntimeError, lambda: penalty(y, x), 'forward()', 'mode of a module')
net.train()
# The function has to live on.
del fast
refused(RuntimeError, lambda: penalty(y, x), 'it is gone')
# A list is what it was at the call.
fast = new()
x, y, scales = call(fast)
scales[0] = 3.0
right = torch.autograd.grad((net(x) * 2.0).sum(), x)[0]
assert bits(penalty(y, x)[0].detach()) == bits(right)
# What no version tells of.
fast = new()
x, y, scales = call(fast)
x.data.add_(1)
refused(RuntimeError, lambda: penalty(y, x), 'other values')
# Modes are those of the call.
fast = new()
x, y, scales = call(fast)
right = net(x) * 2.0
with torch.autocast('cpu', torch.bfloat16):
    right, = penalty(right, x)
    assert bits(penalty(y, x)[0].detach()) == bits(right.detach())
# Whether parameters ask for gradients is asked at the call.
fast = new()
for before, behind in (False, True), (True, False):
    net.requires_grad_(before)
    for i in range(8):
        x = torch.randn(8, 4, requires_grad=True)
        fast(x, [2.0]).sum().backward()
    x, y, scales = call(fast)
    net.requires_grad_(behind)
    again = fast.stats()['plans']
    y.sum().backward()
    assert fast.stats()['plans'] == again
    net.requires_grad_(True)
    net.zero_grad()

# Functions inside are run as well.
inner = tjit.jit(net, gradients=True)
outer = tjit.jit(lambda x: inner(x) * 2, gradients=True, verify_every=0)
for i in range(12):
    x = torch.randn(8, 4, requires_grad=True)
    inner(x).sum().backward()
    outer(x).sum().backward()
y = outer(x)
right = torch.autograd.grad((net(x) * 2.0).sum(), x)[0]
assert bits(penalty(y, x)[0].detach()) == bits(right)

# A graph holds neither the function nor what tensors are passed in.
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

holder = Holder()
seen = weakref.ref(holder)
fast = tjit.jit(lambda x, m: m.inner(x).tanh(), gradients=True)
for i in range(12):
    x = torch.randn(8, 4)
    y = fast(x, holder)
    y.sum().backward()
assert fast.stats()['replays'] >= 4
holder.last = fast(x, holder)
del holder, fast, y
gc.collect()
assert seen() is None
fast = new()
x, y, scales = call(fast)
fails = True
refused(RuntimeError, lambda: penalty(y, x), "raises KeyError: 'gone'")
fails = False
fast = new()
x, y, scales = call(fast)
with torch.no_grad():
    x.add_(1)
refused(RuntimeError, lambda: penalty(y, x), 'modified by an inplace operation')
fast = new()
x, y, scales = call(fast)
y.sum().backward()
refused(RuntimeError, lambda: y.sum().backward(), 'a second time')

# What the function keeps.
kept = []
def keeps(x):
    kept.append(net(x) * 2)
    return kept[-1]
fast = tjit.jit(keeps, gradients=True)
for i in range(12):
    fast(torch.randn(8, 4)).sum().backward()
did = fast.stats()
assert did['replays'] == 0 and did['why'].startswith('jit_value_escapes'), did

# It reads what it writes.
count = torch.zeros(())
def counts(x):
    count.add_(1)
    return net(x) * count
fast = tjit.jit(counts, gradients=True)
for i in range(12):
    fast(torch.randn(8, 4)).sum().backward()
did = fast.stats()
assert did['replays'] == 0 and did['why'].startswith('jit_graph_once'), did

# Without the option.
fast = tjit.jit(lambda x: net(x))
for i in range(4):
    fast(torch.randn(8, 4)).sum().backward()
assert fast.stats()['why'].startswith('jit_gradients'), fast.stats()
refused(TypeError, lambda: tjit.jit(forward, gradients=1), 'gradients', 'bool')
"""


class GradientsTest(PackageCase):
    def expect(self, program):
        """For functions alone, and where tjit is on for all."""
        for on in "", "assert tjit.enable(hot_threshold=3)\n":
            done = self.run_program(
                FIRST + REFUSED + PRELUDE + on + program + "print('ok')\n")
            self.assertEqual(done.stdout, "ok\n", done.stderr)
            self.assertEqual(done.stderr, "")

    def test_networks(self):
        self.expect(NETWORKS)

    def test_results(self):
        self.expect(RESULTS)

    def test_running_again(self):
        self.expect(AGAIN)


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
