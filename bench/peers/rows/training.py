"""Rows 18 to 24: bench/workloads_training.cpp, bench/workloads_products.cpp."""
import torch
from torch import nn

from .row import Call, Row, Training

RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 1e-2
SGD_RATE = 0.01


def updated(ops, rule, parameters, moments, gradients):
    """(new parameters, new moments), as torch::optim has them with the options
    of bench/training.cpp. Moments are the averages of all parameters, then
    those of the squares, then the count of steps."""
    if rule == "sgd":
        return [p - SGD_RATE * g for p, g in zip(parameters, gradients)], []
    count = len(parameters)
    steps = moments[-1] + 1
    rate = RATE / (1 - BETA1**steps)
    root = ops.sqrt(1 - BETA2**steps)
    new, averages, squares = [], [], []
    for p, m, v, g in zip(parameters, moments[:count],
                          moments[count:2 * count], gradients):
        if rule == "adamw":
            p = p * (1 - RATE * DECAY)
        m = m + (1 - BETA1) * (g - m)
        v = BETA2 * v + (1 - BETA2) * g * g
        new.append(p - rate * m / (ops.sqrt(v) / root + EPSILON))
        averages.append(m)
        squares.append(v)
    return new, [*averages, *squares, steps]


def start_of(parameters, rule):
    """Parameters and moments before the first step."""
    parameters = [p.detach() for p in parameters]
    if rule == "sgd":
        return tuple(parameters)
    zeros = [torch.zeros_like(p) for p in parameters]
    return (*parameters, *zeros, *(z.clone() for z in zeros), torch.zeros(()))


def training(parameters, rule, loss, schedule, functions=None, **more):
    """The row of a training step, called "train"."""
    parameters = list(parameters)
    count = len(parameters)

    def train(ops, state, weights, inputs):
        del weights
        value, gradients = ops.value_and_grad(
            lambda p: loss(ops, p, inputs, state[-1]), state[:count])
        new, moments = updated(ops, rule, state[:count], state[count:],
                               gradients)
        return (*new, *moments), (value,)

    def results(state, last):
        return [*state[:count], *last["train"]]
    return Row(schedule, {"train": train, **(functions or {})},
               state=start_of(parameters, rule), in_place=True,
               training=Training(count, loss, rule),
               **{"state_tolerance": 0.02, "results": results, **more})


def tanh_net(widths, batch, rule):
    torch.manual_seed(1)
    layers = [nn.Linear(*pair) for pair in zip(widths, widths[1:])]
    inputs = torch.randn(batch, widths[0]), torch.randn(batch, widths[-1])

    def loss(ops, parameters, inputs, steps):
        del steps
        x, y = inputs
        for at in range(0, len(parameters), 2):
            x = ops.linear(ops.tanh(x) if at else x, *parameters[at:at + 2])
        return ops.mse_loss(x, y)
    return training((p for l in layers for p in l.parameters()), rule, loss,
                    [Call("train", inputs)])


def relu_net(ops, parameters, x):
    """Linear layers with ReLU between them."""
    for at in range(0, len(parameters), 2):
        x = ops.linear(ops.relu(x) if at else x, *parameters[at:at + 2])
    return x


def mlp_gt():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 256), nn.Linear(256, 10))
    inputs = torch.randn(128, 784), torch.randn(128, 10)

    def loss(ops, parameters, inputs, steps):
        del steps
        return ops.mse_loss(relu_net(ops, parameters, inputs[0]), inputs[1])
    return training(net.parameters(), "sgd", loss, [Call("train", inputs)])


def mlp_large():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 256), nn.Linear(256, 256),
                        nn.Linear(256, 10))
    inputs = torch.randn(64, 784), torch.randint(10, (64,))

    def loss(ops, parameters, inputs, steps):
        del steps
        return ops.cross_entropy(relu_net(ops, parameters, inputs[0]),
                                 inputs[1])
    return training(net.parameters(), "adam", loss, [Call("train", inputs)])


def adam_only(tensors, elements):
    """The gradients are inputs."""
    torch.manual_seed(1)
    parameters, gradients = [], []
    for _ in range(tensors):
        parameters.append(torch.randn(elements))
        gradients.append(torch.randn(elements))

    def step(ops, state, weights, inputs):
        del weights
        new, moments = updated(ops, "adam", state[:tensors], state[tensors:],
                               inputs)
        return (*new, *moments), ()
    return Row([Call("step", tuple(gradients))], {"step": step},
               state=start_of(parameters, "adam"), in_place=True,
               training=Training(tensors, None, "adam"), state_tolerance=1e-3,
               results=lambda state, last: list(state[:tensors]))


def mnist_cnn():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1),
                        nn.Conv2d(32, 64, 3, padding=1),
                        nn.Linear(64 * 7 * 7, 10))
    inputs = torch.randn(128, 1, 28, 28), torch.randint(10, (128,))

    def loss(ops, parameters, inputs, steps):
        x, labels = inputs
        for at in (0, 2):
            x = ops.conv2d_3x3(x, *parameters[at:at + 2])
            x = ops.max_pool_2x2(ops.relu(x))
        x = ops.dropout_half(x.reshape(x.shape[0], -1), steps)
        return ops.cross_entropy(ops.linear(x, *parameters[4:]), labels)
    return training(net.parameters(), "adam", loss, [Call("train", inputs)],
                    is_random=True)


WIDTH, HEADS, BATCH, LENGTH, TRAINED = 128, 4, 8, 64, 10


def layer(ops, parameters, x, mask):
    """A pre-norm transformer layer."""
    norm1, norm2, q, k, v, out, up, down = (
        parameters[i:i + 2] for i in range(0, 16, 2))

    def heads(t):
        return ops.permute(t.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS),
                           0, 2, 1, 3)
    h = ops.layer_norm(x, *norm1)
    scores = heads(ops.linear(h, *q)) @ ops.permute(
        heads(ops.linear(h, *k)), 0, 1, 3, 2)
    shares = ops.softmax(scores / (WIDTH // HEADS)**0.5 + mask)
    mixed = ops.permute(shares @ heads(ops.linear(h, *v)), 0, 2, 1, 3)
    y = x + ops.linear(mixed.reshape(BATCH, LENGTH, WIDTH), *out)
    return y + ops.linear(ops.gelu(ops.linear(
        ops.layer_norm(y, *norm2), *up)), *down)


def block():
    """Ten training steps, then the loss of one batch more."""
    torch.manual_seed(1)
    net = nn.ModuleList(
        [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)] +
        [nn.Linear(WIDTH, WIDTH) for _ in range(4)] +
        [nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)])
    sizes = ((TRAINED + 1) * BATCH, LENGTH, WIDTH)
    batches = [t.split(BATCH) for t in (torch.randn(sizes), torch.randn(sizes))]
    mask = torch.full((LENGTH, LENGTH), -1e9).triu(1)

    def loss(ops, parameters, inputs, steps):
        del steps
        x, y, mask = inputs
        return ops.mse_loss(layer(ops, parameters, x, mask), y)

    def evaluate(ops, state, weights, inputs):
        del weights
        return state, (loss(ops, state[:16], inputs, None),)
    calls = [(x, y, mask) for x, y in zip(*batches)]
    # The biases of the keys have no gradient but rounding errors, whose
    # direction Adam follows: a fortieth of the parameters.
    return training(net.parameters(), "adamw", loss,
                    [Call("train", c) for c in calls[:-1]] +
                    [Call("evaluate", calls[-1])], {"evaluate": evaluate},
                    calls_per_step=TRAINED + 1, check_steps=1,
                    state_tolerance=0.1, results=lambda state, last: [
                        *state[:16], *last["train"],
                        *(t.double() for t in last["evaluate"])])


ROWS = {
    "pinn": lambda: tanh_net((8, 16, 1), 4, "sgd"),
    "mlp-adam": lambda: tanh_net((8, 32, 32, 32, 1), 32, "adam"),
    "mlp-gt": mlp_gt,
    "mlp-large": mlp_large,
    "adam-100x1k": lambda: adam_only(100, 1024),
    "mnist-cnn": mnist_cnn,
    "block": block,
}
