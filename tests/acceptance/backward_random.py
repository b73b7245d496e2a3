"""Random graphs with hooks, custom functions, checkpoints and in-place writes,
through which random passes go: backward(), backward(inputs=), grad(), several
roots, kept graphs, hooks that throw or run passes. Everything that a program can
see of a pass is printed.

Usage: backward_random.py FIRST_SEED LAST_SEED
"""
import random
import sys

import torch
from torch.utils.checkpoint import checkpoint

SEEN = []  # what hooks and functions saw


def bits(t):
    if t is None:
        return None
    return [x.hex() for x in t.detach().double().flatten().tolist()]


class ProductAndDifference(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b, a - b

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        needs = ctx.needs_input_grad
        SEEN.append(("needs", tuple(needs)))
        return (g * b + h if needs[0] else None,
                g * a - h if needs[1] else None)


class Graph:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        torch.manual_seed(seed)
        self.leaves = [torch.randn(3, 3, requires_grad=True)
                       for _ in range(self.dice.randint(1, 4))]
        self.values = list(self.leaves)
        for number in range(self.dice.randint(1, 30)):
            op = self.dice.choice(self.OPS)
            value = op(self, self.dice.choice(self.values),
                       self.dice.choice(self.values))
            if value.requires_grad:
                self.values.append(value)
                self.add_hook(value, number)
        for leaf in self.leaves:
            if self.dice.random() < 0.2:
                leaf.register_hook(lambda g: SEEN.append(("leaf", bits(g))))
            if self.dice.random() < 0.2:
                leaf.register_post_accumulate_grad_hook(
                    lambda p: SEEN.append(("post", bits(p.grad))))

    def write_in_place(self, a, b):
        c = a * 1.5
        if self.dice.random() < 0.5:
            c[self.dice.randint(0, 2)].mul_(b.sum())
        else:
            c[:, 1].copy_(b[0])
        return c

    OPS = [
        lambda self, a, b: a + b,
        lambda self, a, b: a * b,
        lambda self, a, b: a @ b * 0.3,
        lambda self, a, b: a.tanh(),
        lambda self, a, b: ProductAndDifference.apply(a, b)[
            self.dice.randint(0, 1)],
        lambda self, a, b: sum(ProductAndDifference.apply(a, b)),
        lambda self, a, b: a.unbind(0)[1].expand(3, 3) + b,
        lambda self, a, b: torch.stack(torch.split(a, 1)[:2]
                                       + torch.split(b, 1)[:1]).view(3, 3),
        lambda self, a, b: checkpoint(lambda q: q.sin() * b, a,
                                      use_reentrant=False),
        write_in_place,
        lambda self, a, b: torch.linalg.qr(a + 3 * torch.eye(3))[
            self.dice.randint(0, 1)],
        lambda self, a, b: a.to(torch.float64).to(torch.float32),
        lambda self, a, b: a,
        lambda self, a, b: a.detach(),
    ]

    def add_hook(self, value, number):
        kind = self.dice.random()
        node = value.grad_fn
        if kind < 0.1:
            value.register_hook(
                lambda g: SEEN.append(("seen", number, bits(g))))
        elif kind < 0.2:
            value.register_hook(lambda g: g * 1.25)
        elif kind < 0.3:
            value.retain_grad()
        elif kind < 0.35 and node:
            node.register_hook(lambda inputs, outputs: SEEN.append(
                ("behind", number, len(inputs), len(outputs))))
        elif kind < 0.4 and node:
            node.register_prehook(lambda gradients: SEEN.append(
                ("before", number, [bits(g) for g in gradients])))
        elif kind < 0.43:
            value.register_hook(self.run_a_pass)
        elif kind < 0.45:
            value.register_hook(self.maybe_throw)

    @staticmethod
    def run_a_pass(gradient):
        with torch.enable_grad():
            inner = torch.ones(3, 3, requires_grad=True)
            (inner * gradient).sum().backward()
            SEEN.append(("inner", bits(inner.grad)))

    def maybe_throw(self, gradient):
        if self.dice.random() < 0.5:
            raise ValueError("thrown by a hook")

    def run_a_random_pass(self):
        dice = self.dice
        roots = [dice.choice(self.values[-4:])
                 for _ in range(dice.randint(1, 3))]
        gradients = [torch.randn_like(root) for root in roots]
        keeps = dice.random() < 0.7
        by = [dice.choice(self.values) for _ in range(dice.randint(1, 3))]
        kind = dice.random()
        try:
            if kind < 0.3:
                torch.autograd.backward(roots, gradients, retain_graph=keeps)
            elif kind < 0.5:
                torch.autograd.backward(roots, gradients, retain_graph=keeps,
                                        inputs=by)
            else:
                got = torch.autograd.grad(
                    roots, by, gradients, retain_graph=keeps,
                    create_graph=dice.random() < 0.3,
                    allow_unused=dice.random() < 0.8)
                print("got", [bits(g) for g in got],
                      [g is not None and g.requires_grad for g in got])
        except (RuntimeError, ValueError) as e:
            print(type(e).__name__, str(e).split("Exception raised")[0])
        given = [g.data_ptr() for g in gradients]
        print("leaves", [bits(leaf.grad) for leaf in self.leaves],
              [leaf.grad is not None and leaf.grad.data_ptr() in given
               for leaf in self.leaves])
        print("kept", [bits(v.grad) for v in self.values if v.retains_grad])
        print("seen", SEEN)
        SEEN.clear()


def main():
    torch.set_num_threads(1)
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print("seed", seed)
        graph = Graph(seed)
        for _ in range(graph.dice.randint(1, 4)):
            graph.run_a_random_pass()


if __name__ == "__main__":
    main()
