"""What a row is to its peers: tensors, functions and the order of the calls.

A row is the same program as the row of the C++ suite that has its name. Its
mathematics stands once, over the functions that ops_torch and ops_jax share, so
all peers compute the same. Tensors are torch's, with the seeds of the C++ row.
"""
from dataclasses import dataclass, field
from typing import Callable

import torch

# The largest accepted distance from eager's result, as a share of its norm.
TOLERANCES = {torch.bfloat16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-9}


@dataclass(frozen=True)
class Call:
    """One call of a compiled function."""
    function: str
    inputs: tuple


@dataclass
class Training:
    """What a program with an optimizer of its own needs beside the state."""
    parameters: int  # the first tensors of the state
    loss: Callable  # (ops, parameters, inputs, count of steps) -> scalar
    rule: str  # "sgd", "adam" or "adamw"


@dataclass
class Row:
    """A function is called as f(ops, state, weights, inputs) and returns the
    new state and its outputs. Calls go round the schedule."""
    schedule: list
    functions: dict
    state: tuple = ()
    # Constant over all calls: a compiler may rearrange them.
    weights: tuple = ()
    calls_per_step: int = 1
    # Steps of the C++ row after which results are compared.
    check_steps: int = 3
    # A function may overwrite the state that it is given.
    in_place: bool = False
    # All calls are of one function, and a compiler of loops may have them all.
    is_loop: bool = False
    # Draws random numbers of its own: only outputs can be compared, loosely.
    is_random: bool = False
    # Of the change of the state, see difference().
    state_tolerance: float = 1e-4
    training: Training | None = None
    # What the C++ row has as results: (state, last outputs by function).
    results: Callable = field(
        default=lambda state, last: [t for out in last.values() for t in out])


def function(inputs, compute, **more):
    """The row of a function of its inputs and weights, without a state."""
    return Row([Call("step", tuple(inputs))], {
        "step": lambda ops, state, weights, inputs:
            (state, compute(ops, *inputs, *weights))}, **more)


def uniform(sizes, seed):
    """As Uniform() of workloads.cpp."""
    return torch.rand(sizes, generator=torch.Generator().manual_seed(seed))


def weight(sizes, seed):
    """As Weight() of workloads_dense.cpp."""
    return (uniform(sizes, seed) - 0.5) * (2 / sizes[-1]**0.5)


def doubles(sizes, seed):
    """As Doubles() of workloads_science.cpp."""
    return uniform(sizes, seed).double()


def norm_of(tensors):
    """Of all elements of all tensors."""
    return sum(float(t.double().square().sum()) for t in tensors)**0.5


def difference(row, got, expected):
    """A sentence that says how `got` is wrong, or None.

    Both are lists as row.results() gives them. Parameters are compared by their
    change since the start: a wrong optimizer changes them as little as a right
    one.
    """
    count = row.training.parameters if row.training else 0
    tensors = (*row.state, *row.weights, *row.schedule[0].inputs)
    tolerance = 0.1 if row.is_random else max(
        TOLERANCES.get(t.dtype, 0) for t in tensors)
    parts = []
    if count and not row.is_random:
        start = row.state[:count]
        parts.append(("the parameters", got[:count], expected[:count],
                      [e - s for e, s in zip(expected, start)],
                      row.state_tolerance))
    for at in range(count, len(expected)):
        parts.append((f"result {at}", [got[at]], [expected[at]],
                      [expected[at]], tolerance))
    for name, ours, theirs, scale, tolerance in parts:
        shapes = [[tuple(t.shape) for t in ts] for ts in (ours, theirs)]
        if shapes[0] != shapes[1]:
            return f"{name}: sizes {shapes[0]}, eager has {shapes[1]}"
        apart = norm_of([a.double() - b.double()
                         for a, b in zip(ours, theirs)])
        if not apart <= tolerance * norm_of(scale):  # NaN is wrong, too
            return (f"{name}: {apart:.3g} apart from eager's, more than "
                    f"{tolerance:g} of {norm_of(scale):.3g}")
    return None
