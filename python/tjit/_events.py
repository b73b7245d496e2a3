"""Callbacks on what tjit does: tjit.on_event().

libtjit calls them on a thread of its own, one after another. ctypes takes the
interpreter's lock for that, which a thread that is not Python's can no longer
do once the interpreter ends: so all are removed before.
"""
import atexit
import ctypes
import dataclasses
import json
import sys
import threading
import traceback

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that tjit did: tjit::Event of tjit/event.h, by its names.

    kind: "promoted", "compiled", "fell_back", "given_up" or "evicted".
    """
    kind: str
    sequence: str
    region: str
    function: str
    ops: int
    took_ns: int
    kernels_compiled: int
    kernels_reused: int
    kernels_failed: int
    reason: str
    why: str
    op: str
    expected: str
    actual: str
    times: int
    missed: int


_lock = threading.Lock()
_here = threading.local()  # of the thread that calls: it is in a callback
_all = {}  # callbacks of libtjit, by their numbers
_gone = []  # removed from inside themselves


class EventCallback:
    """One callback of on_event(): remove() ends it, as the end of a `with`."""

    def __init__(self, library, call):
        def tell(text):
            _here.is_inside = True
            try:
                call(Event(**json.loads(text)))
            except Exception:  # pylint: disable=broad-except
                print("tjit.on_event: the callback raised what follows; the "
                      "program goes on, and it is called again",
                      file=sys.stderr)
                traceback.print_exc()
            finally:
                _here.is_inside = False

        self._library = library
        self._id = 0
        if library is None:
            return
        function = _CALL(tell)
        self._id = library.tjit_py_on_event(function)
        if self._id == 0:
            raise RuntimeError(library.tjit_py_error().decode(errors="replace"))
        with _lock:
            _all[self._id] = library, function

    def remove(self):
        """It is not called any more, and does not run when this returns.

        From inside a callback it returns at once. Again it does nothing.
        """
        identity, self._id = self._id, 0
        _remove(identity)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()
        return False


def _remove(identity):
    with _lock:
        library, function = _all.pop(identity, (None, None))
    if library is None:
        return
    library.tjit_py_remove_on_event(identity)  # without the interpreter's lock
    if getattr(_here, "is_inside", False):
        _gone.append(function)  # it may be running


def _remove_all():
    for identity in list(_all):
        _remove(identity)


atexit.register(_remove_all)
