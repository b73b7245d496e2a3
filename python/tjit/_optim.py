"""Optimizers of torch.optim as arguments of functions of tjit.jit().

How a whole training step is replayed:

1. An optimizer is passed as what decides its step(): the object, the branches
   that its options take, its parameters and the tensors of their states, which
   have to be the same; their gradients, which are tensors; and the numbers of
   its ops, which may be others at each call. Those are computed here as step()
   computes them, so schedules of the learning rate are seen.
2. The numbers depend on how many steps were taken. Each state has a tensor of
   one number for that, which step() adds one to and reads on the host. It is
   read before a call.
3. While a function runs that is recorded or compared, a stand-in (Step) takes
   the place of such a tensor. step() counts it up and reads it without an op,
   so nothing of it is recorded. Behind the call the tensor gets its number.
4. A replay adds one to these tensors. All other tensors of the state are
   written by the ops that are replayed.

What step() reads besides would go unseen: hooks, options that are tensors, the
fused, capturable and differentiable implementations. An optimizer with one of
these, or of a class that is not known, makes the function run, and so does one
whose steps did not all grow by one. If torch computes other numbers than those
here, an op has a number that is no argument, and the function runs, too.
Source: torch/optim/ of torch 2.13.
Threads: as the optimizer. Tested by: tests/python/optimizers_test.py
"""
import ctypes
import sys

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim import optimizer as _torch_optimizer


class Computed(float):
    """A number that an argument computes."""


def _sgd(group, step):
    return (-group["lr"], group["weight_decay"], group["momentum"],
            1 - group["dampening"])


def _adam(group, step):
    lr, decay = group["lr"], group["weight_decay"]
    beta1, beta2 = group["betas"]
    return (1 - lr * decay if group["decoupled_weight_decay"] else decay,
            1 - beta1, beta2, 1 - beta2, (1 - beta2**step)**0.5, group["eps"],
            -(lr / (1 - beta1**step)))


def _rmsprop(group, step):
    alpha = group["alpha"]
    return (group["weight_decay"], alpha, 1 - alpha, group["eps"],
            group["momentum"], -group["lr"])


def _adagrad(group, step):
    return (group["weight_decay"], group["eps"],
            -(group["lr"] / (1 + (step - 1) * group["lr_decay"])))


# By class: the numbers of the `step`th step, whether states count steps, and
# the options that are numbers.
_FORMULAS = {
    torch.optim.SGD: (_sgd, False, (
        "lr", "weight_decay", "momentum", "dampening")),
    torch.optim.Adam: (_adam, True, ("lr", "weight_decay", "eps")),
    torch.optim.AdamW: (_adam, True, ("lr", "weight_decay", "eps")),
    torch.optim.RMSprop: (_rmsprop, True, (
        "lr", "weight_decay", "momentum", "alpha", "eps")),
    torch.optim.Adagrad: (_adagrad, True, (
        "lr", "weight_decay", "lr_decay", "eps")),
}
_FLAGS = ("foreach", "maximize", "nesterov", "amsgrad", "centered",
          "decoupled_weight_decay", "capturable", "differentiable", "fused")
_UNSEEN = ("capturable", "differentiable", "fused")


# How many modes see ops. They see all that step() does, so it has to run, and
# without stand-ins.
has_modes = torch._C._len_torch_dispatch_stack


class Seen:
    """One optimizer at a call. Look() makes it; a call that runs the function
    has begin(), has_moved_on() and end(), one that is replayed move_on()."""

    __slots__ = ("optimizer", "counts", "parameters", "gradients", "states",
                 "values", "options", "stand_ins")

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.counts = None  # whether it counts steps; None: it is not known
        self.parameters, self.gradients = [], []
        self.states, self.values = [], []  # that count steps, and how many
        self.options, self.stand_ins = None, []

    def tensors_of_steps(self):
        return [state["step"] for state in self.states]

    def begin(self):
        """The function is about to run, and to be looked at."""
        self.gradients.clear()
        self.options = _options_of(self.optimizer)
        for state, value in zip(self.states, self.values):
            tensor = state["step"]
            if type(tensor) is Tensor:
                state["step"] = stand_in = Step.of(tensor, value)
                self.stand_ins.append((state, tensor, stand_in))

    def has_moved_on(self):
        """True if it did just what move_on() does."""
        return (self.counts is not None and
                self.options == _options_of(self.optimizer) and
                len(self.stand_ins) == len(self.states) and
                all(state.get("step") is stand_in and
                    stand_in.value == _next(value, tensor)
                    for (state, tensor, stand_in), value
                    in zip(self.stand_ins, self.values)))

    def end(self):
        """The tensors are in their places again, with their numbers."""
        for state, tensor, stand_in in self.stand_ins:
            stand_in.end()
            if state.get("step") is stand_in:
                state["step"] = tensor

    def move_on(self, library):
        """The call was replayed."""
        if self.states:
            tensors = self.tensors_of_steps()
            library.tjit_py_add_to_steps(
                len(tensors), _addresses(tensors),
                (ctypes.c_double * len(tensors))(*self.values))


def _addresses(tensors):
    return (ctypes.c_uint64 * len(tensors))(*[t._cdata for t in tensors])


def _options_of(optimizer):
    return [{name: value for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups]


def look(optimizer, key, leaves, library):
    """Adds to a key and leaves what decides a step; the Seen for it."""
    seen = Seen(optimizer)
    formula = _FORMULAS.get(type(optimizer))
    key.append(id(optimizer.__dict__.get("step")))  # schedules replace it
    if formula is None or _has_hooks(optimizer) or has_modes():
        return seen
    numbers, counts, names = formula
    groups = optimizer.param_groups
    if not all(_is_plain(group, names) for group in groups):
        return seen
    spans = []  # of the states of each group
    for group in groups:
        first = len(seen.states)
        if not _look_at_group(optimizer, group, counts, seen, key, leaves):
            return seen
        spans.append((first, len(seen.states)))
    if not _read_steps(seen, library):
        return seen
    for group, (first, end) in zip(groups, spans):
        # Parameters that came later have taken fewer steps.
        steps = [1.0]
        if counts:
            steps = [_next(value, state["step"]) for value, state
                     in zip(seen.values[first:end], seen.states[first:end])]
        different = list(dict.fromkeys(steps))
        key += [different.index(step) for step in steps]
        try:
            for step in different:
                leaves += map(Computed, numbers(group, step))
        except (ArithmeticError, TypeError):  # step() will say it
            return seen
    seen.counts = counts
    return seen


def _next(value, tensor):
    """What tensor += 1 makes of the value."""
    value += 1
    return value if tensor.dtype == torch.float64 else ctypes.c_float(
        value).value


def _has_hooks(optimizer):
    return bool(optimizer._optimizer_step_pre_hooks or
                optimizer._optimizer_step_post_hooks or
                _torch_optimizer._global_optimizer_pre_hooks or
                _torch_optimizer._global_optimizer_post_hooks)


def _is_plain(group, names):
    return (all(type(group[name]) in (float, int) for name in names) and
            all(type(beta) is float for beta in group.get("betas", ())) and
            not any(group.get(name) for name in _UNSEEN))


def _look_at_group(optimizer, group, counts, seen, key, leaves):
    """False if a parameter has no memory yet, or of a kind of its own."""
    key += [bool(group.get(name)) for name in _FLAGS]
    key += [group["weight_decay"] != 0, group.get("momentum", 0) != 0,
            len(group["params"])]
    for parameter in group["params"]:
        if (type(parameter) not in (Tensor, Parameter) or
                parameter.layout is not torch.strided):
            return False
        seen.parameters.append(parameter)
        key += (parameter._cdata, parameter.untyped_storage()._cdata,
                parameter.requires_grad)
        gradient = parameter.grad
        key.append(None if gradient is None else "gradient")
        if gradient is not None:
            seen.gradients.append(gradient)
            leaves.append(gradient)
        state = optimizer.state.get(parameter)
        key.append(None if state is None else len(state))
        for name, value in (state or {}).items():
            key.append(name)
            if name == "step" and counts:
                seen.states.append(state)
            elif isinstance(value, Tensor):
                key.append(value._cdata)
    return True


def _read_steps(seen, library):
    """False if a number of steps is none."""
    tensors = seen.tensors_of_steps()
    if any(type(t) is Step for t in tensors):  # in a function in a function
        seen.values = [t.value for t in tensors if type(t) is Step]
        return len(seen.values) == len(tensors)
    if not all(type(t) is Tensor and t.dtype in (torch.float32, torch.float64)
               for t in tensors):
        return False
    values = (ctypes.c_double * len(tensors))()
    if tensors and library.tjit_py_read_steps(
            len(tensors), _addresses(tensors), values) != 0:
        return False
    seen.values = list(values)
    return True


class Step(Tensor):
    """Stands for a tensor that counts steps, while a function runs.

    What step() does with it, adding one and reading it, is done by a number of
    Python, if it is torch's own code that does it. For anything else, such as
    item() by the function, the tensor, whose memory is shared, gets that number
    first, and the stand-in reads it again: on the host, as libtjit sees, so the
    function is not replayed.
    """

    @staticmethod
    def of(tensor, value):
        step = Tensor._make_subclass(Step, tensor)
        step.value, step.tensor = value, tensor
        step.is_over = False
        return step

    def __iadd__(self, other):
        if (self.is_over or type(other) is not int or other != 1 or
                sys._getframe(1).f_code not in _CODES_OF_STEPS):
            return super().__iadd__(other)
        self.value = _next(self.value, self.tensor)
        return self

    def item(self):
        reader = sys._getframe(1)
        if (self.is_over or reader.f_code is not _CODE_OF_READ or
                reader.f_back is None or
                reader.f_back.f_code not in _CODES_OF_STEPS):
            return super().item()
        return self.value

    def end(self):
        """The function is over: the tensor says it all."""
        self._write()
        self.is_over = True

    def _write(self):
        if self.is_over:
            return
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            self.tensor.fill_(self.value)

    def __deepcopy__(self, memo):
        return self._plain().__deepcopy__(memo)

    def __reduce_ex__(self, protocol):
        return self._plain().__reduce_ex__(protocol)

    def _plain(self):
        self._write()
        return self.tensor

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        if function in _OF_THE_FORM:
            return super().__torch_function__(function, kinds, args, kwargs)
        used = _steps_in((*args, *(kwargs or {}).values()))
        for step in used:
            step._write()
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **kwargs or {})
        for step in used:  # it may be written
            if not step.is_over:
                with torch._C.DisableTorchFunctionSubclass():
                    step.value = step.tensor.item()
        return result


def _code_of(module, name):
    return getattr(getattr(module, name, None), "__code__", None)


# The functions of torch that count and read steps. Where a torch has others,
# functions with these optimizers run.
_CODE_OF_READ = _code_of(_torch_optimizer, "_get_value")
_CODES_OF_STEPS = {
    _code_of(sys.modules.get(f"torch.optim.{name}"), f"_single_tensor_{name}")
    for name in ("adam", "rmsprop", "adagrad")}

# These say nothing of the number.
_OF_THE_FORM = {Tensor.dtype.__get__, Tensor.is_cpu.__get__}


def _steps_in(values):
    found = []
    for value in values:
        if type(value) is Step:
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _steps_in(value)
    return found
