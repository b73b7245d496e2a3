#!/usr/bin/env python3
"""Rows W in Python: programs after the habits of ordinary users of torch.

How: a program is a function that makes what a script makes before its loop and
returns the body of the loop and what it changes. bench/run.py runs this file
alone and under `tjit run`. One program a process: warm-up, a hash of the
results, then repetitions that are timed. It prints what Google Benchmark prints
of a row in C++. It knows nothing of tjit.

  bench/habits.py --list
  bench/habits.py actor-critic [--warm_up=N] [--steps=N] [--repetitions=N]
"""
import argparse
import array
import ctypes
import hashlib
import json
import math
import random
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PARTS = 16  # of the warm-up, each timed


def mlp(*widths, between=nn.ReLU):
    """Linear layers with a function between them."""
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += ([between()] if i else []) + [nn.Linear(a, b)]
    return nn.Sequential(*layers)


def shuffled_classifier():
    """Images in one tensor; the loader stacks rows in a new order each time."""
    labels = torch.randint(10, (1024,))
    images = 0.5 * torch.rand(1024, 1, 28, 28)
    images[torch.arange(1024), 0, 4 + 2 * labels] += 0.5
    loader = DataLoader(TensorDataset(images, labels), batch_size=16,
                        shuffle=True)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 16, 3),
        nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)

    def batches():
        while True:
            yield from loader

    stream, losses, count = batches(), [], 0

    def step():
        nonlocal count
        x, y = next(stream)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        count += 1
        if count % 10 == 0:
            losses[:] = [loss.item()]

    return step, lambda: [*net.parameters(), torch.tensor(losses)]


def buffer_regression():
    """A batch is written into a buffer of the host, which a tensor shares."""
    batch, inputs = 64, 8
    buffer = array.array("f", bytes(4 * batch * inputs))
    wanted = array.array("f", bytes(4 * batch))
    x = torch.frombuffer(buffer, dtype=torch.float32).view(batch, inputs)
    y = torch.frombuffer(wanted, dtype=torch.float32).view(batch, 1)
    draw = random.Random(1)
    net = mlp(inputs, 64, 64, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    last = [None]

    def step():
        for i in range(batch):
            values = [draw.random() for _ in range(inputs)]
            buffer[i * inputs:(i + 1) * inputs] = array.array("f", values)
            wanted[i] = sum(v * v for v in values)
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*net.parameters(), *last]


def static_cache():
    """A decoder's layer: a key and a value go to their place, all are read."""
    width, heads, places, words = 64, 4, 64, 128
    head = width // heads
    embed, out = nn.Embedding(words, width), nn.Linear(width, words)
    qkv, mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
    norms = nn.LayerNorm(width), nn.LayerNorm(width)
    net = mlp(width, 4 * width, width, between=nn.GELU)
    keys = torch.zeros(heads, places, head)
    values = torch.zeros(heads, places, head)
    indices = torch.arange(places)
    place, token, logits = 0, 1, None

    @torch.no_grad()
    def step():
        nonlocal place, token, logits
        x = embed(torch.tensor([token]))
        q, k, v = qkv(norms[0](x)).view(3, heads, head).unbind(0)
        keys.select(1, place).copy_(k)
        values.select(1, place).copy_(v)
        scores = q.unsqueeze(1) @ keys.transpose(1, 2) / math.sqrt(head)
        scores = scores.masked_fill(indices > place, -1e9)
        x = x + mix((scores.softmax(-1) @ values).reshape(1, -1))
        x = x + net(norms[1](x))
        logits = out(x).squeeze(0)
        token = logits.argmax().item()
        place = (place + 1) % places

    return step, lambda: [logits, torch.tensor([token]), keys, values]


def lstm_lengths():
    """An LSTM cell in a loop, over sequences of 5 to 40 places."""
    draw = random.Random(1)
    cell, dense = nn.LSTMCell(8, 32), nn.Linear(32, 1)
    parameters = [*cell.parameters(), *dense.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    last = [None]

    def step():
        length = draw.randint(5, 40)
        x = torch.randn(length, 16, 8)
        h, c = torch.zeros(16, 32), torch.zeros(16, 32)
        optimizer.zero_grad()
        for t in range(length):
            h, c = cell(x[t], (h, c))
        loss = F.mse_loss(dense(h), x.mean((0, 2)).unsqueeze(1))
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*parameters, *last]


class CartPole:
    """A cart with a pole on it in gusts of wind, by Euler's method."""

    def __init__(self, draw):
        self.draw = draw
        self.state = [draw.uniform(-0.05, 0.05) for _ in range(4)]

    def push(self, action):
        """False once the pole has fallen or the cart is out of bounds."""
        x, speed, angle, turning = self.state
        force = (10.0 if action == 1 else -10.0) + self.draw.uniform(-15, 15)
        cosine, sine = math.cos(angle), math.sin(angle)
        pull = (force + 0.05 * turning * turning * sine) / 1.1
        turn = (9.8 * sine - cosine * pull) / (
            0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        push = pull - 0.05 * turn * cosine / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * push,
                      angle + 0.02 * turning, turning + 0.02 * turn]
        return abs(self.state[0]) < 2.4 and abs(self.state[2]) < 0.21


def actor_critic():
    """A step is an episode, as long as the pole stands, and its lesson."""
    draw = random.Random(1)
    shared, act, value = nn.Linear(4, 64), nn.Linear(64, 2), nn.Linear(64, 1)
    parameters = [p for m in (shared, act, value) for p in m.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    last = [None]

    def step():
        world, stands, chosen, values = CartPole(draw), True, [], []
        while stands and len(chosen) < 40:
            x = torch.relu(shared(torch.tensor(world.state)))
            choice = torch.distributions.Categorical(act(x).softmax(-1))
            action = choice.sample()
            chosen.append(choice.log_prob(action))
            values.append(value(x))
            stands = world.push(action.item())
        returns, total = [], 0.0
        for _ in chosen:
            total = 1.0 + 0.99 * total
            returns.insert(0, total)
        worth = torch.tensor(returns)
        worth = (worth - worth.mean()) / (worth.std() + 1e-6)
        expected = torch.cat(values)
        advantage = worth - expected.detach()
        loss = (-(torch.stack(chosen) * advantage).sum() +
                F.smooth_l1_loss(expected, worth, reduction="sum"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*parameters, *last]


def graph_convolution():
    """Messages along the edges of eight graphs that are drawn."""
    draw, features = random.Random(1), 16
    graphs = []
    for _ in range(64):
        count = draw.randint(8, 24)
        edges = [(i, j) for i in range(count)
                 for j in (i, draw.randrange(count), draw.randrange(count))]
        nodes = torch.randn(count, features)
        graphs.append((nodes, torch.tensor(edges).t().contiguous(),
                       nodes.square().mean().view(1, 1)))
    layers = nn.ModuleList([nn.Linear(features, 32), nn.Linear(32, 32)])
    head = nn.Linear(32, 1)
    parameters = [*layers.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    last = [None]

    def draw_batch():
        chosen, offset, edges, of = draw.choices(graphs, k=8), 0, [], []
        for number, (nodes, some, _) in enumerate(chosen):
            edges.append(some + offset)
            of.append(torch.full((len(nodes),), number))
            offset += len(nodes)
        return (torch.cat([g[0] for g in chosen]), torch.cat(edges, 1),
                torch.cat(of), torch.cat([g[2] for g in chosen]))

    def step():
        x, (source, target), of, y = draw_batch()
        degree = torch.zeros(len(x)).scatter_add_(
            0, target, torch.ones(len(target)))
        scale = degree.clamp(min=1).pow(-0.5)
        weight = (scale[source] * scale[target]).unsqueeze(1)
        for layer in layers:
            messages = layer(x)[source] * weight
            index = target.unsqueeze(1).expand_as(messages)
            x = torch.relu(torch.zeros(len(x), 32).scatter_add_(
                0, index, messages))
        sums = torch.zeros(8, 32).index_add_(0, of, x)
        mean = sums / torch.bincount(of, minlength=8).unsqueeze(1)
        loss = F.mse_loss(head(mean), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*parameters, *last]


def energy_forces():
    """Energy of pairs of neighbours; its gradient is part of the loss."""
    atoms, reach = 16, 2.0
    frames = [3.0 * torch.rand(atoms, 3) for _ in range(64)]
    centres = torch.linspace(0, reach, 12)
    net = mlp(12, 32, 32, 1, between=nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    count, last = 0, [None]

    def step():
        nonlocal count
        frame = frames[count % len(frames)]
        count += 1
        apart = torch.cdist(frame, frame) + 9 * torch.eye(atoms)
        first, second = (apart < reach).nonzero().unbind(1)
        place = frame.clone().requires_grad_()
        distance = ((place[first] - place[second]).square().sum(1) +
                    1e-9).sqrt()
        fade = 0.5 * (torch.cos(distance * (math.pi / reach)) + 1)
        basis = torch.exp(-8 * (distance.unsqueeze(1) - centres).square())
        pairs = net(basis).squeeze(1) * fade
        energy = torch.zeros(atoms).index_add(0, first, pairs).sum()
        forces, = torch.autograd.grad(-energy, place, create_graph=True)
        loss = (0.01 * (energy - frame.square().sum()).square() +
                F.mse_loss(forces, -2 * frame))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*net.parameters(), *last]


def experts():
    """Each token goes to two of four experts, by index."""
    gate = nn.Linear(32, 4)
    nets = nn.ModuleList(mlp(32, 64, 32, between=nn.GELU) for _ in range(4))
    parameters = [*gate.parameters(), *nets.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    last = [None]

    def step():
        x = torch.randn(64, 32)
        weights, chosen = gate(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for number, net in enumerate(nets):
            token, slot = torch.where(chosen == number)
            if len(token):
                out.index_add_(0, token, net(x[token]) *
                               weights[token, slot].unsqueeze(1))
        loss = F.mse_loss(x + out, torch.sin(2 * x).roll(1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [*parameters, *last]


def exact_process():
    """A Gaussian process with a jitter from the host in each step."""
    x = 4 * torch.rand(64, 2)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(64, 1)
    length, scale = (nn.Parameter(torch.zeros(1)) for _ in range(2))
    noise = nn.Parameter(torch.full((1,), -2.0))
    optimizer = torch.optim.Adam([length, scale, noise], lr=1e-3)
    last = [None]

    def step():
        z = x / length.exp()
        norms = z.square().sum(1)
        squares = norms.unsqueeze(1) + norms - 2 * z @ z.t()
        kernel = scale.exp() * torch.exp(-0.5 * squares.clamp(min=0))
        jitter = torch.tensor(1e-4)
        factor = torch.linalg.cholesky(
            kernel + (noise.exp() + jitter) * torch.eye(64))
        solved = torch.cholesky_solve(y, factor)
        loss = (torch.tensor(0.5) * (y * solved).sum() +
                factor.diagonal().log().sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[0] = loss

    return step, lambda: [length, scale, noise, *last]


def adversaries():
    """Two nets and two optimizers."""
    make = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(),
                         nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
                         nn.Linear(64, 2))
    judge = mlp(2, 64, 64, 1, between=lambda: nn.LeakyReLU(0.2))
    makes, judges = (torch.optim.Adam(m.parameters(), 2e-4, betas=(0.5, 0.999))
                     for m in (make, judge))
    wanted = F.binary_cross_entropy_with_logits
    last = [None, None]

    def step():
        angle = math.pi * torch.rand(64)
        real = torch.stack([angle.cos(), angle.sin()], 1)
        fake = make(torch.randn(64, 16))
        judges.zero_grad()
        loss = (wanted(judge(real), torch.full((64, 1), 0.9)) +
                wanted(judge(fake.detach()), torch.zeros(64, 1)))
        loss.backward()
        judges.step()
        makes.zero_grad()
        other = wanted(judge(fake), torch.ones(64, 1))
        other.backward()
        makes.step()
        last[:] = [loss, other]

    return step, lambda: [*make.parameters(), *judge.parameters(), *last]


# name: the program, its steps of warm-up and of a repetition.
PROGRAMS = {
    "shuffled-classifier": (shuffled_classifier, 1024, 128),
    "buffer-regression": (buffer_regression, 2000, 300),
    "static-cache": (static_cache, 4096, 640),
    "lstm-lengths": (lstm_lengths, 300, 50),
    "actor-critic": (actor_critic, 300, 50),
    "graph-convolution": (graph_convolution, 1200, 200),
    "energy-forces": (energy_forces, 1280, 192),
    "experts": (experts, 800, 120),
    "exact-process": (exact_process, 2000, 300),
    "adversaries": (adversaries, 1000, 150),
}


def bits_of(tensors):
    """A hash of the bytes of all tensors."""
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        # An op for each byte is what bytes(storage) would take.
        found.update(ctypes.string_at(copy.data_ptr(), copy.nbytes))
    return f"bits={found.hexdigest()}"


def run(name, options):
    """What Google Benchmark prints of a row, as a dictionary."""
    make, warm_up, steps = PROGRAMS[name]
    warm_up = warm_up if options.warm_up is None else options.warm_up
    steps = steps if options.steps is None else options.steps
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    step, result = make()
    parts = {}
    for part in range(1, PARTS + 1):
        began = time.perf_counter()
        for _ in range(warm_up * (part - 1) // PARTS, warm_up * part // PARTS):
            step()
        parts[f"part{part:02}_ms"] = 1e3 * (time.perf_counter() - began)
    bits = bits_of(result())
    records = []
    for _ in range(options.repetitions):
        began = time.perf_counter()
        for _ in range(steps):
            step()
        took = 1e6 * (time.perf_counter() - began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        records.append({
            "name": f"rowW/py/{name}", "run_type": "iteration",
            "real_time": took / max(steps, 1), "label": bits,
            "peak_mb": peak, "warm_up_ms": sum(parts.values()), **parts})
    return {"context": {"libtorch": torch.__version__,
                        "compiler": f"Python {sys.version.split()[0]}"},
            "benchmarks": records}


def main():
    """Runs what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(PROGRAMS))
    parser.add_argument("--list", action="store_true",
                        help="print the names of the programs")
    parser.add_argument("--warm_up", type=int,
                        help="steps before the results are hashed")
    parser.add_argument("--steps", type=int, help="steps of a repetition")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    if options.list:
        print("\n".join(PROGRAMS))
    elif options.name is None:
        parser.error("which program? See --list")
    else:
        print(json.dumps(run(options.name, options)))


if __name__ == "__main__":
    main()
