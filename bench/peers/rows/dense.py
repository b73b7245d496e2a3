"""Rows 9 to 12: bench/workloads_inference.cpp, bench/workloads_dense.cpp."""
import torch

from .row import Call, Row, function, uniform, weight


def layers_with_relu(ops, x, w1, b1, w2, b2, w3, b3):
    """Three layers, two activations."""
    h = ops.relu(ops.linear(x, w1, b1))
    h = ops.relu(ops.linear(h, w2, b2))
    return (ops.linear(h, w3, b3),)


def mlp_tiny():
    weights = []
    for layer, (width, to) in enumerate(((16, 32), (32, 32), (32, 4))):
        weights += [uniform((to, width), 2 * layer + 2) - 0.5,
                    uniform((to,), 2 * layer + 3)]
    return function((uniform((8, 16), 1),), layers_with_relu,
                    weights=tuple(weights))


def mlp_mnist(batch):
    weights = []
    for layer, (width, to) in enumerate(((784, 512), (512, 512), (512, 10))):
        weights += [weight((to, width), 2 * layer + 1),
                    uniform((to,), 2 * layer + 2)]
    return function((uniform((batch, 784), 10),), layers_with_relu,
                    weights=tuple(weights))


def lstm_ops():
    hidden, batch, length = 128, 16, 50

    def compute(ops, x, start, wx, wh, b):
        def cell(carry, x):
            h, c = carry
            gates = x @ wx + h @ wh + b
            part = [gates[:, i * hidden:(i + 1) * hidden] for i in range(4)]
            c = (ops.sigmoid(part[1]) * c +
                 ops.sigmoid(part[0]) * ops.tanh(part[2]))
            return ops.sigmoid(part[3]) * ops.tanh(c), c
        return ops.fold(cell, (start, start), x)
    return function(
        (uniform((length, batch, hidden), 1), torch.zeros(batch, hidden)),
        compute, weights=(weight((hidden, 4 * hidden), 2),
                          weight((hidden, 4 * hidden), 3),
                          uniform((4 * hidden,), 4)))


WIDTH, HEADS, CONTEXT, LAYERS, PREFILL = 128, 4, 64, 4, 32
HEAD = WIDTH // HEADS


def decoder_weights():
    """norm1, norm2, qkv, out, up and down of each layer."""
    sizes = ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH),
             (WIDTH, 4 * WIDTH))
    weights, seed = [], 1
    for _ in range(LAYERS):
        weights += [uniform((WIDTH,), seed), uniform((WIDTH,), seed + 1)]
        weights += [weight(size, seed + 2 + i) for i, size in enumerate(sizes)]
        seed += 6
    return tuple(weights)


def decode(ops, caches, weights, x, place, mask):
    """x, f32 [tokens, width], goes to `place` of the context. What `mask`, f32
    [tokens, keys], has below 0 is not looked at."""
    tokens, keys = mask.shape
    caches = list(caches)
    for layer in range(LAYERS):
        norm1, norm2, qkv, out, up, down = weights[6 * layer:6 * layer + 6]
        h = ops.linear(ops.layer_norm(x, norm1, None), qkv)
        q, k, v = (ops.permute(h.reshape(tokens, 3, HEADS, HEAD), 1, 2, 0, 3)
                   [i] for i in range(3))
        for at, new in ((2 * layer, k), (2 * layer + 1, v)):
            caches[at] = ops.write(caches[at], new, place)
        scores = q @ ops.permute(caches[2 * layer][:, :keys], 0, 2, 1)
        shares = ops.softmax(scores / HEAD**0.5 + mask)
        mixed = ops.permute(shares @ caches[2 * layer + 1][:, :keys], 1, 0, 2)
        x = x + ops.linear(mixed.reshape(tokens, WIDTH), out)
        x = x + ops.linear(ops.gelu(ops.linear(
            ops.layer_norm(x, norm2, None), up)), down)
    return caches, x


def decode_token():
    """The cache place is an input: a token looks at the whole context, of which
    what is not there yet is masked."""
    def token(ops, state, weights, inputs):
        place, mask = inputs
        caches, x = decode(ops, state[:-1], weights, state[-1], place, mask)
        return (*caches, x), ()

    def first(ops, state, weights, inputs):
        prompt, everything, place, mask = inputs
        caches, x = decode(ops, state[:-1], weights, prompt, place - PREFILL,
                           everything)
        return token(ops, (*caches, x[-1:]), weights, (place, mask))

    schedule = []
    for place in range(PREFILL, CONTEXT):
        inputs = (torch.tensor(place),
                  torch.where(torch.arange(CONTEXT) <= place, 0.0,
                              -torch.inf).reshape(1, CONTEXT))
        if place == PREFILL:
            schedule.append(Call("first", (
                uniform((PREFILL, WIDTH), 100), torch.zeros(PREFILL, PREFILL),
                *inputs)))
        else:
            schedule.append(Call("token", inputs))
    caches = [torch.zeros(HEADS, CONTEXT, HEAD) for _ in range(2 * LAYERS)]
    return Row(schedule, {"first": first, "token": token},
               state=(*caches, torch.zeros(1, WIDTH)),
               weights=decoder_weights(), in_place=True,
               results=lambda state, last: [state[-1]])


ROWS = {
    "mlp-tiny": mlp_tiny,
    "mlp-mnist-64": lambda: mlp_mnist(64),
    "lstm-ops": lstm_ops,
    "decode-tok": decode_token,
}
