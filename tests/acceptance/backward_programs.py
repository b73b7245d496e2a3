"""Backward passes of all kinds, whose gradients are printed bit by bit.

Usage: backward_programs.py cases | distributed | random COUNT
"""
import random
import sys
import threading

import torch
from torch.utils.checkpoint import checkpoint

CASES = []


def case(function):
    CASES.append(function)
    return function


def bits(value):
    """A value as text that tells all of its bits."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().to_dense().double().flatten().tolist()
        return f"{tuple(value.shape)} {[x.hex() for x in flat]}"
    return repr(value)


def show(name, *values):
    print(name, *map(bits, values))


def pair():
    """An input and a weight that asks for gradients."""
    return torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)


@case
def accumulates():
    x, w = pair()
    for _ in range(3):
        (x @ w).tanh().sum().backward()
        show("accumulates", w.grad)


@case
def residual():
    x, w = pair()
    for _ in range(20):
        x = x + (x @ w).tanh()
    x.sum().backward()
    show("residual", w.grad)


@case
def double_backward():
    x, w = pair()
    first, = torch.autograd.grad((x @ w).pow(3).sum(), w, create_graph=True)
    first.pow(2).sum().backward()
    show("double", first, w.grad)


@case
def gradient_penalty():
    x, w = pair()
    x.requires_grad_()
    out = (x @ w).sigmoid()
    slope, = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = out.mean() + (slope.norm(dim=1) - 1).pow(2).mean()
    loss.backward()
    show("penalty", w.grad, x.grad)


@case
def tensor_hook():
    x, w = pair()
    seen = []
    h = x @ w
    h.register_hook(lambda g: seen.append(g.sum().item()) or g * 2)
    h.tanh().sum().backward()
    show("hook", w.grad, seen)


@case
def retain_grad():
    x, w = pair()
    h = x @ w
    h.retain_grad()
    (h.tanh() + h).sum().backward()
    show("retain", h.grad, w.grad)


@case
def post_accumulate_hook():
    x, w = pair()
    seen = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum()))
    (x @ w).sum().backward()
    show("post", w.grad, *seen)


@case
def custom_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            a, = ctx.saved_tensors
            return 2 * a * g
    x, w = pair()
    Square.apply(x @ w).sum().backward()
    show("custom", w.grad)


@case
def custom_function_on_a_view():
    class Negate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.neg_()

        @staticmethod
        def backward(ctx, g):
            return -g
    _, w = pair()
    y = w * 2
    Negate.apply(y[1])
    y.tanh().sum().backward()
    show("custom view", w.grad)


@case
def checkpoints():
    x, w = pair()
    for reentrant in (True, False):
        runs = []

        def block(a):
            runs.append(torch._C._current_graph_task_id() >= 0)
            return (a @ w).tanh()
        y = checkpoint(block, x.clone().requires_grad_(),
                       use_reentrant=reentrant)
        y.sum().backward()
        show("checkpoint", w.grad, runs)
    (x @ w).sum().backward()  # a plain pass behind them
    show("plain again", w.grad)


@case
def saved_tensor_hooks():
    x, w = pair()
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append("pack") or t,
            lambda t: seen.append("unpack") or t):
        loss = (x @ w).tanh().sum()
    loss.backward()
    show("saved", w.grad, seen)


@case
def errors():
    x, w = pair()
    loss = (x @ w).tanh().sum()
    loss.backward()
    y = (x @ w).exp()
    changed = y.sum()
    y.add_(1)
    for wrong in (loss, changed, x.sum()):
        try:
            wrong.backward()
        except RuntimeError as e:
            show("error", str(e).split("Exception raised")[0])
    try:
        torch.autograd.grad((x @ w).sum(), torch.ones(1, requires_grad=True))
    except RuntimeError as e:
        show("error", str(e))
    with torch.autograd.detect_anomaly():
        try:
            (torch.sqrt(w - w) * 0).sum().backward()
        except RuntimeError as e:
            show("anomaly", str(e))


@case
def hooks_of_nodes():
    x, w = pair()
    seen = []
    h = x @ w
    h.grad_fn.register_prehook(lambda g: (seen.append("pre"), (g[0] * 2,))[1])
    h.grad_fn.register_hook(
        lambda inputs, outputs: seen.append(f"post {len(inputs)}"))
    w.register_hook(lambda g: seen.append("leaf"))
    y = h.tanh()
    torch.autograd.graph.register_multi_grad_hook(
        (h, y), lambda grads: seen.append(f"multi {len(grads)}"))
    y.sum().backward()
    show("node hooks", w.grad, seen)
    got = torch.autograd.grad((x @ w).tanh().sum(), w)
    show("leaf hook in grad()", *got, seen)


@case
def what_hooks_may_ask():
    x, w = pair()
    seen = []

    def ask(gradient):
        seen.append(torch._C._current_graph_task_id() >= 0)
        seen.append(torch._C._autograd._get_current_graph_task_keep_graph())
        node = torch._C._current_autograd_node()
        seen.append(node.name())
        seen.append(torch._C._will_engine_execute_node(node))
        torch.autograd.Variable._execution_engine.queue_callback(
            lambda: seen.append(f"callback {torch.is_grad_enabled()}"))

    # Libtorch knows the order before the first node has run.
    def ask_for_order(gradient):
        with torch.autograd.set_multithreading_enabled(False):
            order = torch._C._current_graph_task_execution_order()
        seen.append([node.name() for node in order])
    h = x @ w
    y = h.tanh()
    h.register_hook(ask)
    loss = (y + h * 2).sum()
    loss.register_hook(ask_for_order)
    loss.backward(retain_graph=True)
    show("asked", w.grad, seen)
    seen.clear()
    show("asked in grad()", *torch.autograd.grad((y + h).sum(), w), seen)
    show("outside", torch._C._current_graph_task_id())


@case
def hooks_that_run_passes():
    x, w = pair()
    other = torch.ones(3, requires_grad=True)

    def inner(gradient):
        with torch.enable_grad():
            (other * gradient.sum()).sum().backward()
    h = x @ w
    h.register_hook(inner)
    h.tanh().sum().backward()
    show("inner", w.grad, other.grad)


@case
def hooks_that_leave_traces():
    x, w = pair()
    seen = []
    h = x @ w
    y = h.tanh()
    y.register_hook(lambda g: torch.set_grad_enabled(True) and None)
    h.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.sum().backward()
    show("grad mode", w.grad, seen, torch.is_grad_enabled())


@case
def code_that_throws():
    class Throws(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError("from a custom function")

    def throw(gradient):
        raise ValueError("from a hook")
    x, w = pair()
    h = x @ w
    h.register_hook(throw)
    for wrong in (h.sum(), Throws.apply(x @ w).sum()):
        try:
            wrong.backward()
        except (KeyError, ValueError) as e:
            show("thrown", type(e).__name__, str(e), w.grad)
    (x @ w).sum().backward()
    show("and on", w.grad)


@case
def needs_of_custom_functions():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            show("needs", list(ctx.needs_input_grad))
            return g @ b.t(), a.t() @ g
    x, w = pair()
    x.requires_grad_()
    y = Product.apply(x, w)
    show("one", *torch.autograd.grad(y.sum(), w, retain_graph=True))
    y.sum().backward()
    show("both", x.grad, w.grad)


@case
def passes_behind_one_that_threw():
    a = torch.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
    values, _ = torch.linalg.eigh(a)
    for _ in range(2):
        try:
            values.backward(torch.tensor([5.0, 7.0]))
        except RuntimeError as e:
            show("second pass", type(e).__name__)
    b = torch.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
    torch.linalg.eigh(b)[1].backward(torch.eye(2))
    show("behind", b.grad)


@case
def results_that_are_roots():
    x, w = pair()
    y = (w * 2).exp()
    y.register_hook(lambda g: g * 10)
    show("itself", *torch.autograd.grad(y, y, torch.ones(4, 4)))
    other = torch.ones(2, requires_grad=True)
    for roots in ([y], [y, y.sum()]):
        show("not reached", *torch.autograd.grad(
            roots, other, [torch.ones_like(r) for r in roots],
            allow_unused=True))
    y.sum().backward()  # nothing was released
    show("still there", w.grad)
    try:
        torch.autograd.grad(w.sum(), [])
    except (RuntimeError, ValueError) as e:
        show("by nothing", type(e).__name__, w.grad)


@case
def nodes_called_by_hand():
    x, w = pair()
    other = torch.ones(3, requires_grad=True)
    written = other * 2
    written[1].mul_(other[0])
    apart = other * 3
    seen = []
    h = x @ w
    h.register_hook(lambda g: seen.append(written.grad_fn(torch.ones(3))))
    h.register_hook(lambda g: seen.append(apart.grad_fn(torch.ones(3))))
    show("by hand", *torch.autograd.grad(h.sum(), w), seen)


@case
def roots_of_multi_grad_hooks():
    x, w = pair()
    seen = []
    h = x @ w
    loss = h.exp().sum()
    torch.autograd.graph.register_multi_grad_hook(
        (h, loss), lambda grads: seen.append([g is None for g in grads]))
    loss.backward()
    show("multi", w.grad, seen)


@case
def hooks_that_come_late():
    class AddsHook(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            ctx.register_hook(lambda inputs, outputs: seen.append(
                ("behind", len(inputs), len(outputs))))
            return g * 2
    x, w = pair()
    seen = []
    h = AddsHook.apply(x @ w)
    y = h * 3
    y.register_hook(lambda g: h.register_hook(
        lambda g: torch.set_autocast_enabled("cpu", True)) and None)
    y.sum().backward()
    show("late", w.grad, seen, torch.is_autocast_enabled("cpu"))


@case
def unpack_hooks_that_leave_traces():
    def unpack(t):
        torch.set_autocast_enabled("cpu", True)
        return t
    x, w = pair()
    h = x @ w
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = h.exp().sum()
    y.backward()
    show("autocast left on", w.grad, torch.is_autocast_enabled("cpu"))


@case
def checkpoints_within_grad():
    x, w = pair()
    seen = []

    def hook(gradient):
        inner = torch.ones(2, requires_grad=True)
        try:
            with torch.enable_grad():
                checkpoint(torch.exp, inner, use_reentrant=True).sum().backward()
            seen.append(bits(inner.grad))
        except RuntimeError as e:
            seen.append(str(e))
    h = x @ w
    h.register_hook(hook)
    show("grad()", *torch.autograd.grad(h.sum(), w, retain_graph=True), seen)
    h.sum().backward()
    show("backward()", w.grad, seen)


@case
def anomaly_detection_of_a_hook():
    x, w = pair()
    h = x @ w
    y = torch.sqrt(h - h) * 0
    y.register_hook(
        lambda g: torch.autograd.set_detect_anomaly(True) and None)
    try:
        y.sum().backward()
    except RuntimeError as e:
        show("nan", str(e).split("Exception raised")[0])
    torch.autograd.set_detect_anomaly(False)


@case
def order_with_several_threads():
    x, w = pair()
    loss = (x @ w).sum()

    def ask(gradient):
        try:
            torch._C._current_graph_task_execution_order()
        except RuntimeError as e:
            show("order", str(e).split("Exception raised")[0])
    loss.register_hook(ask)
    loss.backward()


@case
def several_roots():
    x, w = pair()
    h = x @ w
    torch.autograd.backward([h.sum(), h.tanh().sum()])
    show("roots", w.grad)


@case
def kept_graph():
    x, w = pair()
    y = (x @ w).tanh()
    y.backward(torch.ones_like(y), retain_graph=True)
    y.backward(torch.full_like(y, 2.0))
    show("kept", w.grad)


@case
def inputs():
    x, w = pair()
    x.requires_grad_()
    (x @ w).tanh().sum().backward(inputs=[w])
    show("inputs", w.grad, x.grad)


@case
def unused():
    x, w = pair()
    other = torch.ones(2, requires_grad=True)
    show("unused", *torch.autograd.grad((x @ w).sum(), [w, other],
                                        allow_unused=True))
    deep = other.tanh().tanh().tanh()
    show("deeper", *torch.autograd.grad((x @ w).sum(), [w, deep],
                                        allow_unused=True))


@case
def threads():
    x, w = pair()

    def work():
        for _ in range(10):
            (x @ w).sum().backward()
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    show("threads", w.grad)


@case
def views_written():
    x, w = pair()
    h = x @ w
    h[0] = 0
    h.select(1, 2).mul_(w[0, 0])
    h.sum().backward()
    show("views", w.grad)


@case
def other_kinds():
    table = torch.nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1, 2, 1])).sum().backward()
    show("sparse", table.weight.grad)
    lstm = torch.nn.LSTM(3, 4)
    lstm(torch.randn(5, 2, 3))[0].sum().backward()
    show("lstm", lstm.weight_ih_l0.grad)
    conv = torch.nn.Conv2d(1, 2, 3)
    conv(torch.randn(1, 1, 5, 5)).relu().sum().backward()
    show("conv", conv.weight.grad)
    z = torch.randn(3, 3, dtype=torch.complex64, requires_grad=True)
    torch.fft.fft2(z).abs().sum().backward()
    show("fft", torch.view_as_real(z.grad))
    half = torch.randn(4, 4, dtype=torch.bfloat16, requires_grad=True)
    (half.float() @ torch.randn(4, 4)).sum().backward()
    show("bfloat16", half.grad)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x, w = pair()
        (x @ w).sum().backward()
    show("autocast", w.grad)


def random_graph(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    leaves = [torch.randn(4, 4, requires_grad=True)
              for _ in range(random.randint(1, 5))]
    values = list(leaves)
    ops = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a @ b * 0.3,
        lambda a, b: a.tanh(),
        lambda a, b: a.t(),
        lambda a, b: a.reshape(2, 8).sum(0).view(2, 4).repeat(2, 1),
        lambda a, b: torch.cat([a[:2], b[2:]]),
        lambda a, b: a.sum(1, keepdim=True).expand(4, 4),
        lambda a, b: (a - b).sigmoid(),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: a.softmax(-1),
        lambda a, b: a.unbind(0)[0] + b,
        lambda a, b: (a * 1.0).mul_(b.detach()),
    ]
    for _ in range(random.randint(1, 40)):
        op = random.choice(ops)
        values.append(op(random.choice(values), random.choice(values)))
    loss = sum(v.mean() for v in values[-3:])
    show("grad", *torch.autograd.grad(loss, random.choice(leaves),
                                      retain_graph=True, allow_unused=True))
    loss.backward(retain_graph=True)
    loss.backward()
    show(f"graph {seed}", *[leaf.grad for leaf in leaves])


def distributed():
    import torch.distributed as dist
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(),
                              torch.nn.Linear(8, 1))
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        sgd.zero_grad()
        parallel(torch.randn(16, 4)).square().mean().backward()
        sgd.step()
    show("distributed", *net.parameters())
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "distributed":
        return distributed()
    if sys.argv[1] == "cases":
        for number, function in enumerate(CASES):
            torch.manual_seed(number)
            function()
        return
    for seed in range(int(sys.argv[2])):
        random_graph(seed)


if __name__ == "__main__":
    main()
