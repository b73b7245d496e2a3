"""Optimizers of torch.optim as arguments of tjit.jit() in Python.

What it proves: whole training steps are replayed, by their own counters, and
losses, parameters, gradients and checkpoints are eager's bit for bit: with each
optimizer and its options, with schedules of the learning rate, checkpoints that
are loaded, parameters that come later, several optimizers. What a replay cannot
know (hooks, other classes, two steps, states that the function looks at) makes
the function run, with a reason and eager's bits.

Usage: optimizers_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    [unittest arguments]
"""
import sys
import unittest

from package_case import BEHIND, BITS, FIRST, REFUSED, PackageCase

PRELUDE = REFUSED + """
import collections, copy, dataclasses, io, pickle, struct
F, O = torch.nn.functional, torch.optim
torch.set_num_threads(1)
""" + BITS + """
def state_of(optimizer):
    saved = optimizer.state_dict()
    for state in saved['state'].values():
        for value in state.values():
            assert value is None or type(value) is torch.Tensor, type(value)
    return bits(saved['state']), repr(saved['param_groups'])

class Run:
    'A network and its optimizer; two with one seed are alike.'
    def __init__(self, make, fn, dtype=torch.float32):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
        ).to(dtype)
        self.optimizer, self.fn = make(self.net), fn
        self.last = None
    def __call__(self, x, y):
        self.last = self.fn(self.optimizer, self.net, x, y)
    def all(self):
        return (bits(self.last), [bits(p) for p in self.net.parameters()],
                [None if p.grad is None else bits(p.grad)
                 for p in self.net.parameters()], state_of(self.optimizer))

def step(optimizer, net, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()

def batch(i, dtype=torch.float32):
    torch.manual_seed(100 + i)
    return torch.randn(5, 6, dtype=dtype), torch.randint(3, (5,))

def compare(make, fn=step, between=lambda run, i: None, calls=20, least=None,
            why='', dtype=torch.float32, not_same=0, **options):
    'Each call is as eager is; `least` of them did not run fn.'
    fast = tjit.jit(fn, **options)
    mine, right = Run(make, fast, dtype), Run(make, fn, dtype)
    for i in range(calls):
        for run in (mine, right):
            between(run, i)
            if run is right:
                with tjit.Pause():
                    run(*batch(i, dtype))
            else:
                run(*batch(i, dtype))
        assert mine.all() == right.all(), (i, fast.stats())
    did = fast.stats()
    assert did['why'].startswith(why) and (why or not did['why']), did
    if why and least is None:
        assert did['replays'] == 0, did
    least = 0 if why and least is None else 8 if least is None else least
    assert did['replays'] >= least and did['not_same'] == not_same, did
    return fast
"""

KINDS = """
P = lambda kind, **o: lambda net: kind(net.parameters(), **o)
for make in (
        P(O.SGD, lr=0.1), P(O.SGD, lr=1, maximize=True),
        P(O.SGD, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
        P(O.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        P(O.SGD, lr=0.1, momentum=0.9, foreach=True),
        P(O.Adam), P(O.Adam, weight_decay=0.01, amsgrad=True),
        P(O.Adam, maximize=True, betas=(0.0, 0.9)),
        P(O.AdamW, lr=0.01), P(O.AdamW, amsgrad=True, weight_decay=0),
        P(O.AdamW, maximize=True, eps=1e-3, weight_decay=0.3),
        P(O.RMSprop), P(O.RMSprop, momentum=0.5, weight_decay=0.1),
        P(O.RMSprop, centered=True, maximize=True),
        P(O.Adagrad, lr_decay=0.1), P(O.Adagrad, weight_decay=0.1, eps=1e-5),
        P(O.Adagrad, initial_accumulator_value=0.1, maximize=True)):
    compare(make)
# Implementations that make a tensor on the host, or read the count in a kernel.
compare(P(O.Adam, foreach=True), why='jit_host_read')
compare(P(O.AdamW, fused=True), why='jit_optimizer')
# Other elements, groups, counts that no float32 has.
compare(P(O.Adam), dtype=torch.float64)
compare(lambda net: O.AdamW(
    [{'params': net[0].parameters(), 'lr': 0.1},
     {'params': net[2].parameters(), 'weight_decay': 0.0}]))
def late(run, i):
    if i == 6:
        for state in run.optimizer.state.values():
            state['step'].fill_(2.0**24 - 6)
compare(P(O.Adagrad, lr_decay=1e-7), between=late, least=6)
"""

BETWEEN = """
adam = lambda net: O.Adam(net.parameters(), lr=0.01)
# Schedules, which replace step() and write lr, also momentum and betas.
def schedule(make):
    def between(run, i):
        if i == 0:
            run.schedule = make(run.optimizer)
        else:
            run.schedule.step()
    return between
S = O.lr_scheduler
compare(adam, between=schedule(lambda o: S.StepLR(o, 5, 0.5)))
compare(adam, between=schedule(lambda o: S.ExponentialLR(o, 0.9)), least=12)
compare(adam, between=schedule(lambda o: S.CosineAnnealingLR(o, 20)), least=12)
for kind in (O.AdamW, O.SGD, O.RMSprop):
    more = {} if kind is O.AdamW else {'momentum': 0.5}
    compare(lambda net: kind(net.parameters(), lr=0.01, **more), between=
            schedule(lambda o: S.OneCycleLR(o, 0.1, 40)), least=20, calls=40)

# Checkpoints, in memory and as a file; gradients that somebody clears.
def restore(run, i):
    if i == 8:
        run.saved = copy.deepcopy((run.optimizer.state_dict(),
                                   run.net.state_dict()))
    if i == 14:
        file = io.BytesIO()
        torch.save(run.saved, file)
        file.seek(0)
        one, other = torch.load(file)
        run.optimizer.load_state_dict(one)
        if tjit.is_enabled():  # else nobody sees who writes the parameters
            run.net.load_state_dict(other)
for kind in (O.Adam, O.Adagrad, O.RMSprop):
    compare(lambda net: kind(net.parameters()), between=restore, calls=26,
            least=12)
compare(lambda net: O.SGD(net.parameters(), 0.1, 0.9), between=restore,
        calls=26, least=12)
compare(adam, between=lambda run, i: run.optimizer.zero_grad())

def save(run, i):
    if i == 8:
        torch.save(run.net.state_dict(), io.BytesIO())
compare(adam, between=save, least=12)
# Who takes an address may write whenever he likes.
def take(run, i):
    if i == 8:
        for parameter in run.net.parameters():
            parameter.data_ptr()
compare(adam, between=take, least=2, why='jit_', not_same=1)

# Parameters without memory, until the first call.
lazy = torch.nn.LazyLinear(3)
sgd = torch.optim.SGD(lazy.parameters(), lr=0.1)
@tjit.jit
def lazy_step(sgd, x):
    loss = lazy(x).square().mean()
    loss.backward()
    sgd.step()
    sgd.zero_grad()
    return loss.detach()
losses = [lazy_step(sgd, torch.ones(2, 4)).item() for _ in range(4)]
assert losses[3] < losses[0], losses

# A number of steps that somebody writes.
def rewind(run, i):
    if i in (9, 13):
        for state in run.optimizer.state.values():
            state['step'].fill_(float(i == 9))
compare(adam, between=rewind, least=12)

# Parameters that come later, and that are trained no more.
def grow(run, i):
    if i == 8:
        run.optimizer.add_param_group({'params': run.net[2].parameters()})
for kind in (O.Adam, O.Adagrad):
    compare(lambda net: kind(net[0].parameters()), between=grow, calls=26,
            least=12)
def freeze(run, i):
    if i == 8:
        run.net[0].weight.requires_grad_(False)
compare(adam, between=freeze, least=2, why='jit_')
compare(lambda net: O.SGD(net.parameters(), 0.1, 0.9), between=freeze,
        calls=26, least=8)

# Options.
def change(name, value):
    def between(run, i):
        if i == 9:
            run.optimizer.param_groups[0][name] = value
    return between
for name, value in (('weight_decay', 0.1), ('eps', 0.1), ('betas', (0.5, 0.6)),
                    ('maximize', True), ('lr', 0.5)):
    compare(adam, between=change(name, value), calls=26)
compare(adam, between=change('lr', torch.tensor(0.5)), least=2,
        why='jit_')
"""

RUNS = """
adam = lambda net: O.Adam(net.parameters(), lr=0.01)
# Hooks run at each call, while they are there.
counts = collections.Counter()
def hook(run, i):
    if i == 10:
        run.handles = [
            run.optimizer.register_step_pre_hook(
                lambda *_: counts.update([run.fn])),
            run.optimizer.register_step_post_hook(
                lambda o, *_: o.state[run.net[0].weight]['exp_avg'].mul_(0.5))]
    if i == 16:
        for handle in run.handles:
            handle.remove()
compare(adam, between=hook, calls=26, least=10)
assert sorted(counts.values()) == [6, 6], counts

# Other classes.
class Mine(O.Adam):
    def step(self, closure=None):
        self.seen = getattr(self, 'seen', 0) + 1
        return super().step(closure)
compare(lambda net: Mine(net.parameters()), why='jit_')
compare(lambda net: O.Adamax(net.parameters()), why='jit_')
compare(lambda net: O.Adam(net.parameters(), lr=torch.tensor(0.1)),
        why='jit_')

# Other than one step, or options that the function changes.
def twice(optimizer, net, x, y):
    step(optimizer, net, x, y)
    return step(optimizer, net, x, y)
compare(adam, twice, why='jit_optimizer')
def never(optimizer, net, x, y):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
compare(lambda net: O.SGD(net.parameters(), 0.1), never)
compare(lambda net: O.SGD(net.parameters(), 0.1, 0.9), twice)
def decays(optimizer, net, x, y):
    optimizer.param_groups[0]['lr'] *= 0.9
    return step(optimizer, net, x, y)
compare(adam, decays, why='jit_optimizer')

# A count that the function looks at, writes, saves or returns.
def looks(optimizer, net, x, y):
    loss = step(optimizer, net, x, y)
    return loss * optimizer.state[net[0].weight]['step']
compare(adam, looks, why='jit_')
# Also where an argument happens to be that count.
def counted(optimizer, net, x, y, count):
    loss = step(optimizer, net, x, y)
    return loss * count * optimizer.state[net[0].weight]['step']
fast = tjit.jit(counted)
rms = lambda net: O.RMSprop(net.parameters())
mine, right = Run(rms, None), Run(rms, None)
mine.fn = lambda *all: fast(*all, float(i + 1))
right.fn = lambda *all: counted(*all, float(i + 1))
for i in range(12):
    mine(*batch(i)), right(*batch(i))
    assert mine.all() == right.all(), i
did = fast.stats()
assert did['replays'] == 0 and did['why'].startswith('jit_'), did
def writes(optimizer, net, x, y):
    for state in optimizer.state.values():
        state['step'].mul_(2)
    return step(optimizer, net, x, y)
compare(adam, writes, why='jit_')
saved = []
def saves(optimizer, net, x, y):
    loss = step(optimizer, net, x, y)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copied = copy.deepcopy(optimizer.state_dict())
    saved.append((bits(torch.load(file)['state']), bits(copied['state'])))
    return loss
compare(adam, saves, why='jit_', calls=8)
assert saved[::2] == saved[1::2] and saved[0][0] == saved[0][1]
def returns(optimizer, net, x, y):
    step(optimizer, net, x, y)
    return [float(s) for s in [t['step'] for t in optimizer.state.values()]]
compare(adam, returns, why='jit_', calls=8)
def hands_on(optimizer, net, x, y):
    step(optimizer, net, x, y)
    return optimizer.state[net[0].weight]['step']
run = Run(adam, tjit.jit(hands_on))
for i in range(8):
    run(*batch(i))
    assert run.last == i + 1 and run.last.item() == i + 1
assert type(run.optimizer.state[run.net[0].weight]['step']) is torch.Tensor

# What it throws leaves the counts as eager does.
def throws(optimizer, net, x, y):
    loss = step(optimizer, net, x, y)
    if throwing[0]:
        raise KeyError('here')
    return loss
throwing = [False]
fast = tjit.jit(throws)
mine, right = Run(adam, fast), Run(adam, throws)
for i in range(16):
    throwing[0] = i in (0, 1, 3)
    for run in (mine, right):
        try:
            run(*batch(i))
        except KeyError:
            assert throwing[0]
    assert mine.all()[1:] == right.all()[1:], i
assert fast.stats()['replays'] > 5, fast.stats()
"""

DECIDES = """
# A function that decides by the count, which a replay would not look at.
from torch.optim.optimizer import _get_value
decided = []
def decides(by):
    def body(optimizer, net, x, y):
        loss = step(optimizer, net, x, y)
        if by(optimizer.state[net[0].weight]['step']):
            decided.append(by)
            for group in optimizer.param_groups:
                group['lr'] *= 0.1
        return loss
    return body
def halfway(count):
    while count.item() != 6:
        return False
    return True
for kind in (O.Adam, O.AdamW, O.RMSprop, O.Adagrad):
    for by in (lambda s: s.item() == 6, lambda s: float(s) == 6, halfway,
               lambda s: int(s) == 6, lambda s: s == 6,
               lambda s: _get_value(s) == 6):
        compare(lambda net: kind(net.parameters(), 0.01), decides(by), calls=9,
                why='jit_')
        assert decided == [by, by], decided
        decided.clear()
# One that counts by itself.
def counts(optimizer, net, x, y):
    loss = step(optimizer, net, x, y)
    optimizer.state[net[0].weight]['step'] += 1
    return loss
compare(lambda net: O.Adam(net.parameters()), counts, calls=9, why='jit_')
def counts_alone(optimizer, net, x, y):
    for state in optimizer.state.values():
        state['step'] += 1
    return x + y[0]
def made(net):
    optimizer = O.RMSprop(net.parameters())
    step(optimizer, net, *batch(0))
    return optimizer
compare(made, counts_alone, calls=9, why='jit_')
"""

MODES = """
# A mode that sees ops sees what eager calls, whatever tjit reads and counts.
from torch.utils._python_dispatch import TorchDispatchMode
class Sees(TorchDispatchMode):
    def __init__(self, fails):
        super().__init__()
        self.seen, self.fails = [], fails
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.seen.append(op)
        if op is self.fails:
            raise KeyError(str(op))
        return op(*args, **(kwargs or {}))
ops = torch.ops.aten
for kind in (O.Adam, O.RMSprop, O.Adagrad):
    for fails in (None, ops._local_scalar_dense.default, ops.add_.Tensor):
        fast = tjit.jit(step)
        mine, right = [Run(lambda net: kind(net.parameters()), f)
                       for f in (fast, step)]
        said = []
        for i in range(16):
            for run in (mine, right):
                if i not in (12, 13):
                    run(*batch(i))
                    continue
                with Sees(fails) as mode:
                    try:
                        run(*batch(i))
                    except KeyError as error:
                        mode.seen.append(str(error))
                said.append(mode.seen)
            assert mine.all() == right.all(), (kind, fails, i)
        assert said[0] == said[1] and said[2] == said[3], (kind, fails)
        assert len(said[0]) > 9, said
        assert fast.stats()['replays'] >= 4, fast.stats()

# Counts that cannot be read, or not be added to, are eager's errors.
def sparse(count):
    return count.to_sparse()
def inference(count):
    with torch.inference_mode():
        return count.clone()
def trained(count):
    return count.clone().requires_grad_()
for change, fails in ((sparse, True), (inference, True), (trained, False)):
    fast = tjit.jit(step)
    mine, right = [Run(lambda net: O.Adam(net.parameters()), f)
                   for f in (fast, step)]
    said = []
    for i in range(12):
        for run in (mine, right):
            if i == 6:
                state = run.optimizer.state[run.net[2].weight]
                state['step'] = change(state['step'])
            try:
                run(*batch(i))
            except RuntimeError as error:
                said.append(str(error))
    assert said[::2] == said[1::2] and len(said) == 12 * fails, (change, said)
    counts = [[s['step'].to_dense().item() for s in run.optimizer.state.values()]
              for run in (mine, right)]
    assert counts[0] == counts[1], (change, counts)
"""

FORMS = """
adam = lambda net: O.Adam(net.parameters(), lr=0.01)
def closes(optimizer, net, x, y):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss
    return optimizer.step(closure).detach()
compare(adam, closes)
def clips(optimizer, net, x, y):
    optimizer.zero_grad(set_to_none=False)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_value_(net.parameters(), 0.01, foreach=False)
    optimizer.step()
    return {'loss': loss.detach(), 'n': 3}
compare(adam, clips)
class Pair:
    'Two optimizers, in a list and by name; one of them twice.'
    def __init__(self, net):
        self.one = O.AdamW(net[0].parameters())
        self.two = O.SGD(net[2].parameters(), 0.1, 0.9)
    def state_dict(self):
        one, two = self.one.state_dict(), self.two.state_dict()
        return {'state': {**{('a', k): v for k, v in one['state'].items()},
                          **two['state']}, 'param_groups': 0}
def pair(all, x, y, net, more):
    for optimizer in all:
        optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    for optimizer in all:
        optimizer.step()
    return loss.detach()
fast = tjit.jit(pair)
def one(pair_of, net, x, y):
    return fast([pair_of.one, pair_of.two], x, y, net=net, more=pair_of.one)
def other(p, net, x, y):
    return pair([p.one, p.two], x, y, net, None)
mine, right = Run(Pair, one), Run(Pair, other)
for i in range(20):
    mine(*batch(i)), right(*batch(i))
    assert mine.all() == right.all(), i
assert fast.stats()['replays'] > 8, fast.stats()

# As a method, in another function, and of another object.
class Trainer:
    def __init__(self, net):
        self.net = net
    @tjit.jit
    def train(self, optimizer, x, y):
        return step(optimizer, self.net, x, y)
mine, right = Run(adam, None), Run(adam, step)
trainer = Trainer(mine.net)
mine.fn = lambda optimizer, net, x, y: trainer.train(optimizer, x, y)
for i in range(20):
    mine(*batch(i)), right(*batch(i))
    assert mine.all() == right.all(), i
assert trainer.train.stats()['replays'] > 8, trainer.train.stats()
inner = tjit.jit(step)
def outer(optimizer, net, x, y):
    return inner(optimizer, net, x, y) * 2
compare(adam, outer)
fast = tjit.jit(step)
for i in range(3):  # another optimizer is another way
    mine, right = Run(adam, fast), Run(adam, step)
    before = fast.stats()['replays']
    for k in range(14):
        mine(*batch(k)), right(*batch(k))
        assert mine.all() == right.all(), (i, k)
    assert fast.stats()['replays'] > before + 5, fast.stats()
refused(TypeError, lambda: tjit.jit(lambda o: o)(mine.optimizer), 'the result '
        'is of type torch.optim.adam.Adam')
strict = tjit.jit(lambda o, n, x, y: (step(o, n, x, y), step(o, n, x, y))[1],
                  strict=True)
def all_calls():
    run = Run(adam, strict)
    for i in range(4):
        run(*batch(i))
refused(RuntimeError, all_calls, 'is not replayed: jit_')
"""


class OptimizersTest(PackageCase):
    def expect(self, program, imports=FIRST, on="", **options):
        text = imports + PRELUDE + on + program + "print('ok')\n"
        self.assertEqual(self.out_of(text, **options), "ok\n")

    ON = "assert tjit.enable(hot_threshold=3)\n"

    def test_kinds(self):
        self.expect(KINDS)
        self.expect(KINDS, BEHIND, self.ON)

    def test_what_happens_between_calls(self):
        self.expect(BETWEEN)

    def test_between_calls_where_tjit_is_on(self):
        self.expect(BETWEEN, BEHIND, self.ON)

    def test_what_runs(self):
        self.expect(RUNS)
        self.expect(RUNS, on=self.ON)

    def test_that_decides_by_its_count(self):
        self.expect(DECIDES)

    def test_modes_that_see_ops(self):
        self.expect(MODES)

    def test_forms(self):
        self.expect(FORMS)
        self.expect(FORMS, run=True)


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
