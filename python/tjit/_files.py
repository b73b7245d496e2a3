"""Functions as files: what tjit.save_package() writes and load_package() reads.

The file is that of tjit::save_package() in C++, so either language loads what
the other has saved. C++ gives the results as a list of tensors. Python writes
beside it, as JSON, in what order the arguments are and in what the results are:

    {"arguments": ["x", "dt"], "result": ["dict", [["loss", ["tensor", 0]]]]}
"""
import collections
import ctypes
import dataclasses
import json
import keyword
import os
import re

from torch import Size, Tensor, strided
from torch.nn import Module, Parameter

from . import _jit, _library

# No names of arguments of a module of TorchScript.
_TAKEN = {"forward", "ops", "self", "training", ""}
_PLAIN = (bool, int, float, str, type(None))


# ------------------------------------------------------------- saving


def save(who, path, fn, args, kwargs, is_package, tensors, arguments,
         given=(), keeps_example=True):
    """Writes the function as it is replayed for these arguments."""
    path = _path(who, path)
    if not isinstance(fn, _jit._Callable):
        raise TypeError(
            f"{who}: fn must be a function that tjit.jit() has wrapped, and is "
            f"{fn!r}; wrap it, and call it until it is replayed")
    if type(keeps_example) is not bool:
        raise TypeError(f"{who}: keeps_example must be a bool, and is "
                        f"{keeps_example!r}")
    if any(_jit._kind_of(value) is _jit._Optimizer
           for value in (*args, *kwargs.values())):
        raise TypeError(f"{who}: an optimizer has no form in a file; wrap the "
                        "function that predicts")
    leaves = _leaves_of(_jit._named_arguments(fn, args, kwargs))
    names = _argument_names(who, leaves, arguments)
    named = (_found_tensors(who, fn, args, kwargs, leaves) if tensors is None
             else _named_tensors(who, tensors))
    given = _strings(who, "given", given)
    packed = _jit._pack(fn, fn._state, args, kwargs)
    structure = ""
    if is_package:
        form = _jit._p.tjit_py_form_to_save(fn._state.handle, packed)
        result = ["tensor", 0]
        if form is not None:
            result = _described(who, form(_Places()), "the result")
        structure = json.dumps({"arguments": names, "result": result})
    # The module takes tensors first.
    ordered = [n for of_tensors in (True, False)
               for n, (_, leaf) in zip(names, leaves)
               if isinstance(leaf, Tensor) == of_tensors]
    options = _library.FileOptions(
        len(named), _texts([name for name, _ in named]),
        _addresses([t for _, t in named]), len(ordered), _texts(ordered),
        len(given), _texts(given), keeps_example, structure.encode())
    _jit._p.tjit_py_save(fn._state.handle, packed, path, is_package,
                         ctypes.byref(options))


def _path(who, path):
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{who}: path must be a str, and is {path!r}, a "
                        f"{type(path).__name__}")
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"{who}: path has a zero byte in it")
    return encoded


def _texts(texts):
    return (ctypes.c_char_p * len(texts))(*[t.encode() for t in texts])


def _addresses(tensors):
    return (ctypes.c_uint64 * len(tensors))(*[t._cdata for t in tensors])


def _strings(who, name, values):
    if isinstance(values, str):
        raise TypeError(f"{who}: {name} must be a list of names, and is "
                        f"{values!r}")
    try:
        values = list(values)
    except TypeError:
        raise TypeError(f"{who}: {name} must be a list of names, and is "
                        f"{values!r}, a {type(values).__name__}") from None
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{who}: {name} must be a list of names, and has "
                            f"{value!r} in it, a {type(value).__name__}")
    return values


def _leaves_of(named):
    """Pairs of a path and a tensor or float, in the order of _jit._look()."""
    leaves = []
    for path, value in named:
        kind = type(value)
        if kind is Tensor or kind is Parameter or kind is float:
            leaves.append((path, value))
            continue
        kind = _jit._kind_of(value)
        if issubclass(kind, _jit._Holder):
            leaves += _leaves_of(
                [(path + place, child) for place, child
                 in zip(kind.places(value), kind.children(value))])
    return leaves


def _argument_names(who, leaves, chosen):
    """A name for each leaf: the chosen ones, then those of the parameters."""
    chosen = [] if chosen is None else _strings(who, "arguments", chosen)
    if len(chosen) > len(leaves):
        raise ValueError(
            f"{who}: arguments has {len(chosen)} names, but the example has "
            f"{len(leaves)} tensors and floats")
    names = list(chosen)
    for number, (path, leaf) in list(enumerate(leaves))[len(chosen):]:
        name = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_")
        if (name in _TAKEN or name in names or name[0].isdigit() or
                keyword.iskeyword(name)):
            name = ("number" if type(leaf) is float else "tensor") + str(number)
        while name in names:
            name += "_"
        names.append(name)
    return names


def _tensors_of(module):
    return [(name, tensor)
            for named in (module.named_parameters(), module.named_buffers())
            for name, tensor in named]


def _named_tensors(who, tensors):
    """Pairs, of what was passed as `tensors`."""
    if isinstance(tensors, Module):
        return _tensors_of(tensors)
    try:
        pairs = list(tensors.items() if isinstance(tensors, dict) else tensors)
    except TypeError:
        raise TypeError(
            f"{who}: tensors must be tensors by name, as a dict, the pairs of "
            f"one, or a torch.nn.Module, and is {tensors!r}, a "
            f"{type(tensors).__name__}") from None
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and
                isinstance(pair[0], str) and isinstance(pair[1], Tensor)):
            raise TypeError(
                f"{who}: tensors must be tensors by name, as a dict, the pairs "
                f"of one, or a torch.nn.Module, and has {pair!r} in it")
    return pairs


def _found_tensors(who, fn, args, kwargs, leaves):
    """Those of the modules that the function is called with, or finds."""
    watched = fn._state.watched
    modules = [] if watched is None else watched.found(fn)
    modules += [*args, *kwargs.values()]
    passed = {leaf.untyped_storage()._cdata for _, leaf in leaves
              if isinstance(leaf, Tensor) and leaf.layout is strided}
    named, known = {}, set()
    for module in modules:
        if not isinstance(module, Module):
            continue
        for name, tensor in _tensors_of(module):
            if id(tensor) in known or tensor.layout is not strided:
                continue
            if tensor.untyped_storage()._cdata in passed:
                continue
            if name in named:
                raise ValueError(
                    f'{who}: two modules of {fn.__name__}() have a tensor '
                    f'"{name}"; pass tensors={{name: tensor}}')
            known.add(id(tensor))
            named[name] = tensor
    return list(named.items())


# ------------------------------------------------------------- structures


class _Place:
    """Stands for a tensor."""

    def __init__(self, index):
        self.index = index


class _Places:
    """What a form makes a result of, with places instead of tensors."""

    def __getitem__(self, index):
        return _Place(index - 1)


def _described(who, value, path):
    """A result as JSON takes it."""
    kind = type(value)
    if kind is _Place:
        return ["tensor", value.index]
    if kind in _PLAIN:
        return ["value", value]
    if dataclasses.is_dataclass(value):
        fields = _jit._Dataclass.names(value)
        values = [getattr(value, field) for field in fields]
        return _described_fields(who, value, fields, values, path)
    if kind in (dict, collections.OrderedDict):
        for key in value:
            _check_plain(who, key, f"{path}, in its keys,")
        return ["dict", [[key, _described(who, one, f"{path}[{key!r}]")]
                         for key, one in value.items()]]
    if isinstance(value, (list, tuple)) and kind is not Size:
        fields = getattr(kind, "_fields", getattr(kind, "__match_args__", ()))
        if kind is not tuple and len(fields) == len(value) > 0:
            return _described_fields(who, value, fields, value, path)
        return ["list" if kind is list else "tuple",
                [_described(who, one, f"{path}[{i}]")
                 for i, one in enumerate(value)]]
    return _check_plain(who, value, path)


def _described_fields(who, value, fields, values, path):
    named = collections.namedtuple("named", fields, rename=True)._fields
    for field, other in zip(fields, named):
        if field != other:  # load_package() makes a named tuple
            raise ValueError(
                f"{who}: {path} is of type {_jit._name_of(type(value))}, whose "
                f'field "{field}" no named tuple can have; rename it, without '
                "a leading underscore, or return a dict")
    return ["named", type(value).__name__, list(fields),
            [_described(who, one, f"{path}.{field}")
             for field, one in zip(fields, values)]]


def _check_plain(who, value, path):
    if type(value) not in _PLAIN:
        raise TypeError(
            f"{who}: {path} is of type {_jit._name_of(type(value))}, which a "
            "file has not; return tensors, and lists, tuples, dicts or "
            "dataclasses of them, of numbers and of strings")


def _maker_of(described):
    """What makes a result of a tuple of None and tensors."""
    kind, *rest = described
    if kind == "tensor":
        return lambda made: made[rest[0] + 1]
    if kind == "value":
        return lambda made: rest[0]
    if kind == "dict":
        named = [(key, _maker_of(one)) for key, one in rest[0]]
        return lambda made: {key: make(made) for key, make in named}
    makers = [_maker_of(one) for one in rest[-1]]
    if kind == "list":
        return lambda made: [make(made) for make in makers]
    if kind == "tuple":
        return lambda made: tuple([make(made) for make in makers])
    if kind == "named":
        named = collections.namedtuple(rest[0], rest[1], rename=True)
        return lambda made: named(*[make(made) for make in makers])
    raise ValueError(kind)


def _make_flat(made):
    """Of a file of C++: what a module of TorchScript returns."""
    return made[1] if len(made) == 2 else made[1:] or None


# ------------------------------------------------------------- loading


class Package:
    """A function that load_package() has read."""

    __slots__ = ("name", "names", "tensors", "_handle", "_numbers", "_kinds",
                 "_make", "_delete", "__weakref__")

    def __init__(self, handle):
        self._delete = _jit._c.tjit_py_package_delete
        self._handle = handle
        name, structure, lines = _jit._p.tjit_py_package_about(
            handle).decode(errors="replace").split("\0", 2)
        words = [line.split("\t") for line in lines.splitlines()]
        self.name = name
        self._kinds = {w[1]: w[2] for w in words if w[0] != "state"}
        self.tensors = {w[1]: w[2] for w in words if w[0] == "state"}
        self._numbers = {w[1] for w in words if w[0] == "number"}
        self.names, self._make = tuple(self._kinds), _make_flat
        if structure:
            self._use(structure)

    def _use(self, structure):
        """Is as Python has said, unless another version of it did."""
        try:
            said = json.loads(structure)
            names, make = tuple(said["arguments"]), _maker_of(said["result"])
        except (ValueError, KeyError, TypeError, IndexError):
            return
        if sorted(names) == sorted(self.names):
            self.names, self._make = names, make

    def __del__(self):
        handle = getattr(self, "_handle", None)
        if handle:
            self._delete(handle)

    def __call__(self, *args, **kwargs):
        values = dict(zip(self.names, args))
        if len(args) > len(self.names) or not values.keys().isdisjoint(kwargs):
            raise self._refusal_of_number(args, kwargs)
        values.update(kwargs)
        if values.keys() != self._kinds.keys():
            raise self._refusal_of_number(args, kwargs)
        tensors, numbers = [], []
        for name in self._kinds:
            value = values[name]
            if name in self._numbers:
                if type(value) not in (float, int):
                    raise self._refusal(name, value, "a float")
                numbers.append(value)
            else:
                if type(value) is not Tensor and type(value) is not Parameter:
                    raise self._refusal(name, value, "a torch.Tensor")
                tensors.append(value)
        return self._make(_jit._p.tjit_py_package_call(
            self._handle, len(tensors), _addresses(tensors), len(numbers),
            (ctypes.c_double * len(numbers))(*numbers)))

    def _refusal_of_number(self, args, kwargs):
        wanted = ", ".join(self.names) or "nothing"
        got = ", ".join([str(len(args)), *kwargs])
        return TypeError(f'tjit: the package "{self.name}" takes {wanted}; '
                         f"it was called with {got}")

    def _refusal(self, name, value, wanted):
        return TypeError(
            f'tjit: the package "{self.name}" takes {wanted} for {name}, and '
            f"got {value!r}, a {_jit._name_of(type(value))}")

    def stats(self):
        """The counters of JitStats by name, and "why" it is not replayed."""
        return _jit._stats_of(_jit._c.tjit_py_package_stats, self._handle)

    def verify(self):
        """Runs the example; "", or what differs from when it was saved."""
        return _jit._p.tjit_py_package_verify(self._handle).decode()

    def __reduce_ex__(self, protocol):
        raise TypeError(
            f'tjit: the package "{self.name}" cannot be pickled or copied; '
            "load its file again")

    def __repr__(self):
        arguments = ", ".join(f"{name}: {self._kinds[name]}"
                              for name in self.names)
        return (f"<tjit.Package {self.name}({arguments}) with "
                f"{len(self.tensors)} tensors>")


def load(who, path, tensors, warms_up):
    """The Package in a file."""
    path = _path(who, path)
    if type(warms_up) is not bool:
        raise TypeError(f"{who}: warms_up must be a bool, and is {warms_up!r}")
    named = [] if tensors is None else _named_tensors(who, tensors)
    return Package(_jit._p.tjit_py_load_package(
        path, len(named), _texts([name for name, _ in named]),
        _addresses([t for _, t in named]), warms_up))
