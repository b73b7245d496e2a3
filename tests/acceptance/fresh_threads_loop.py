"""Each typed op in a loop: on the main thread, on a new thread, on four.

Prints a line an op: its name and "same", what differs, or why it was not
called. Each op has a process of its own: arguments are found by trying, and some
ops crash on what does not fit; an alarm ends what hangs. fresh_threads_test.py
runs it under `tjit run`.

usage: fresh_threads_loop.py THREADS OP...   (as at::_ops names them)
"""

import os
import resource
import signal
import sys
import threading
import time

import torch

TOO_SLOW_S = 0.005  # for a call of the loops
HANGS_S = 40
MOST_BYTES = 6 << 30  # of a process: some arguments ask for more than there is

SHAPES = ((300, 300), (4, 8, 40, 40), (2, 3, 16, 24, 24), (4, 8, 2000),
          (100000,), (24, 32, 32), (6, 6))
TYPES = (torch.float32, torch.float64, torch.int64, torch.bool)


def tensor(shape, dtype, seed):
    """A tensor that most ops take: positive, small, few different integers."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(shape, generator=generator)
    if dtype.is_floating_point:
        return made.to(dtype) * 0.9 + 0.05
    return (made * 5).to(dtype)


def value_for(argument, shape, dtype, seed):
    """An argument of a schema, or None where it has a default."""
    kind = str(argument.type)
    name = argument.name
    if kind == "Tensor" or kind == "Optional[Tensor]":
        if kind != "Tensor" and argument.has_default_value():
            return None
        if name in ("index", "indices", "target") and dtype.is_floating_point:
            return tensor(shape, torch.int64, seed)
        if name in ("mask", "condition"):
            return tensor(shape, torch.bool, seed)
        return tensor(shape, dtype, seed)
    if argument.has_default_value() and argument.default_value is not None:
        return argument.default_value
    if kind.startswith("Optional"):
        return None
    if kind == "List[Tensor]":
        return [tensor(shape, dtype, seed), tensor(shape, dtype, seed + 1)]
    if kind in ("number", "float"):
        return 0.5 if dtype.is_floating_point else 2
    if kind == "bool":
        return False
    if kind == "str":
        return "sum" if name == "reduce" else "none"
    if kind == "List[int]":
        spatial = max(1, len(shape) - 2)
        if name == "dim":
            return [0]
        if name in ("padding",):
            return [1] * (2 * spatial)
        if name == "repeats":
            return [2] * len(shape)
        if name in ("stride", "dilation", "kernel_size", "output_size"):
            return [2] * spatial
        return list(shape)
    if kind == "int":
        return {"reduction": 1, "diagonal": 0, "groups": 1}.get(name, 1)
    if kind == "List[bool]":
        return [True] * 3
    raise TypeError(f"no value for {kind} {name}")


def candidates(op):
    for dtype in TYPES:
        for shape in SHAPES:
            try:
                yield [value_for(a, shape, dtype, 3 * i)
                       for i, a in enumerate(op._schema.arguments)
                       if not a.kwarg_only], {
                           a.name: value_for(a, shape, dtype, 50 + i)
                           for i, a in enumerate(op._schema.arguments)
                           if a.kwarg_only}
            except TypeError:
                return


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
        return [v.clone() for v in value]
    return value


def call(op, args, kwargs):
    writes = op._schema.is_mutable
    if writes:
        args = [copied(a) for a in args]
        kwargs = {k: copied(v) for k, v in kwargs.items()}
    torch.manual_seed(0)
    result = op(*args, **kwargs)
    if isinstance(result, (tuple, list)):
        result = next((r for r in result if isinstance(r, torch.Tensor)), None)
    if not isinstance(result, torch.Tensor):
        return repr(result)
    if result.is_complex():
        result = torch.view_as_real(result)
    folded = (result * 1).to(torch.float64).sum(0)
    return repr(folded.sum().item())


def works(op, args, kwargs):
    try:
        began = time.perf_counter()
        call(op, args, kwargs)
        return time.perf_counter() - began < TOO_SLOW_S
    except Exception:  # pylint: disable=broad-except
        return False


def check(name):
    base, _, overload = name.rpartition(".")
    op = getattr(getattr(torch.ops.aten, base), overload)
    found = next(((a, k) for a, k in candidates(op) if works(op, a, k)), None)
    if found is None:
        return "not called: no arguments fit"
    args, kwargs = found
    expected = call(op, args, kwargs)
    seen = []

    def work(times):
        for _ in range(times):
            try:
                seen.append(call(op, args, kwargs))
            except Exception as error:  # pylint: disable=broad-except
                seen.append(str(error))

    work(12)
    for count in (1, 4):
        threads = [threading.Thread(target=work, args=(12,))
                   for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # torch.manual_seed() is the process's: threads draw beside one another.
    others = {s for s in seen if s != expected}
    if others and torch.Tag.nondeterministic_seeded not in op.tags:
        return f"differs: {expected} and {sorted(others)[0]}"
    return "same"


def main():
    for name in sys.argv[2:]:
        child = os.fork()
        if child == 0:
            signal.alarm(HANGS_S)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            torch.set_num_threads(int(sys.argv[1]))
            print(name, check(name), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            what = "hangs" if number == signal.SIGALRM else "crashes"
            print(name, what, number, flush=True)


main()
