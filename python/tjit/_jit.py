"""Functions that are replayed instead of being run: what tjit.jit() returns.

A call takes four steps here, and libtjit does the rest (tjit/jit.h):

1. The arguments become a key and leaves. Leaves are tensors and floats. The
   key has everything else: types, sizes of lists, names, whole numbers. With
   one key there is one packer, which makes the bytes that libtjit takes.
   Where tensors and floats alone are passed, the C library does all of it.
2. libtjit replays the call and returns the tensors, or a call that is open.
3. A replayed call returns what the form of the result makes of the tensors.
4. Else the function runs, and its result becomes a key, leaves and a form.

Who keeps a tensor of the result shows by its count of references.
"""
import collections
import ctypes
import dataclasses
import datetime
import enum
import functools
import inspect
import itertools
import operator
import struct
import sys
import threading
import types
import weakref

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from . import _library, _optim

# The functions of libtjit: _c gives the interpreter's lock back, _p keeps it.
_c = _p = _begin_plain = None
# What stands for an open call.
_Capsule = type(datetime.datetime_CAPI)


def connect(library):
    """Says by which functions of libtjit it goes; None: it is inert."""
    global _c, _p, _begin_plain
    if library is not None:
        _c, _p = library, _library.declare_jit(library)
        _begin_plain = _p.tjit_py_jit_begin_plain


# ------------------------------------------------------------- kinds of values

# What stands for them in a key.
_TENSOR, _PARAMETER, _FLOAT = object(), object(), object()


class _Unknown(Exception):
    """A value that can be no argument, or no result."""


class _Value:
    """A kind of which a value has to be the same."""

    @staticmethod
    def look(value, key, leaves):
        key.append(type(value))
        key.append(value)

    @staticmethod
    def form(value, forms):
        return lambda made: value


class _Holder:
    """A kind whose values hold others. What is in a key stands for all else."""

    @classmethod
    def look(cls, value, key, leaves):
        cls.begin(value, key)
        for child in cls.children(value):
            _look(child, key, leaves)

    @staticmethod
    def times(value):
        """How often the value holds each of its children."""
        return itertools.repeat(1)


class _List(_Holder):
    """Lists and plain tuples."""

    @staticmethod
    def begin(value, key):
        key.append(type(value))
        key.append(len(value))

    @staticmethod
    def children(value):
        return value

    @staticmethod
    def places(value):
        return [f"[{i}]" for i in range(len(value))]

    @staticmethod
    def form(value, forms):
        if type(value) is tuple:
            return lambda made: tuple([form(made) for form in forms])
        return lambda made: [form(made) for form in forms]


class _NamedTuple(_List):
    """What collections.namedtuple() makes, and what torch.max() returns."""

    @staticmethod
    def form(value, forms):
        make = getattr(type(value), "_make", type(value))
        return lambda made: make([form(made) for form in forms])


class _Dict(_Holder):

    @staticmethod
    def begin(value, key):
        key.append(type(value))
        key.append(len(value))
        for name in value:
            if _kind_of(name) is not _Value:
                raise _Unknown
            key.append(type(name))
            key.append(name)

    @staticmethod
    def children(value):
        return value.values()

    @staticmethod
    def places(value):
        return [f"[{name!r}]" for name in value]

    @staticmethod
    def form(value, forms):
        make, named = type(value), list(zip(value, forms))
        return lambda made: make([(name, form(made)) for name, form in named])


class _Dataclass(_Holder):

    @staticmethod
    def names(value):
        """Of its fields, and of what else was set."""
        names = [field.name for field in dataclasses.fields(value)
                 if hasattr(value, field.name)]
        more = getattr(value, "__dict__", ())
        if len(more) > len(names):
            names += [name for name in more if name not in names]
        return names

    @classmethod
    def begin(cls, value, key):
        key.append(type(value))
        key.append(tuple(cls.names(value)))

    @classmethod
    def children(cls, value):
        return [getattr(value, name) for name in cls.names(value)]

    @classmethod
    def places(cls, value):
        return ["." + name for name in cls.names(value)]

    @classmethod
    def form(cls, value, forms):
        kind, named = type(value), list(zip(cls.names(value), forms))

        def make(made):
            copy = object.__new__(kind)
            for name, form in named:
                object.__setattr__(copy, name, form(made))
            return copy

        return make


class _Output(_Dict):
    """Dataclasses that are dicts of their fields, as models of transformers
    return."""

    @staticmethod
    def times(value):
        fields = getattr(value, "__dict__", {})
        return [1 + (fields.get(name) is child)
                for name, child in value.items()]

    @staticmethod
    def form(value, forms):
        make, named = type(value), list(zip(value, forms))
        return lambda made: make(
            **{name: form(made) for name, form in named})


class _Module:
    """The same object, and the same mode of it and of all modules in it."""

    @staticmethod
    def look(value, key, leaves):
        key.append(_modes_of(value))


_serials = itertools.count(1)
_seen_objects = {}  # by id: a weak reference, which ends the entry, and bytes


def _name_of_object(value):
    """Bytes that no other module or optimizer has or had."""
    known = _seen_objects.get(id(value))
    if known is None:
        place = id(value)
        gone = weakref.ref(value, lambda _: _seen_objects.pop(place, None))
        known = _seen_objects.setdefault(
            place, (gone, b"M%d:" % next(_serials)))
    return known[1]


def _modes_of(module):
    """Bytes that stand for the module and the modes in it."""
    modes = _p.tjit_py_modes_of_module(module)
    if modes is None:  # it is of TorchScript, or holds itself
        modes = repr([(id(m), m.training) for m in module.modules()]).encode()
        modes = b"R%d:" % len(modes) + modes
    return _name_of_object(module) + modes


class _Leaves(list):
    """Tensors and floats. seen: optimizers, once more each; None: they are not
    looked at."""

    __slots__ = ("seen",)


class _Optimizer:
    """The same object, which a replay counts a step of."""

    @staticmethod
    def look(value, key, leaves):
        key.append(type(value))
        key.append(_name_of_object(value))
        seen = leaves.seen
        if seen is not None and not any(s.optimizer is value for s in seen):
            seen.append(_optim.look(value, key, leaves, _p))


class _Refused:
    """A kind that can be passed and returned nowhere."""

    @staticmethod
    def look(value, key, leaves):
        raise _Unknown


_VALUES = (bool, int, str, type(None), torch.dtype, torch.device, torch.layout,
           torch.memory_format, torch.Size)
_kinds = {**{kind: _Value for kind in _VALUES}, list: _List, tuple: _List,
          dict: _Dict, collections.OrderedDict: _Dict}


def _kind_of(value):
    kind = _kinds.get(type(value))
    if kind is None:
        kind = _find_kind(type(value))
        if len(_kinds) > 2000:  # a program that makes types
            for other in list(_kinds)[1000:]:
                _kinds.pop(other, None)
        _kinds[type(value)] = kind
    return kind


def _find_kind(kind):
    if issubclass(kind, enum.Enum):
        return _Value
    if issubclass(kind, Module):
        return _Module
    if issubclass(kind, Optimizer):
        return _Optimizer
    if issubclass(kind, tuple) and (hasattr(kind, "_fields") or
                                    hasattr(kind, "n_sequence_fields")):
        return _NamedTuple
    if dataclasses.is_dataclass(kind) and issubclass(
            kind, collections.OrderedDict):
        return _Output
    if dataclasses.is_dataclass(kind) and not issubclass(
            kind, (dict, list, tuple, Tensor, str, int, float)):
        return _Dataclass
    return _Refused


def _look(value, key, leaves):
    """Adds the value to a key and its tensors and floats to the leaves."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        key.append(_TENSOR if kind is Tensor else _PARAMETER)
        leaves.append(value)
    elif kind is float:
        key.append(_FLOAT)
        leaves.append(value)
    else:
        (_kinds.get(kind) or _kind_of(value)).look(value, key, leaves)


def _find_unknown(value, path, refused):
    """Path and value of the first one in `value` of the kinds, or None."""
    if type(value) in (Tensor, Parameter, float):
        return None
    kind = _kind_of(value)
    if kind in refused:
        return path, value
    if not issubclass(kind, _Holder):
        return None
    if issubclass(kind, _Dict):
        for name in value:
            if _kind_of(name) is not _Value:
                return f"{path}, in its keys", name
    for place, child in zip(kind.places(value), kind.children(value)):
        found = _find_unknown(child, path + place, refused)
        if found is not None:
            return found
    return None


def _advice(value):
    """What to do with a value that cannot be passed or returned."""
    if isinstance(value, Tensor):
        return "a subclass of torch.Tensor; use .as_subclass(torch.Tensor)"
    if isinstance(value, float):
        return "a subclass of float; use float()"
    if isinstance(value, (int, str)):
        return "a subclass of a plain type; use int() or str()"
    if type(value).__module__ == "numpy":
        return "of numpy; use torch.from_numpy(), float() or int()"
    if callable(value):
        return ("a function or an object that is called; let the function find "
                "it by itself, as from a closure")
    return ("neither a tensor, number, string, enum, nor a list, tuple, dict, "
            "dataclass or torch.nn.Module; pass the tensors and numbers in it")


# ------------------------------------------------------------- keys and bytes

_type_numbers = weakref.WeakKeyDictionary()


def _bytes_of(atom):
    """Bytes that tell an entry of a key from each other one."""
    kind = type(atom)
    if atom is _TENSOR:
        return b"t"
    if atom is _PARAMETER:
        return b"p"
    if atom is _FLOAT:
        return b"n"
    if kind is str:
        text = atom.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(text) + text
    if kind is int:
        return b"i%d;" % atom
    if kind is bool:
        return b"+" if atom else b"-"
    if kind is bytes:  # of _modes_of()
        return atom
    if atom is None:
        return b"0"
    if isinstance(atom, type):
        number = _type_numbers.get(atom)
        if number is None:
            number = _type_numbers.setdefault(atom, next(_serials))
        return b"T%d;" % number
    if kind is tuple or kind is torch.Size:
        return b"(%d;" % len(atom) + b"".join(map(_bytes_of, atom))
    if isinstance(atom, enum.Enum):
        return b"E" + _bytes_of(f"{atom.name} {atom.value!r}")
    return b"o" + _bytes_of(str(atom))  # types and devices of torch


def _text_of(key):
    return b"".join(map(_bytes_of, key))


_packers = {}  # by key
_MOST_PACKERS = 4096


def _packer_of(key, leaves):
    """What makes bytes for tjit_py_jit_begin() of addresses and floats."""
    packer = _packers.get(key)
    if packer is None:
        kinds = b"".join(_LETTERS.get(type(leaf), b"t") for leaf in leaves)
        text = _text_of(key)
        head = struct.pack("=II", len(kinds), len(text)) + kinds + text
        head += b"\0" * (-len(head) % 8)
        values = kinds.translate(bytes.maketrans(b"tnc", b"Qdd")).decode()
        packer = functools.partial(struct.Struct(f"={len(head)}s{values}").pack,
                                   head)
        if len(_packers) >= _MOST_PACKERS:
            _packers.clear()
        _packers[key] = packer
    return packer


_LETTERS = {float: b"n", _optim.Computed: b"c"}


def _values_of(leaves):
    return [leaf if isinstance(leaf, float) else leaf._cdata for leaf in leaves]


# ------------------------------------------------------------- results


class _Result:
    """What a function has returned, which `box` alone holds."""

    def __init__(self, box):
        self.key = []
        self.tensors = []
        self._holders = []  # lists, dicts and so on
        self._spans = []  # of each: the tensors in it
        self._visited = set()
        # How often what is returned holds an object.
        self._holds = collections.Counter()
        form = self._visit(box[0], 1)
        # Null in C: the result is the tensor.
        self.form = None if type(box[0]) is Tensor else form

    def _visit(self, value, holds):
        """The form of a value, which a holder that is met for the first time
        holds so often; 0: it is met again."""
        self._holds[id(value)] += holds
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            self.key.append(_TENSOR if kind is Tensor else _PARAMETER)
            self.tensors.append(value)
            return operator.itemgetter(len(self.tensors))
        if kind is float:  # two that are equal may have other bits
            self.key += float, *struct.unpack("=q", struct.pack("=d", value))
            return _Value.form(value, ())
        kind = _kind_of(value)
        if kind is _Value:
            kind.look(value, self.key, ())
            return kind.form(value, ())
        if not issubclass(kind, _Holder):
            raise _Unknown
        is_new = id(value) not in self._visited
        self._visited.add(id(value))
        first = len(self.tensors)
        kind.begin(value, self.key)
        forms = [self._visit(child, is_new * times) for child, times
                 in zip(kind.children(value), kind.times(value))]
        self._holders.append(value)
        self._spans.append((first, len(self.tensors)))
        return kind.form(value, forms)

    def kept(self):
        """For each tensor: 1 if somebody else in Python holds it, or a holder
        of it."""
        kept = bytearray(len(self.tensors))
        for i, more in enumerate(_references(self.tensors, self._holds)):
            # What libtorch holds, too, holds the object.
            kept[i] = more > (self.tensors[i]._use_count() > 1)
        for i, more in enumerate(_references(self._holders, self._holds)):
            if more > 0:
                first, end = self._spans[i]
                kept[first:end] = b"\1" * (end - first)
        return bytes(kept)


def _references(objects, holds):
    """How many references each has beside those of the list and of `holds`."""
    times = collections.Counter(map(id, objects))
    return [sys.getrefcount(objects[i]) - _OWN_REFERENCES -
            times[id(objects[i])] - holds[id(objects[i])]
            for i in range(len(objects))]


# What the interpreter adds when it asks.
_OWN_REFERENCES = 0
_OWN_REFERENCES = _references([object()], collections.Counter())[0]


# ------------------------------------------------------------- functions


class _State:
    """What libtjit knows of one function."""

    __slots__ = ("handle", "watched", "gradients", "plain", "_delete")

    def __init__(self, options, watched):
        name, *others = options
        self._delete = _c.tjit_py_jit_delete
        self.handle = _p.tjit_py_jit_new(name.encode("utf-8", "replace"),
                                         *others)
        self.watched = watched
        self.gradients = options[-1]
        is_plain = watched is None and not self.gradients
        self.plain = self.handle if is_plain else None

    def __del__(self):
        handle = getattr(self, "handle", None)
        if handle:
            self._delete(handle)

    def reset(self):
        _c.tjit_py_jit_reset(self.handle)

    def stats(self):
        return _stats_of(_c.tjit_py_jit_stats, self.handle)


# Of tjit::JitStats, but for `why`.
_STATS = ("calls", "replays", "recordings", "verified", "not_same", "plans")



def _stats_of(ask, handle):
    numbers = (ctypes.c_longlong * len(_STATS))()
    why = ask(handle, numbers)
    return {**dict(zip(_STATS, numbers)), "why": why.decode(errors="replace")}


# How many modes see the calls of functions of torch. Those that see ops show by
# the state of dispatch, which libtjit compares.
_has_modes = torch._C._len_torch_function_stack


def _call(target, args, kwargs):
    """Calls target.__wrapped__, or replays it."""
    if _p is None or _has_modes():
        return target.__wrapped__(*args, **kwargs)
    state, out, seen = target._state, None, []
    if not kwargs and state.watched is not None and not state.gradients:
        more = state.watched.modes(target)
        out = _p.tjit_py_jit_begin_watched(state.handle, args, more, len(more))
    if out is None:
        packed = _pack(target, state, args, kwargs, seen)
        if seen and _optim.has_modes():
            return target.__wrapped__(*args, **kwargs)
        again = None
        if state.gradients and not seen:
            again = functools.partial(
                _run_again, target._weak(), *_frozen_arguments(args, kwargs),
                packed)
        out = _p.tjit_py_jit_begin(state.handle, packed, again)
    kind = type(out)
    if kind is _Capsule:
        return _run(target, state, out, args, kwargs, seen)
    for one in seen:
        one.move_on(_p)
    return out[0](out) if kind is tuple else out


def _run(target, state, call, args, kwargs, seen=()):
    """Runs the function in a call that is open."""
    is_watched = False
    try:
        before = None
        if _p.tjit_py_jit_wants(call):
            before = _pack(target, state, args, kwargs)
            is_watched = True
            _begin_optimizers(call, seen)
        box = [target.__wrapped__(*args, **kwargs)]
        if before is not None:
            if not all([one.has_moved_on() for one in seen]):
                _p.tjit_py_jit_refuse_state(call)
            out = _end(target, call, box, args, kwargs, before)
            if out is not None:
                box = [out[0](out) if type(out) is tuple else out]
    finally:
        _p.tjit_py_jit_abandon(call)
        if is_watched:
            for one in seen:
                one.end()
    return box[0]


def _frozen_arguments(args, kwargs):
    """The arguments as they are now, for a graph that may outlive them. Whoever
    collects garbage sees nothing of a graph, so it holds tensors alone."""
    if not kwargs and all(type(a) in _LEAVES for a in args):
        return args, kwargs
    return _copy(args, _frozen), _copy(kwargs, _frozen)


_LEAVES = frozenset((Tensor, Parameter, float))


class _Weak:
    """A module among frozen arguments."""

    def __init__(self, value):
        self.value = weakref.ref(value)


def _frozen(value):
    return _Weak(value) if isinstance(value, Module) else value


def _thawed(value):
    if type(value) is not _Weak:
        return value
    module = value.value()
    if module is None:
        raise ReferenceError("a module that it was called with is gone")
    return module


def _copy(value, change):
    """The value, or a holder like it, with what `change` makes of all that is
    in it."""
    kind = _kind_of(value)
    if not issubclass(kind, _Holder):
        return change(value)
    forms = [lambda made, child=_copy(child, change): child
             for child in kind.children(value)]
    return kind.form(value, forms)(None)


def _run_again(weak, args, kwargs, packed):
    """Runs the function of a replayed call for the graph behind its results.

    Returns the tensors in its result, or why there are none.
    """
    target = weak()
    if target is None:
        return "it is gone: keep it as long as such graphs"
    try:
        args, kwargs = _copy(args, _thawed), _copy(kwargs, _thawed)
        if _pack(target, target._state, args, kwargs) != packed:
            return (f"{target.__name__}() is called with other arguments, or "
                    "another mode of a module, than before")
        return tuple(_Result([target.__wrapped__(*args, **kwargs)]).tensors)
    except _Unknown:
        return f"{target.__name__}() returns another result than before"
    except Exception as error:  # libtjit throws it on
        return f"{target.__name__}() raises {type(error).__name__}: {error}"


def _begin_optimizers(call, seen):
    for one in seen:
        parameters = [p._cdata for p in one.parameters]
        _p.tjit_py_jit_allow_updates(
            call, len(parameters),
            (ctypes.c_uint64 * len(parameters))(*parameters))
        one.begin()


def _pack(target, state, args, kwargs, seen=None):
    """The arguments as bytes for libtjit. Optimizers come to `seen`."""
    key, leaves = [len(args)], _Leaves()
    leaves.seen = seen
    try:
        for value in args:
            _look(value, key, leaves)
        for name, value in kwargs.items():
            key.append(name)
            _look(value, key, leaves)
    except _Unknown:
        raise _refusal_of_argument(target, args, kwargs) from None
    if state.watched is not None:
        key.append(state.watched.modes(target))
    return _packer_of(tuple(key), leaves)(*_values_of(leaves))


def _end(target, call, box, args, kwargs, before):
    """The function has returned what is in the box, and libtjit is told.

    Returns None, or what a replay gives, which is to be returned instead."""
    try:
        result = _Result(box)
    except _Unknown:
        found = _find_unknown(box[0], "the result", _NO_RESULTS)
        if type(found[1]) is _optim.Step:  # it is one of the state again
            return None
        raise _refusal_of_result(target, *found) from None
    try:
        is_changed = _pack(target, target._state, args, kwargs) != before
    except TypeError:  # something else was put into an argument
        is_changed = True
    tensors, form = result.tensors, result.form
    text = _text_of(result.key)
    addresses = (ctypes.c_uint64 * len(tensors))(*[t._cdata for t in tensors])
    return _p.tjit_py_jit_end(
        call, is_changed, len(tensors), addresses, result.kept(), text,
        len(text), None if form is None else id(form))


def _named_arguments(target, args, kwargs):
    """Pairs of a name and a value."""
    try:
        names = list(inspect.signature(target.__wrapped__).parameters)
    except (TypeError, ValueError):
        names = []
    return [*((names[i] if i < len(names) else f"argument {i}", value)
              for i, value in enumerate(args)), *kwargs.items()]


def _refusal_of_argument(target, args, kwargs):
    for name, value in _named_arguments(target, args, kwargs):
        found = _find_unknown(value, name, (_Refused,))
        if found is not None:
            path, value = found
            return TypeError(
                f"tjit.jit: {target.__name__}() cannot be called with {path} "
                f"of type {_name_of(type(value))}, which is {_advice(value)}")
    raise AssertionError("an argument is refused, and none is found")


_NO_RESULTS = _Refused, _Module, _Optimizer


def _refusal_of_result(target, path, value):
    return TypeError(
        f"tjit.jit: {target.__name__}() returns what cannot be returned at a "
        f"replay: {path} is of type {_name_of(type(value))}. Return tensors, "
        "and lists, tuples, dicts or dataclasses of them")


def _name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}".replace("builtins.", "")


class _Watched:
    """The modules that a function finds by itself at its first call: the object
    that it belongs to, attributes of that, variables of functions around it and
    globals that it names; and those that functions find which it names. Their
    modes are looked at like those of arguments."""

    _MOST_FUNCTIONS = 200

    def __init__(self, function, owner):
        # Each returns a module, given the object that the function belongs to.
        self._finders = []
        if isinstance(owner, Module):
            self._finders.append(lambda owner: owner)
        self._finders += [lambda owner, name=name: getattr(owner, name, None)
                          for name in self._attributes(owner)]
        found, pending = set(), [function]
        while pending and len(found) < self._MOST_FUNCTIONS:
            one = pending.pop()
            if id(one) not in found:
                found.add(id(one))
                self._look_at(one, found, pending)

    def _look_at(self, function, found, pending):
        """Adds finders, and the functions that this one names to `pending`."""
        if isinstance(function, Module):
            self._finders.append(lambda _: function)
            return
        if isinstance(function, (types.MethodType, _Method)):
            owner = function.__self__
            pending.append(owner if isinstance(owner, Module) else None)
            self._finders += [lambda _, name=name: getattr(owner, name, None)
                              for name in self._attributes(owner)]
            function = function.__func__
        # What decorators have around them.
        pending.append(getattr(function, "__wrapped__", None))
        if not isinstance(function, types.FunctionType):
            return
        if str(function.__module__).partition(".")[0] == "torch":
            return
        seen = function.__globals__
        for name in _names_in(function.__code__):
            self._meet(seen.get(name), (id(seen), name), found, pending,
                       lambda _, name=name: seen.get(name))
        for cell in function.__closure__ or ():
            self._meet(_content_of(cell), id(cell), found, pending,
                       lambda _, cell=cell: _content_of(cell))

    def _meet(self, value, place, found, pending, finder):
        if isinstance(value, Module):
            if place not in found:
                found.add(place)
                self._finders.append(finder)
        elif isinstance(value, (types.FunctionType, types.MethodType,
                                _Callable)):
            pending.append(value)

    @staticmethod
    def _attributes(owner):
        """Names of those that are modules; those of a module are in it."""
        if owner is None or isinstance(owner, Module):
            return []
        return [name for name, value in getattr(owner, "__dict__", {}).items()
                if isinstance(value, Module)]

    def __bool__(self):
        return bool(self._finders)

    def found(self, target):
        """What is there now, in a fixed order; most are modules."""
        owner = getattr(target, "__self__", None)
        return [find(owner) for find in self._finders]

    def modes(self, target):
        modes = b""
        for module in self.found(target):
            modes += _modes_of(module) if isinstance(module, Module) else b"0"
        return modes


def _names_in(code):
    """Of globals, in the code and in that of functions inside of it."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names_in(constant)
    return names


def _content_of(cell):
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


class _Callable:
    """What both a function and a method of one object offer."""

    __slots__ = ()

    def __call__(self, *args, **kwargs):
        # What _call() does for most calls.
        if kwargs or self._plain is None or _has_modes():
            return _call(self, args, kwargs)
        out = _begin_plain(self._plain, args)
        kind = type(out)
        if kind is Tensor:
            return out
        if kind is tuple:
            return out[0](out)
        if kind is _Capsule:
            return _run(self, self._state, out, args, kwargs)
        # None: the arguments are others.
        return _call(self, args, kwargs) if out is None else out

    def stats(self):
        """The counters of JitStats by name, and "why" it is not replayed."""
        if _c is None:
            return {**dict.fromkeys(_STATS, 0), "why": "tjit stays inert"}
        return self._state.stats()

    def reset(self):
        """Forgets what was recorded, and a reason not to replay."""
        if _c is not None:
            self._state.reset()

    def __reduce_ex__(self, protocol):
        raise TypeError(
            f"tjit.jit: {self.__name__} cannot be pickled or copied, as what "
            "is recorded belongs to one function of this process; copy its "
            "__wrapped__, and wrap the copy")

    def __repr__(self):
        return f"<tjit.jit of {self.__wrapped__!r}>"


class Jit(_Callable):
    """A function that is replayed; for each object a method of it."""

    __slots__ = ("__dict__", "__weakref__", "_plain", "_made", "_options",
                 "_lock", "_states")

    def __init__(self, function, name, *options):
        functools.update_wrapper(  # an object has state of its own
            self, function,
            updated=("__dict__",) if inspect.isroutine(function) else ())
        if not hasattr(self, "__name__"):  # an object that is called
            self.__name__ = type(function).__name__
        name = name or getattr(function, "__qualname__", self.__name__)
        self._options = name, *options
        self._lock = threading.Lock()
        self._made = self._plain = None
        self._states = {}  # by id of an object: a weak reference and a state

    @property
    def _state(self):
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._new_state(None)
                    self._plain = self._made.plain
        return self._made

    def _weak(self):
        """What returns the function as long as it is there, else None."""
        return weakref.ref(self)

    def _new_state(self, owner):
        return _State(self._options, _Watched(self.__wrapped__, owner) or None)

    def __get__(self, owner, kind=None):
        return self if owner is None else _Method(self, owner)

    def _state_of(self, owner):
        known = self._states.get(id(owner))
        if known is not None:
            return known[1]
        place = id(owner)
        with self._lock:
            if place not in self._states:
                try:
                    gone = weakref.ref(
                        owner, lambda _: self._states.pop(place, None))
                except TypeError:
                    raise TypeError(
                        f"tjit.jit: {self.__name__} is a method of a "
                        f"{_name_of(type(owner))}, which has no weak "
                        "references; add \"__weakref__\" to its __slots__"
                    ) from None
                self._states[place] = gone, self._new_state(owner)
            return self._states[place][1]


class _Method(_Callable):
    """The method of one object."""

    __slots__ = ("_jit", "__self__", "_state", "_plain")
    __doc__ = property(lambda self: self._jit.__doc__)

    def __init__(self, jit, owner):
        self._jit = jit
        self.__self__ = owner
        self._state = self._plain = None
        if _c is not None:
            self._state = jit._state_of(owner)
            self._plain = self._state.plain

    def _weak(self):
        jit, owner = weakref.ref(self._jit), weakref.ref(self.__self__)

        def method():
            found = jit(), owner()
            return None if None in found else _Method(*found)

        return method

    @property
    def __wrapped__(self):
        return types.MethodType(self._jit.__wrapped__, self.__self__)

    @property
    def __func__(self):
        return self._jit

    def __getattr__(self, name):  # __name__, __doc__ and so on
        return getattr(self._jit, name)


def make(function, name, verify_every, follow, strict, gradients):
    """What tjit.jit() returns of a function."""
    if not callable(function) or isinstance(
            function, (staticmethod, classmethod)):
        raise TypeError(
            f"tjit.jit: {function!r} is no function; put @tjit.jit below "
            "@staticmethod and @classmethod")
    if (inspect.iscoroutinefunction(function) or
            inspect.isgeneratorfunction(function) or
            inspect.isasyncgenfunction(function)):
        raise TypeError(
            f"tjit.jit: {function.__qualname__} is suspended in its body, and "
            "such a function cannot be replayed: wrap the ops in between")
    for option, value, kind in (
            ("name", name, str), ("verify_every", verify_every, int),
            ("follow", follow, bool), ("strict", strict, bool),
            ("gradients", gradients, bool)):
        if type(value) is not kind:
            raise TypeError(
                f"tjit.jit: {option} must be a {kind.__name__}, and is "
                f"{value!r}, a {type(value).__name__}")
    if not 0 <= verify_every < 1 << 63:
        raise ValueError(
            f"tjit.jit: verify_every is {verify_every}; accepted are 0 (never) "
            "and above")
    return Jit(function, name, verify_every, follow, strict, gradients)
