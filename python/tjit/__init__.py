"""tjit: makes eager PyTorch programs on CPUs faster without changing them.

    import tjit
    tjit.enable()

From then on the op sequences that repeat are found, replayed and compiled in the
background, and all results keep eager's bits. docs/python.md tells more.

Every function may be called from any thread. Where tjit cannot serve the torch of
this process it stays inert: enable() says why once, as a RuntimeWarning, and
returns False, and the program runs as it would without tjit.
"""
import contextlib as _contextlib
import ctypes as _ctypes
import difflib as _difflib
import inspect as _inspect
import json as _json
import os as _os
import threading as _threading
import warnings as _warnings

from . import _library

__all__ = [
    "AutoCompile", "Event", "EventCallback", "NoJit", "Package", "Pause",
    "Reading", "Region", "clear", "disable", "enable", "explain",
    "is_enabled", "jit", "load_package", "mark_opaque", "mark_step", "name",
    "name_of", "on_event", "options", "prewarm", "region_stats",
    "reset_memory_peak", "save_package", "save_profile", "save_torchscript",
    "set_region_options", "set_stance", "stats", "sync", "version",
    "wait_for_events", "wait_until_compiled", "write_sequences",
]

__version__ = "0.1.0"

# The functions of libtjit, or None and why.
_c, _why_not = _library.load()

from . import _jit  # noqa: E402 pylint: disable=all, as it needs torch
from . import _files  # noqa: E402
from ._events import Event, EventCallback  # noqa: E402
from ._files import Package  # noqa: E402

_jit.connect(_c)


def _error():
    return _c.tjit_py_error().decode(errors="replace")


def _check(result):
    """Raises what a call that has failed was told."""
    if result == -1:
        raise RuntimeError(_error())
    return result


_warned = False


def _warn_inert():
    global _warned
    if not _warned:
        _warned = True
        _warnings.warn(f"tjit stays inert: {_why_not}", RuntimeWarning,
                       stacklevel=3)


def _needs_tjit(who):
    if _c is None:
        raise RuntimeError(f"tjit.{who}: tjit stays inert: {_why_not}")


# ------------------------------------------------------------------ options

_KINDS = {"bool": bool, "int": int, "str": str}


def _kinds():
    """The type of each option, by its name."""
    kinds = {}
    for index in range(1000):
        text = _c.tjit_py_option(index)
        if text is None:
            break
        name, kind = text.decode().split()
        kinds[name] = _KINDS[kind]
    return kinds


def _text_of(where, name, value, kind):
    """The value of an option as the library takes it."""
    if kind is str and isinstance(value, _os.PathLike):
        value = _os.fspath(value)
    fits = isinstance(value, kind) and (kind is bool) == isinstance(value, bool)
    if not fits:
        raise TypeError(f"{where}: {name} must be a {kind.__name__}, and is "
                        f"{value!r}, a {type(value).__name__}")
    text = value if kind is str else str(int(value))
    if "\0" in text:
        raise ValueError(f"{where}: {name} has a zero byte in it")
    return text.encode("utf-8", "surrogateescape")


def _pack(where, chosen, kinds=None):
    """Options, pairs or a dict, as the library takes them: their number, names
    and values."""
    kinds = _kinds() if kinds is None else kinds
    pairs = list(chosen.items() if isinstance(chosen, dict) else chosen)
    for name, _ in pairs:
        if name in kinds:
            continue
        near = _difflib.get_close_matches(name, kinds, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise TypeError(f"{where}: there is no option {name}; {hint}"
                        f"There are {', '.join(sorted(kinds))}")
    values = [_text_of(where, name, value, kinds[name])
              for name, value in pairs]
    strings = _ctypes.c_char_p * len(pairs)
    return (len(pairs), strings(*(name.encode() for name, _ in pairs)),
            strings(*values))


def options():
    """The names of the options of enable(), with the type of each."""
    return {} if _c is None else _kinds()


# ------------------------------------------------------------------ on and off


def enable(**options):
    """Switches tjit on for the whole process.

    Options have the names of tjit::Options in C++, and docs/options.md says what
    each does; the environment (TJIT_*) wins over them. Calling it again changes
    them.
    Returns False where tjit stays inert, after saying why once.
    Raises TypeError for an unknown option or a value of a wrong type, ValueError
    for a value that is out of range.
    """
    if _c is None:
        _warn_inert()
        return False
    on = _c.tjit_py_enable(*_pack("tjit.enable", options))
    if on < 0:
        raise ValueError(_error())
    return bool(on)


def disable():
    """Runs what is deferred on all threads, then switches tjit off.

    What was learnt is kept for the next enable().
    """
    if _c is not None:
        _check(_c.tjit_py_disable())


def is_enabled():
    """True between enable() and disable(), on a thread that has no Pause."""
    return _c is not None and bool(_c.tjit_py_is_enabled())


class _Scope(_contextlib.ContextDecorator):
    """A scope of the library, entered as often as its object is.

    As a decorator it is entered at each call, on the thread of the call.
    """

    def __init__(self):
        # Of each thread: those that it has entered and not left.
        self._entered = _threading.local()

    def _begin(self):
        raise NotImplementedError

    def _end(self, handle):
        raise NotImplementedError

    def __enter__(self):
        handle = self._begin()
        if not hasattr(self._entered, "handles"):
            self._entered.handles = []
        self._entered.handles.append(handle)
        return self

    def __exit__(self, *exception):
        handles = getattr(self._entered, "handles", None)
        if not handles:
            raise RuntimeError(
                f"tjit.{type(self).__name__} must be left on the thread that "
                "has entered it")
        handle = handles.pop()
        if handle is not None:
            self._end(handle)
        return False

    def __call__(self, function):
        if (_inspect.iscoroutinefunction(function) or
                _inspect.isgeneratorfunction(function) or
                _inspect.isasyncgenfunction(function)):
            raise TypeError(
                f"tjit.{type(self).__name__} cannot decorate "
                f"{function.__qualname__}, which is suspended in its body: use "
                "a `with` statement around the ops instead")
        return super().__call__(function)


class AutoCompile(_Scope):
    """Switches tjit on in a `with` block, and back to what was before after it.

    scope: "thread", other threads are left alone, or "process". Options are
    those of enable(), with the same errors.
    """

    def __init__(self, scope="thread", **options):
        super().__init__()
        if scope not in ("thread", "process"):
            raise ValueError("tjit.AutoCompile: scope is "
                             f"{scope!r}; accepted are 'thread' and 'process'")
        self._is_process = scope == "process"
        self._options = None
        if _c is not None:
            self._options = _pack("tjit.AutoCompile", options)

    def _begin(self):
        if _c is None:
            _warn_inert()
            return None
        handle = _c.tjit_py_begin_auto_compile(self._is_process, *self._options)
        if handle is None:
            raise ValueError(_error())
        return handle

    def _end(self, handle):
        _c.tjit_py_end_auto_compile(handle)


class _PlainScope(_Scope):
    """One that takes no arguments: its _KIND names it in the library."""

    _KIND = ""

    def _begin(self):
        if _c is None:
            return None
        handle = getattr(_c, f"tjit_py_begin_{self._KIND}")()
        if handle is None:
            raise RuntimeError(_error())
        return handle

    def _end(self, handle):
        getattr(_c, f"tjit_py_end_{self._KIND}")(handle)


class Pause(_PlainScope):
    """Switches tjit off on this thread in a `with` block, or in a function.

    What the thread has deferred runs first. Each op in the block runs at its call
    and nothing is learnt of it; the sequence around the block goes on behind it.
    Pauses nest, and win over what is switched on inside them.
    """

    _KIND = "pause"


class Reading(_PlainScope):
    """Pointers that are taken in a `with` block are read, and let go of.

    Whoever takes a pointer, as by data_ptr() or numpy(), may keep it and write
    through it at any time, so from then on tjit runs ops that write the tensor at
    the call. This says that the block does neither; what it keeps all the same is
    not noticed. torch.save() is such a block by itself.
    """

    _KIND = "reading"


def _let_save_read():
    """torch.save() tells storages apart by their pointers, and forgets these."""
    from torch import serialization  # pylint: disable=all
    for name in ("_save", "_legacy_save"):
        save = getattr(serialization, name, None)
        if save is not None:
            setattr(serialization, name, Reading()(save))


if _c is not None:
    _let_save_read()


# ------------------------------------------------------------------ functions


def jit(fn=None, *, name="", verify_every=256, follow=False, strict=False,
        gradients=False):
    """A function that is replayed instead of being run. Also a decorator.

    The first call runs fn and records its ops, the second one runs it and
    confirms that it did the same. Later calls with tensors of the same form do
    not run it: its ops are replayed, with eager's bits. What fn does on the
    host happens only when it runs, so a number that may change has to be an
    argument. A float that is passed may change from call to call; another whole
    number, string or the like is another way, which is recorded anew. An
    optimizer that is passed takes its step at a replay, too.

    name: in reports. verify_every: every so many replays fn runs and is
    compared, and the 1st, 2nd, 4th and so on before; 0: never. follow: fn
    always runs, and is compared. strict: a reason not to replay is a
    RuntimeError. gradients: results may ask for gradients; backward passes
    through them are replayed as well (docs/jit.md). One of another kind than
    before runs fn again, and is a RuntimeError where what fn takes has changed.

    The function has stats(), reset() and __wrapped__. As a method it has one
    state for each object. Raises TypeError if a call has an argument, or a
    result, that cannot be taken from tensors and plain values (docs/python.md).
    """
    if _c is None:
        _warn_inert()

    def wrap(function):
        return _jit.make(function, name, verify_every, follow, strict,
                         gradients)

    return wrap if fn is None else wrap(fn)


class NoJit(_Scope):
    """Host code in a `with` block that a replay must not skip.

    A function of jit() that has such a block inside runs at each call. why: for
    people who read the program.
    """

    def __init__(self, why):
        super().__init__()
        _text_of("tjit.NoJit", "why", why, str)

    def _begin(self):
        if _c is not None:
            _c.tjit_py_no_jit()

    def _end(self, handle):
        pass


def save_package(path, fn, /, *args, tensors=None, arguments=None, given=(),
                 keeps_example=True, **kwargs):
    """Writes a function of jit(), as it is replayed, for load_package().

    args, kwargs: an example, with which fn is replayed already. tensors: names
    of tensors that fn takes from outside, as a dict or a torch.nn.Module; None:
    those of the modules that fn is called with or finds. arguments: names of
    the tensors and floats in the example, in order; else the parameters have
    them. given: names of tensors that stay out of the file. keeps_example:
    load_package() makes the function ready with it.

    Raises RuntimeError if fn is not replayed for the example, or something has
    no form in a file; TypeError and ValueError for wrong arguments.
    """
    _needs_tjit("save_package")
    _files.save("tjit.save_package", path, fn, args, kwargs, True, tensors,
                arguments, given, keeps_example)


def save_torchscript(path, fn, /, *args, tensors=None, arguments=None,
                     **kwargs):
    """Writes a function of jit() as a module for torch.jit.load().

    Arguments and errors are those of save_package(). The module takes tensors
    first, then floats, and returns a tensor, a tuple of several, or None.
    """
    _needs_tjit("save_torchscript")
    _files.save("tjit.save_torchscript", path, fn, args, kwargs, False, tensors,
                arguments)


def load_package(path, tensors=None, *, warms_up=True):
    """The function in a file of save_package(), of Python or C++.

    tensors: those that have to be given, and others to be used instead of the
    file's, by name, as a dict or a torch.nn.Module. warms_up: runs the example
    until it is replayed and compiled. Returns a Package, which is called like
    the function. Load files only of whom you would run programs.

    Raises RuntimeError naming the file and what is wrong with it.
    """
    _needs_tjit("load_package")
    return _files.load("tjit.load_package", path, tensors, warms_up)


# ------------------------------------------------------------------ regions


class Region(_Scope):
    """Names a part of the program that repeats: a `with` block, or a function.

    What runs in it is a sequence of its own, with the options of its name. One
    inside of another has both names, with a / between. It changes no result.
    Raises ValueError if the name is empty, too long, or has a * or ?.
    """

    def __init__(self, name):
        super().__init__()
        self._name = _text_of("tjit.Region", "name", name, str)

    def _begin(self):
        if _c is None:
            return None
        handle = _c.tjit_py_begin_region(self._name)
        if handle is None:
            raise ValueError(_error())
        return handle

    def _end(self, handle):
        _c.tjit_py_end_region(handle)


_REGION_KINDS = {"compile": bool, "threshold": int, "backend": str,
                 "shapes": str, "exclude": bool, "exclude_ops": str,
                 "strict": bool}


def set_region_options(pattern, **options):
    """Says what is to hold in the regions of that name and those inside.

    pattern: a name, in which a * stands for any text and a ? for one character.
    Options have the names of tjit::RegionOptions: compile, threshold, backend,
    shapes ("any", "exact"), exclude, exclude_ops (a list of names of ops),
    strict. The same pattern again replaces what was said.
    """
    where = "tjit.set_region_options"
    encoded = _text_of(where, "pattern", pattern, str)
    pairs = []
    for name, value in options.items():
        values = [value]
        if name == "exclude_ops":
            if isinstance(value, str):
                raise TypeError(f"{where}: exclude_ops must be a list of "
                                f"names, and is {value!r}")
            values = list(value)
        pairs += [(name, one) for one in values]
    packed = _pack(where, pairs, _REGION_KINDS)
    if _c is not None and _c.tjit_py_set_region_options(encoded, *packed) != 0:
        raise ValueError(_error())


def region_stats(name):
    """The counters of the region of that whole name by name; {} where inert."""
    encoded = _text_of("tjit.region_stats", "name", name, str)
    if _c is None:
        return {}
    text = _c.tjit_py_region_stats(encoded)
    if text is None:
        raise RuntimeError(_error())
    return _json.loads(text)


# ------------------------------------------------------------------ the stream


def mark_step():
    """Says that an iteration of the caller's loop ends here. Only a hint."""
    if _c is not None:
        _check(_c.tjit_py_mark_step())


def sync():
    """Runs the deferred ops of all threads: every byte is in memory then."""
    if _c is not None:
        _check(_c.tjit_py_sync())


def mark_opaque(name):
    """Makes an op run at the call, always.

    name: "aten::add.Tensor", "aten::add" for all overloads, or "myops::" for a
    namespace. Raises ValueError if it is empty.
    """
    encoded = _text_of("tjit.mark_opaque", "name", name, str)
    if _c is not None and _c.tjit_py_mark_opaque(encoded) != 0:
        raise ValueError(_error())


def clear():
    """Runs what is deferred, then forgets every sequence."""
    if _c is not None:
        _check(_c.tjit_py_clear())


# ------------------------------------------------------------------ compiling


def set_stance(stance):
    """Says whether sequences may be recorded and compiled from now on.

    "default": they are. "eager_on_recompile": what is replayed goes on, all else
    runs eagerly, which stats() counts and stderr tells once for each sequence.
    "fail_on_recompile": that is a RuntimeError at the next op that runs eagerly,
    or at mark_step(). The names are those of torch.compiler.set_stance().
    """
    encoded = _text_of("tjit.set_stance", "stance", stance, str)
    if _c is not None and _c.tjit_py_set_stance(encoded) != 0:
        raise ValueError(_error())


def wait_until_compiled(timeout=600.0):
    """Waits until the compiler has nothing to do; False after `timeout` seconds.

    Other threads run on meanwhile, and may ask for more.
    """
    milliseconds = _milliseconds("tjit.wait_until_compiled", timeout)
    if _c is None:
        return True
    return bool(_c.tjit_py_wait_until_compiled(milliseconds))


def _milliseconds(where, timeout):
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"{where}: timeout must be a number of seconds, and is "
                        f"{timeout!r}")
    if timeout != timeout:
        raise ValueError(f"{where}: timeout is not a number")
    return int(1000 * min(max(timeout, 0.0), 3e8))


def _file(where, file):
    return _text_of(where, "file", file, str)


def prewarm(file):
    """Has the sequences of a profile ready before they are seen.

    The file is of save_profile() or TJIT_PROFILE. Waits for the compiler, and
    returns the number of sequences. Raises RuntimeError if there is no such file,
    it is damaged, or is of another build.
    """
    encoded = _file("tjit.prewarm", file)
    _needs_tjit("prewarm")
    return _check(_c.tjit_py_prewarm(encoded))


def save_profile(file):
    """Writes the sequences that are replayed now; returns their number.

    Raises RuntimeError if the file cannot be written.
    """
    encoded = _file("tjit.save_profile", file)
    _needs_tjit("save_profile")
    return _check(_c.tjit_py_save_profile(encoded))


def write_sequences(folder, which="all"):
    """Writes sequences as files for `tjit replay`, from now on.

    Each is written once, when a replay of it is complete. Names of sequences, as
    explain() prints them, or their beginnings, with commas between, name those
    alone, and "slow" those that were measured to be slower than eager; "" ends
    it. Raises ValueError for anything else.
    """
    encoded = _text_of("tjit.write_sequences", "folder", folder, str)
    words = _text_of("tjit.write_sequences", "which", which, str)
    if _c is not None and _c.tjit_py_write_sequences(encoded, words) == -1:
        raise ValueError(_error())


# ------------------------------------------------------------------ seeing


def name(target, text=""):
    """Names a tensor, or all tensors of a module, for what tjit prints.

    A tensor is called `text` from now on in dumps, graphs, explain() and errors.
    A torch.nn.Module has its parameters and buffers called by their names with
    dots, `text` and a dot in front where it is not empty. A name changes no
    result. It belongs to the memory of the tensor and ends with it. Raises
    ValueError if a name is empty or longer than 200 bytes, or a tensor has no
    memory of its own.
    """
    import torch  # pylint: disable=all
    encoded = _text_of("tjit.name", "text", text, str)
    if isinstance(target, torch.Tensor):
        _name(target, encoded)
    elif isinstance(target, torch.nn.Module):
        front = encoded + b"." if encoded else b""
        for named in (target.named_parameters(), target.named_buffers()):
            for key, tensor in named:
                if tensor.layout == torch.strided:
                    _name(tensor, front + key.encode())
    else:
        raise TypeError("tjit.name: target must be a torch.Tensor or a "
                        f"torch.nn.Module, and is a {type(target).__name__}")


def _name(tensor, encoded):
    if _c is not None and _c.tjit_py_name(tensor._cdata, encoded) != 0:
        raise ValueError(_error())


def name_of(tensor):
    """The name of a tensor; "" if it has none."""
    import torch  # pylint: disable=all
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("tjit.name_of: tensor must be a torch.Tensor, and is a "
                        f"{type(tensor).__name__}")
    text = None if _c is None else _c.tjit_py_name_of(tensor._cdata)
    return "" if text is None else text.decode()


def on_event(call):
    """Has `call` called with an Event for everything that tjit does from now on.

    That is on a thread of tjit's own, a moment later and one after another. What
    call raises is printed and ends nothing. Inside, everything may be called;
    ops run there as under a Pause. Returns an EventCallback, whose remove() ends
    it; at the exit of the interpreter all end. Raises TypeError if `call` cannot
    be called.
    """
    if not callable(call):
        raise TypeError("tjit.on_event: call must be callable, and is "
                        f"{call!r}")
    return EventCallback(_c, call)


def wait_for_events(timeout=60.0):
    """Waits until all that has happened was told; False after `timeout` seconds,
    and inside a callback."""
    milliseconds = _milliseconds("tjit.wait_for_events", timeout)
    return _c is None or bool(_c.tjit_py_wait_for_events(milliseconds))


def stats():
    """The counters of the process by name (docs/counters.md); {} where inert."""
    if _c is None:
        return {}
    text = _c.tjit_py_stats()
    if text is None:
        raise RuntimeError(_error())
    return _json.loads(text)


def reset_memory_peak():
    """Starts stats()["memory_peak_bytes"] anew."""
    if _c is not None:
        _check(_c.tjit_py_reset_memory_peak())


def explain(verbose=False):
    """What tjit won so far, why not more and what to do, as lines of text."""
    if _c is None:
        return f"tjit stays inert: {_why_not}\n"
    text = _c.tjit_py_explain(int(bool(verbose)))
    if text is None:
        raise RuntimeError(_error())
    return text.decode(errors="replace")


def version():
    """The version of tjit, such as "0.1.0": of libtjit where that is loaded."""
    return __version__ if _c is None else _c.tjit_py_version().decode()
