"""Inside the sandbox: snapshots of the state in which a candidate could count the calls of its forward.

Covers Python's values, PyTorch's settings, the environment and files; the backend finds static variables of C++. Values
of tensors are kept apart, in `contents`: a tensor may be scratch memory, which kernels may overwrite.
"""

import contextlib
import gc
import hashlib
import io
import itertools
import logging
import operator
import os
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import torch

from musadata.sandbox.confine import SCRATCH

_MOST_VALUES = 20_000  # of one program, in breadth-first order
_MOST_ELEMENTS = 1 << 16  # of one container
_MOST_BYTES = 1 << 16  # of one tensor on the host
_PLAIN = (bool, int, float, complex, str, bytes)
_SHOWN = (*_PLAIN, bytearray, range, slice, PurePath, torch.dtype, torch.device)  # `repr` shows their whole value
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
# Not followed: they belong to Python or a library and change without the candidate.
_OTHERS = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, logging.Manager)
_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads": torch.get_num_threads,
    "threads between operators": torch.get_num_interop_threads,
    "default type": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "precision of products": torch.get_float32_matmul_precision,
    "deterministic algorithms": torch.get_deterministic_debug_mode,
    "warnings": torch.is_warn_always_enabled,
    "anomalies": torch.is_anomaly_enabled,
    "printing": lambda: dict(vars(torch._tensor_str.PRINT_OPTS)),
    "hooks so far": lambda: torch.utils.hooks.RemovableHandle.next_id,
}
_BACKENDS = ("", ".cpu", ".cuda", ".cuda.matmul", ".cudnn", ".mkl", ".mkldnn", ".mps", ".openmp", ".opt_einsum")


@dataclass(frozen=True)
class Snapshot:
    """A program's state at one moment.

    Attributes:
        values: comparable values by a phrase that names their place; they differ if the state has changed.
        contents: digests of small tensors on the host, by id.
    """

    values: Mapping[str, object]
    contents: dict[int, str]


def take_snapshot(module: types.ModuleType, model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Snapshot:
    """The state now. `module` is the candidate's program and `tensors` are the inputs that it is called with."""
    walk = _walk(module, model, tensors)
    values = {
        **walk.found,
        "the environment": dict(os.environ),
        "a file": sorted(map(_describe_file, _files())),
        "PyTorch's settings": _settings(),
        "the state of random numbers": (torch.initial_seed(), _digest(torch.get_rng_state())),
    }
    return Snapshot(values, {id(tensor): _digest(tensor) for tensor in walk.tensors if tensor.nbytes <= _MOST_BYTES})


def _walk(module: types.ModuleType, model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> "_Walk":
    places: dict[str, Mapping[str, Any]] = {"the program": vars(module), "ModelNew": vars(type(model))}
    places |= {f"the module {name or 'ModelNew'}": vars(part) for name, part in model.named_modules()}
    places |= {f"input {name}": vars(tensor) for name, tensor in tensors.items()}
    limit = logging.root.manager.disable  # nothing below this level is logged, whatever a logger's own level is
    places["Python's loggers"] = {**logging.root.manager.loggerDict, "root": logging.root, "limit": limit}
    walk = _Walk(module.__name__)
    for place, attributes in places.items():
        for name, value in list(attributes.items()):
            walk.begin(f"{name} of {place}", value)
    walk.run()
    return walk


def _files() -> Iterator[Path]:
    """All files and folders below those where a candidate may write, without mount points."""
    here = Path.cwd()
    tops = ("/tmp", "/dev/shm") if here == Path(SCRATCH) else (here,)  # outside the sandbox those two are shared
    for top in tops:
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if not os.path.ismount(Path(folder, name))]
            yield from (Path(folder, name) for name in (*folders, *names))


def _describe_file(path: Path) -> tuple[Any, ...]:
    try:
        about = path.lstat()
    except OSError:  # it was removed in the meantime
        return (str(path),)
    return str(path), about.st_mode, *(() if path.is_dir() else (about.st_size, about.st_mtime_ns))


def _settings() -> dict[str, object]:
    found = {name: read() for name, read in _SETTINGS.items()}
    for name in _BACKENDS:
        place = operator.attrgetter(f"backends{name}")(torch)
        for key in {*vars(type(place)), *vars(place)}:
            with contextlib.suppress(Exception):  # a setting that this build of PyTorch lacks
                value = getattr(place, key)
                if isinstance(value, _PLAIN):
                    found[f"backends{name}.{key}"] = value
    return found


class _Walk:
    """Visits values and the values that they hold, each once, breadth first."""

    def __init__(self, module: str):
        self.found: dict[str, list[Any]] = {}
        self.tensors: list[torch.Tensor] = []  # on the host
        self._module = module
        self._waiting: deque[tuple[str, Any]] = deque()
        self._seen: dict[int, Any] = {}  # holds the values, as an id is reused once its value is freed

    def begin(self, place: str, value: Any) -> None:
        """Add a value, and the place where it was found."""
        self._waiting.append((place, value))

    def run(self) -> None:
        while self._waiting and len(self._seen) < _MOST_VALUES:
            place, value = self._waiting.popleft()
            plain = _plain_part(value)
            if plain is not None:
                self.found.setdefault(place, []).append(plain)
            if isinstance(value, _SHOWN) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                self.tensors.append(value)
            self._waiting += [(place, part) for part in itertools.islice(self._parts(value), _MOST_ELEMENTS)]

    def _parts(self, value: Any) -> Iterator[Any]:
        """The values that a value holds, as far as a candidate could have put them there."""
        if isinstance(value, types.FunctionType):
            yield from (value.__defaults__ or (), value.__kwdefaults__ or {}, vars(value))
            yield from (cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType())
        elif isinstance(value, types.GeneratorType):
            yield from list(value.gi_frame.f_locals.values()) if value.gi_frame else ()
        elif isinstance(value, type):
            yield from self._attributes(value)
        elif isinstance(value, _OTHERS):
            is_own = isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is not value
            yield from [dict(vars(value))] if is_own else []
        elif isinstance(value, torch.Tensor):
            yield dict(vars(value))
            yield value.grad if value.is_leaf else None
        elif isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools", "collections"):
            with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                yield value.__reduce__()  # nothing else shows its position
            yield from gc.get_referents(value)
        else:
            yield from gc.get_referents(value)

    def _attributes(self, kind: type) -> Iterator[Any]:
        """All attributes of the candidate's own classes; only plain values of others, whose functions lead too far."""
        values = list(vars(kind).values())
        yield from values if kind.__module__ == self._module else [v for v in values if isinstance(v, _PLAIN)]


def _plain_part(value: Any) -> Any:
    """The part of a value that can be compared: the value itself, its size, or its position; None if there is none."""
    if isinstance(value, _SHOWN):
        return repr(value)  # NaN is not itself
    if isinstance(value, torch.Tensor):
        place = (value.storage_offset(), value.stride()) if value.layout == torch.strided else ()
        return (tuple(value.shape), str(value.dtype), value.requires_grad, *place)
    if isinstance(value, types.GeneratorType):
        return value.gi_frame.f_lasti if value.gi_frame else -1
    with contextlib.suppress(Exception):  # a closed file, or a class that overrides these methods
        if isinstance(value, _CONTAINERS):
            return len(value)
        if isinstance(value, torch.Generator):
            return (value.initial_seed(), _digest(value.get_state()))
        if isinstance(value, io.IOBase) and value not in (sys.stdin, sys.stdout, sys.stderr):
            return value.tell()
        if type(value).__module__ in ("_hashlib", "_sha1", "_sha2", "_md5", "_sha3", "_blake2"):
            return value.hexdigest()
        if isinstance(value, Iterator):
            return operator.length_hint(value, 0)
    return None


def _digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(repr(tensor.detach().tolist()).encode()).hexdigest()
