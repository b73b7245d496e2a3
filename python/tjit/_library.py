"""Loads libtjit into this process so that it gets libtorch's calls.

libtjit replaces functions that libtorch exports, and the loader takes the first
definition that it finds. `libtjit_preload.so`, the shim of `tjit run`, has all of
these names and needs nothing but libc. So it is opened first, for all libraries
to see. Then torch is imported, whose calls bind to the shim, and the shim loads
libtjit. Where torch was imported already the shim writes the same addresses into
the slots of the libraries that are there (runtime/preload/rebind.h). Under
`tjit run` the shim is there and has done all of it.
"""
import ctypes
import os
import sys

# Of python/library/c_interface.h.
INTERFACE = 5

_HERE = os.path.dirname(os.path.realpath(__file__))
_FOLDER = os.path.realpath(os.path.join(_HERE, "lib"))


# A reader of bytes that libtjit interposes: const float* data of a tensor.
_READER = "_ZNK2at10TensorBase14const_data_ptrIfEEPKT_v"


def _mappings():
    """First and last address and path of each file that is mapped."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6:
                first, _, last = words[0].partition("-")
                yield int(first, 16), int(last, 16), words[5]


def _loaded(name):
    """The path of a library of this process by the name of its file, or None."""
    for _, _, path in _mappings():
        if os.path.basename(path) == name:
            return path
    return None


def _library_of(symbol):
    """The file whose definition of `symbol` comes first in this process."""
    try:
        function = getattr(ctypes.CDLL(None), symbol)
    except AttributeError:
        return None
    address = ctypes.cast(function, ctypes.c_void_p).value
    for first, last, path in _mappings():
        if first <= address < last:
            return os.path.basename(path)
    return None


def _import_torch(shim):
    """Imports torch while the shim waits, or says what is missing."""
    shim.tjit_shim_hold(1)
    try:
        import torch  # noqa: F401 pylint: disable=all
    except ImportError as error:
        raise ImportError(
            "tjit needs torch 2.13 or newer, and it cannot be imported: "
            f"{error}") from error
    finally:
        shim.tjit_shim_hold(-1)


def _open(name):
    path = os.path.join(_FOLDER, name)
    try:
        return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f"tjit is installed incompletely: {path} cannot be loaded: {error}. "
            "Install it again with `pip install` from its sources") from error


def _load_shim():
    """The shim of this process: of `tjit run`, else this package's."""
    path = _loaded("libtjit_preload.so")
    return _open("libtjit_preload.so") if path is None else ctypes.CDLL(path)


def _functions(folder):
    """libtjit_python.so of the libtjit that this process has loaded."""
    path = os.path.join(folder, "libtjit_python.so")
    try:
        library = ctypes.CDLL(path)
        interface = library.tjit_py_interface()
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"this process runs the libtjit.so of {folder}, which has no "
            f"libtjit_python.so that can be used: {error}") from error
    if interface != INTERFACE:
        raise ImportError(
            f"{path} has interface {interface}, but this package needs "
            f"{INTERFACE}: install the package of the same tjit")
    return library


def load():
    """The functions of libtjit, or None and why tjit stays inert."""
    if sys.platform != "linux":
        return None, f"tjit is for Linux on x86-64, and this is {sys.platform}"
    own = _loaded("libtjit.so")
    if own is None:
        shim = _load_shim()
        shim.tjit_shim_load.restype = ctypes.c_char_p
        _import_torch(shim)
        why_not = shim.tjit_shim_load()
        own = _loaded("libtjit.so")
        if own is None:
            return None, (why_not or b"nobody says why").decode()
    elif (_loaded("libtjit_preload.so") is None and
          _library_of(_READER) != "libtjit.so"):
        return None, (
            f"{own} was loaded by itself and behind libtorch, whose calls do not "
            "come to it; let `import tjit` load it, or use `tjit run`")
    return declare(_functions(os.path.dirname(own))), ""


def declare(library):
    """Gives each function its types."""
    strings = ctypes.POINTER(ctypes.c_char_p)
    options = [ctypes.c_int, strings, strings]
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []),
            ("error", ctypes.c_char_p, []),
            ("option", ctypes.c_char_p, [ctypes.c_int]),
            ("enable", ctypes.c_int, options),
            ("disable", ctypes.c_int, []),
            ("is_enabled", ctypes.c_int, []),
            ("begin_auto_compile", ctypes.c_void_p, [ctypes.c_int, *options]),
            ("end_auto_compile", None, [ctypes.c_void_p]),
            ("begin_pause", ctypes.c_void_p, []),
            ("end_pause", None, [ctypes.c_void_p]),
            ("begin_reading", ctypes.c_void_p, []),
            ("end_reading", None, [ctypes.c_void_p]),
            ("begin_region", ctypes.c_void_p, [ctypes.c_char_p]),
            ("end_region", None, [ctypes.c_void_p]),
            ("set_region_options", ctypes.c_int, [ctypes.c_char_p, *options]),
            ("region_stats", ctypes.c_char_p, [ctypes.c_char_p]),
            ("no_jit", None, []),
            ("jit_delete", None, [ctypes.c_void_p]),
            ("jit_reset", None, [ctypes.c_void_p]),
            ("jit_stats", ctypes.c_char_p,
             [ctypes.c_void_p, ctypes.POINTER(ctypes.c_longlong)]),
            ("package_delete", None, [ctypes.c_void_p]),
            ("package_stats", ctypes.c_char_p,
             [ctypes.c_void_p, ctypes.POINTER(ctypes.c_longlong)]),
            ("set_stance", ctypes.c_int, [ctypes.c_char_p]),
            ("name", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
            ("name_of", ctypes.c_char_p, [ctypes.c_void_p]),
            ("on_event", ctypes.c_ulonglong, [ctypes.c_void_p]),
            ("remove_on_event", None, [ctypes.c_ulonglong]),
            ("wait_for_events", ctypes.c_int, [ctypes.c_longlong]),
            ("mark_step", ctypes.c_int, []),
            ("sync", ctypes.c_int, []),
            ("clear", ctypes.c_int, []),
            ("reset_memory_peak", ctypes.c_int, []),
            ("mark_opaque", ctypes.c_int, [ctypes.c_char_p]),
            ("prewarm", ctypes.c_longlong, [ctypes.c_char_p]),
            ("save_profile", ctypes.c_longlong, [ctypes.c_char_p]),
            ("write_sequences", ctypes.c_int,
             [ctypes.c_char_p, ctypes.c_char_p]),
            ("wait_until_compiled", ctypes.c_int, [ctypes.c_longlong]),
            ("stats", ctypes.c_char_p, []),
            ("explain", ctypes.c_char_p, [ctypes.c_int])):
        _declare(library, name, result, arguments)
    return library


def _declare(library, name, result, arguments):
    function = getattr(library, "tjit_py_" + name)
    function.restype = result
    function.argtypes = arguments


# --- python/library/jit_interface.h and file_interface.h


class FileOptions(ctypes.Structure):
    """TjitFileOptions"""
    _fields_ = [
        ("tensor_count", ctypes.c_int),
        ("tensor_names", ctypes.POINTER(ctypes.c_char_p)),
        ("tensors", ctypes.POINTER(ctypes.c_uint64)),
        ("argument_count", ctypes.c_int),
        ("arguments", ctypes.POINTER(ctypes.c_char_p)),
        ("given_count", ctypes.c_int),
        ("given", ctypes.POINTER(ctypes.c_char_p)),
        ("keeps_example", ctypes.c_int),
        ("structure", ctypes.c_char_p),
    ]



# Those of TjitPython, in its order: libtorch_python's, then Python's.
_WRAP = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
_FUNCTIONS = (
    "PyTuple_New", "PyTuple_SetItem", "PyCapsule_New", "PyCapsule_GetPointer",
    "PyErr_SetString", "Py_IncRef", "Py_DecRef", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyGILState_Ensure", "PyGILState_Release",
    "PyTuple_Size", "PyTuple_GetItem", "PyFloat_AsDouble",
    "PyBytes_FromStringAndSize", "PyObject_GenericGetDict",
    "PyDict_GetItemWithError",
    "PyDict_Next", "PyUnicode_InternFromString", "PyErr_Clear",
    "PyObject_CallObject", "PyUnicode_AsUTF8AndSize")
_ERRORS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)


def _places(torch):
    """Where in an object its type lies and in a tensor its TensorImpl: as
    tensors say whose type and TensorImpl are known, or zeros."""
    at_type, at_impl = object.__basicsize__ - 8, object.__basicsize__

    def word(tensor, at):
        return ctypes.c_uint64.from_address(id(tensor) + at).value

    tensors = torch.ones(1), torch.ones(2), torch.nn.Parameter(torch.ones(1))
    fits = all(word(t, at_type) == id(type(t)) and word(t, at_impl) == t._cdata
               for t in tensors)
    return (at_type, at_impl) if fits else (0, 0)


def declare_jit(library):
    """The functions that are called with the interpreter's lock.

    They make objects of Python, and give the lock back while libtjit works.
    """
    import torch  # pylint: disable=all
    held = ctypes.PyDLL(library._name)
    wrap = getattr(ctypes.PyDLL(os.path.join(
        torch.__path__[0], "lib", "libtorch_python.so")), _WRAP)
    functions = [wrap, *(getattr(ctypes.pythonapi, f) for f in _FUNCTIONS)]
    addresses = [*(ctypes.cast(f, ctypes.c_void_p).value for f in functions),
                 *map(id, _ERRORS),
                 *map(id, (None, True, False, float, tuple, dict, torch.Tensor,
                           torch.nn.Parameter)), *_places(torch)]
    held.tjit_py_jit_setup((ctypes.c_void_p * len(addresses))(*addresses))
    call = ctypes.py_object
    for name, result, arguments in (
            ("jit_new", ctypes.c_void_p,
             [ctypes.c_char_p, ctypes.c_longlong, *[ctypes.c_int] * 3]),
            ("jit_begin", call, [ctypes.c_void_p, ctypes.c_char_p, call]),
            ("jit_begin_plain", call, [ctypes.c_void_p, call]),
            ("jit_begin_watched", call,
             [ctypes.c_void_p, call, ctypes.c_char_p, ctypes.c_int]),
            ("modes_of_module", call, [call]),
            ("jit_wants", ctypes.c_int, [call]),
            ("jit_end", call,
             [call, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
              ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]),
            ("jit_allow_updates", ctypes.c_int,
             [call, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]),
            ("jit_refuse_state", None, [call]),
            ("read_steps", ctypes.c_int,
             [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
              ctypes.POINTER(ctypes.c_double)]),
            ("add_to_steps", ctypes.c_int,
             [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
              ctypes.POINTER(ctypes.c_double)]),
            ("jit_abandon", None, [call]),
            ("form_to_save", call, [ctypes.c_void_p, ctypes.c_char_p]),
            ("save", ctypes.c_int,
             [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int,
              ctypes.POINTER(FileOptions)]),
            ("load_package", ctypes.c_void_p,
             [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p),
              ctypes.POINTER(ctypes.c_uint64), ctypes.c_int]),
            ("package_call", call,
             [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
              ctypes.c_int, ctypes.POINTER(ctypes.c_double)]),
            ("package_about", call, [ctypes.c_void_p]),
            ("package_verify", call, [ctypes.c_void_p])):
        _declare(held, name, result, arguments)
    return held
