"""Types of the package; the docstrings stand in __init__.py."""
import contextlib
import dataclasses
import os
from types import TracebackType
from typing import (
    Any,
    Callable,
    Generic,
    Iterable,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypedDict,
    TypeVar,
    overload,
)

import torch
from typing_extensions import Concatenate, ParamSpec

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_Self = TypeVar("_Self", bound="_Scope")
_Backend = Literal["replay", "interpreter", "llvm", "torchscript"]

__version__: str

def options() -> dict[str, type]: ...
def enable(
    *,
    hot_threshold: int = ...,
    backend: _Backend = ...,
    own_backward: bool = ...,
    own_products: bool = ...,
    own_random: bool = ...,
    cache_dir: str | os.PathLike[str] = ...,
    compile_all: bool = ...,
    debug_compile: bool = ...,
    fast_math: bool = ...,
    max_trace_steps: int = ...,
    max_trace_mb: int = ...,
    max_memory_mb: int = ...,
    nan: bool = ...,
    shadow: bool = ...,
    shadow_sample: int = ...,
    strict: bool = ...,
    stress: str = ...,
    shuffle_seed: int = ...,
    stats_path: str | os.PathLike[str] = ...,
) -> bool: ...
def disable() -> None: ...
def is_enabled() -> bool: ...

class _Scope(contextlib.ContextDecorator):
    def __enter__(self: _Self) -> _Self: ...
    def __exit__(
        self,
        exception: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> Literal[False]: ...

class AutoCompile(_Scope):
    def __init__(
        self,
        scope: Literal["thread", "process"] = ...,
        *,
        hot_threshold: int = ...,
        backend: _Backend = ...,
        own_backward: bool = ...,
        own_products: bool = ...,
        own_random: bool = ...,
        cache_dir: str | os.PathLike[str] = ...,
        compile_all: bool = ...,
        debug_compile: bool = ...,
        fast_math: bool = ...,
        max_trace_steps: int = ...,
        max_trace_mb: int = ...,
        max_memory_mb: int = ...,
        nan: bool = ...,
        shadow: bool = ...,
        shadow_sample: int = ...,
        strict: bool = ...,
        stress: str = ...,
        shuffle_seed: int = ...,
        stats_path: str | os.PathLike[str] = ...,
    ) -> None: ...

class Pause(_Scope):
    def __init__(self) -> None: ...

class Reading(_Scope):
    def __init__(self) -> None: ...

class _JitStats(TypedDict):
    calls: int
    replays: int
    recordings: int
    verified: int
    not_same: int
    plans: int
    why: str

class _Jit(Generic[_P, _R]):
    __name__: str
    @property
    def __wrapped__(self) -> Callable[_P, _R]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, owner: None, kind: Any = ...) -> _Jit[_P, _R]: ...
    @overload
    def __get__(
        self: _Jit[Concatenate[Any, _Q], _R], owner: object, kind: Any = ...
    ) -> _Jit[_Q, _R]: ...
    def stats(self) -> _JitStats: ...
    def reset(self) -> None: ...

@overload
def jit(
    fn: Callable[_P, _R],
    *,
    name: str = ...,
    verify_every: int = ...,
    follow: bool = ...,
    strict: bool = ...,
    gradients: bool = ...,
) -> _Jit[_P, _R]: ...
@overload
def jit(
    fn: None = ...,
    *,
    name: str = ...,
    verify_every: int = ...,
    follow: bool = ...,
    strict: bool = ...,
    gradients: bool = ...,
) -> Callable[[Callable[_P, _R]], _Jit[_P, _R]]: ...

_Tensors = (
    Mapping[str, torch.Tensor]
    | Iterable[tuple[str, torch.Tensor]]
    | torch.nn.Module
)

def save_package(
    path: str | os.PathLike[str],
    fn: _Jit[..., Any],
    /,
    *args: Any,
    tensors: Optional[_Tensors] = ...,
    arguments: Optional[Sequence[str]] = ...,
    given: Sequence[str] = ...,
    keeps_example: bool = ...,
    **kwargs: Any,
) -> None: ...
def save_torchscript(
    path: str | os.PathLike[str],
    fn: _Jit[..., Any],
    /,
    *args: Any,
    tensors: Optional[_Tensors] = ...,
    arguments: Optional[Sequence[str]] = ...,
    **kwargs: Any,
) -> None: ...

class Package:
    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def tensors(self) -> dict[str, str]: ...
    def __call__(
        self, *args: torch.Tensor | float, **kwargs: torch.Tensor | float
    ) -> Any: ...
    def stats(self) -> _JitStats: ...
    def verify(self) -> str: ...

def load_package(
    path: str | os.PathLike[str],
    tensors: Optional[_Tensors] = ...,
    *,
    warms_up: bool = ...,
) -> Package: ...

class NoJit(_Scope):
    def __init__(self, why: str) -> None: ...

class Region(_Scope):
    def __init__(self, name: str) -> None: ...

def set_region_options(
    pattern: str,
    *,
    compile: bool = ...,
    threshold: int = ...,
    backend: _Backend = ...,
    shapes: Literal["any", "exact"] = ...,
    exclude: bool = ...,
    exclude_ops: Sequence[str] = ...,
    strict: bool = ...,
) -> None: ...
def region_stats(name: str) -> dict[str, Any]: ...
def name(target: torch.Tensor | torch.nn.Module, text: str = ...) -> None: ...
def name_of(tensor: torch.Tensor) -> str: ...

@dataclasses.dataclass(frozen=True)
class Event:
    kind: Literal["promoted", "compiled", "fell_back", "given_up", "evicted"]
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

class EventCallback:
    def remove(self) -> None: ...
    def __enter__(self) -> EventCallback: ...
    def __exit__(
        self,
        exception: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> Literal[False]: ...

def on_event(call: Callable[[Event], object]) -> EventCallback: ...
def wait_for_events(timeout: float = ...) -> bool: ...
def mark_step() -> None: ...
def sync() -> None: ...
def mark_opaque(name: str) -> None: ...
def clear() -> None: ...
def set_stance(
    stance: Literal["default", "eager_on_recompile", "fail_on_recompile"],
) -> None: ...
def wait_until_compiled(timeout: float = ...) -> bool: ...
def prewarm(file: str | os.PathLike[str]) -> int: ...
def save_profile(file: str | os.PathLike[str]) -> int: ...
def write_sequences(
    folder: str | os.PathLike[str],
    which: str = ...,
) -> None: ...
def stats() -> dict[str, object]: ...
def reset_memory_peak() -> None: ...
def explain(verbose: bool = ...) -> str: ...
def version() -> str: ...
