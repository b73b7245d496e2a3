"""Rows 1 to 8: bench/workloads_inference.cpp, bench/workloads_kernels.cpp."""
from .row import function, uniform


def chain10(n):
    def compute(ops, a, b):
        del ops
        x = a + b
        x = x * b
        x = x - a
        x = x + a
        x = x * a
        x = x - b
        x = x + b
        x = x * b
        x = x - a
        return (x + b,)
    return function((uniform((n,), 1), uniform((n,), 2)), compute)


def add4():
    def compute(ops, a, b):
        del ops
        c = a + b
        d = c + b
        e = d + c
        return (a + e,)
    return function((uniform((100, 100), 1), uniform((100, 100), 2)), compute)


def poly():
    def compute(ops, a, b, c):
        return (a * b + c + ops.log(a + 0.1) + a**4 - b**3,)
    return function([uniform((2000, 2000), seed) for seed in (1, 2, 3)],
                    compute)


def transcendental(n):
    def compute(ops, a, b):
        return (ops.tanh(a * b + 1) * ops.sigmoid(b) + ops.exp(-a * a),)
    return function((uniform((n,), 1), uniform((n,), 2)), compute)


def bf16_gelu():
    def compute(ops, x, s, b, y):
        return (ops.gelu(x * s + b) * y,)
    return function([uniform((1024, 1024), seed).bfloat16()
                     for seed in (1, 2, 3, 4)], compute)


def softmax_mask(*sizes):
    mask = uniform(sizes[-2:], 2).gt(0.9).float().mul(-1e9)

    def compute(ops, x, mask):
        return (ops.softmax(x / 8 + mask),)
    return function((uniform(sizes, 1), mask), compute)


def norm_gelu_residual(rows):
    def compute(ops, x, scale, shift):
        return (ops.gelu(ops.layer_norm(x, scale, shift)) + x,)
    return function((uniform((rows, 768), 1), uniform((768,), 2),
                     uniform((768,), 3)), compute)


def reduce_sum():
    def compute(ops, x):
        return (ops.sum(x * x, -1),)
    return function((uniform((1024, 1024), 1),), compute)


def mean_var():
    def compute(ops, x):
        return (ops.mean(x, 0), ops.var(x, 0))
    return function((uniform((4096, 512), 1),), compute)


ROWS = {
    "chain10-64": lambda: chain10(64),
    "chain10-64k": lambda: chain10(65536),
    "chain10-4M": lambda: chain10(4194304),
    "add4": add4,
    "poly": poly,
    "transc-64k": lambda: transcendental(65536),
    "transc-1M": lambda: transcendental(1048576),
    "bf16-gelu": bf16_gelu,
    "softmax-mask-s": lambda: softmax_mask(128, 1024),
    "softmax-mask-l": lambda: softmax_mask(8, 12, 128, 128),
    "ln-gelu-res-4096": lambda: norm_gelu_residual(4096),
    "reduce-sum": reduce_sum,
    "reduce-meanvar": mean_var,
}
