"""Rows by torch: torch.compile in this process, and packages of AOTInductor."""
import time

import torch

import ops_torch

torch.set_num_threads(1)


class Program(torch.nn.Module):
    """A function of a row with its weights: forward(*state, *inputs). One that
    works in place returns its outputs, others the new state before them."""

    def __init__(self, row, function):
        super().__init__()
        self.function = row.functions[function]
        self.count = len(row.state)
        self.in_place = row.in_place
        self.weights = [torch.nn.Parameter(w.clone(), requires_grad=False)
                        for w in row.weights]
        for at, weight in enumerate(self.weights):
            self.register_parameter(f"w{at}", weight)

    def forward(self, *tensors):
        weights = [getattr(self, f"w{at}") for at in range(len(self.weights))]
        old, inputs = tensors[:self.count], tensors[self.count:]
        new, outputs = self.function(ops_torch, old, weights, inputs)
        if not self.in_place:
            return (*new, *outputs)
        for before, after in zip(old, new):
            if after is not before:
                before.copy_(after)
        return tuple(outputs)


class Runner:
    """A row whose compiled functions have the signature of Program."""

    def __init__(self, row, compiled):
        self.row, self.compiled = row, compiled
        self.state = tuple(t.clone() for t in row.state)
        self.last = {}

    def call(self, call):
        """One call of the schedule."""
        out = self.compiled[call.function](*self.state, *call.inputs)
        if not self.row.in_place:
            count = len(self.state)
            self.state, out = out[:count], out[count:]
        self.last[call.function] = out

    def results(self):
        """As those of the C++ row."""
        return self.row.results(self.state, self.last)


class Usual:
    """A training step as torch.compile's users write it: loss and gradients are
    compiled, the optimizer is torch's fused one."""

    def __init__(self, row, compile_function):
        self.row, training = row, row.training
        self.parameters = [t.clone().requires_grad_()
                           for t in row.state[:training.parameters]]
        optim = torch.optim
        kind, rate = {"sgd": (optim.SGD, 0.01), "adam": (optim.Adam, 1e-3),
                      "adamw": (optim.AdamW, 1e-3)}[training.rule]
        self.optimizer = kind(self.parameters, lr=rate, fused=True)
        self.last = {}
        if training.loss is None:  # gradients are inputs
            for p, g in zip(self.parameters, row.schedule[0].inputs):
                p.grad = g.clone()
            return
        self.loss = compile_function(
            lambda parameters, inputs: training.loss(ops_torch, parameters,
                                                     inputs, None))

    def call(self, call):
        """One call of the schedule."""
        if self.row.training.loss is None:
            self.optimizer.step()
        elif call.function == "train":
            self.optimizer.zero_grad()
            loss = self.loss(self.parameters, call.inputs)
            loss.backward()
            self.optimizer.step()
            self.last["train"] = (loss.detach(),)
        else:
            with torch.no_grad():
                self.last[call.function] = (
                    self.loss(self.parameters, call.inputs),)

    def results(self):
        """As those of the C++ row."""
        return self.row.results([p.detach() for p in self.parameters],
                                self.last)


def set_options(variant):
    """What a variant stands for: "fz" folds and packs constant weights."""
    # pylint: disable-next=import-outside-toplevel
    from torch._inductor import config
    config.freezing = variant == "fz"


def traced(row, name):
    """A function of the row as a module, and arguments for it. A training step
    is traced with its gradients: the compilers take none within a function."""
    # pylint: disable-next=import-outside-toplevel
    from torch.fx.experimental.proxy_tensor import make_fx
    call = next(c for c in row.schedule if c.function == name)
    example = tuple(t.clone() for t in (*row.state, *call.inputs))
    program = Program(row, name).eval()
    return make_fx(program)(*example) if row.training else program, example


def compiled_row(row, variant):
    """A row under torch.compile."""
    set_options(variant)

    def compile_function(f):
        return torch.compile(f, dynamic=False, fullgraph=True)
    if row.training and "step" not in variant:
        return Usual(row, compile_function), lambda: None
    runner = Runner(row, {name: compile_function(traced(row, name)[0])
                          for name in row.functions})
    torch.set_grad_enabled(False)  # of the calls: that is when it compiles
    return runner, lambda: None


def eager_row(row):
    """A row that nothing compiles, for tests of the rows themselves."""
    return Runner(row, {name: Program(row, name) for name in row.functions})


def export(row, variant, folder):
    """Packages of the row's functions in `folder`, with the tensors and the
    calls for bench_aoti; the seconds that it took."""
    # pylint: disable=import-outside-toplevel
    from torch._inductor import aoti_compile_and_package
    set_options(variant)
    start = time.monotonic()
    tensors = [t.clone() for t in row.state]
    places = {}
    calls = []
    for call in row.schedule:
        for tensor in call.inputs:
            if id(tensor) not in places:
                places[id(tensor)] = len(tensors)
                tensors.append(tensor)
        calls.append(" ".join(["call", call.function, *(
            str(places[id(tensor)]) for tensor in call.inputs)]))
    for name in row.functions:
        program, example = traced(row, name)
        with torch.no_grad():
            exported = torch.export.export(program, example)
            aoti_compile_and_package(
                exported, package_path=str(folder / f"{name}.pt2"))
    torch.save(tensors, folder / "tensors.pt")
    (folder / "calls.txt").write_text("\n".join([
        f"state {len(row.state)} {int(row.in_place)}",
        f"calls_per_step {row.calls_per_step}", *calls]) + "\n")
    return time.monotonic() - start
