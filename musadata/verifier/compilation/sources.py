"""The C++ and CUDA sources of one candidate extension, as `load_inline` or `load` was given them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# What `torch.utils.cpp_extension` gives nvcc: without these a candidate could use operators that it lacks there.
DEFAULT_DEFINES = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)


@dataclass(frozen=True)
class CandidateSources:
    """Everything that decides what is compiled; nothing else may.

    Attributes:
        name: the extension's name, used in messages only.
        cpp: C++ sources, compiled by the host compiler.
        cuda: CUDA C++ sources.
        functions: (C++ function, docstring) pairs to bind; None if the sources bind themselves.
        defines: preprocessor flags among the extra flags ("-DTILE=16", "-U__CUDA_NO_HALF_OPERATORS__").
        is_python_module: False where the sources only register operators (`TORCH_LIBRARY`).
        headers: file name and text of headers that the sources include from beside themselves (`load`).
        separate: whether every source is a translation unit of its own (`load`) or all of a kind are one.
    """

    name: str
    cpp: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    functions: tuple[tuple[str, str], ...] | None = None
    defines: tuple[str, ...] = ()
    is_python_module: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    separate: bool = False

    def default_defines(self) -> tuple[str, ...]:
        """The `-D` flags that PyTorch gives nvcc, without those that the candidate undefines with `-U`."""
        undefined = {flag[2:] for flag in self.defines if flag.startswith("-U")}
        return tuple(flag for flag in DEFAULT_DEFINES if flag[2:] not in undefined)

    def texts(self) -> list[str]:
        """All C++ and CUDA texts."""
        return [*self.cpp, *self.cuda, *(text for _, text in self.headers)]

    def digest(self) -> str:
        """Hash of everything but the name, which changes nothing in the artifact."""
        content = {**asdict(self), "name": ""}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def from_load_inline(
    name: str,
    cpp_sources: str | Sequence[str] | None = None,
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: object = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    *more: object,
    is_python_module: bool = True,
    **options: object,
) -> CandidateSources:
    """The sources of a `load_inline` call; takes the same forms of arguments as torch does, and ignores the rest.

    Raises:
        TypeError: there are more arguments without a name.
        ValueError: `functions` is neither a list nor a dict nor a name (as torch has it).
    """
    if more:
        raise TypeError("load_inline: give the arguments after extra_cuda_cflags by name")
    named = {functions: functions} if isinstance(functions, str) else functions
    if isinstance(named, (list, tuple)):
        named = {key: key for key in named}
    if not isinstance(named, Mapping | None):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    return CandidateSources(
        name=str(name),
        cpp=_texts(cpp_sources),
        cuda=_texts(cuda_sources),
        functions=None if named is None else tuple((str(key), str(doc)) for key, doc in named.items()),
        defines=_defines(extra_cflags) + _defines(extra_cuda_cflags),
        is_python_module=bool(is_python_module),
    )


def from_load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    *more: object,
    is_python_module: bool = True,
    **options: object,
) -> CandidateSources:
    """The sources of a `load` call, with the headers beside them; files are read now.

    Raises:
        TypeError: there are more arguments without a name.
        OSError: a file cannot be read.
    """
    if more:
        raise TypeError("load: give the arguments after extra_cuda_cflags by name")
    paths = [Path(path) for path in ([sources] if isinstance(sources, str) else sources)]
    headers = {
        header.name: _read(header)
        for folder in sorted({path.parent for path in paths})
        for header in sorted(folder.iterdir())
        if header.suffix in (".h", ".hpp", ".cuh") and header.is_file()
    }
    return CandidateSources(
        name=str(name),
        cpp=tuple(_read(path) for path in paths if path.suffix != ".cu"),
        cuda=tuple(_read(path) for path in paths if path.suffix == ".cu"),
        defines=_defines(extra_cflags) + _defines(extra_cuda_cflags),
        is_python_module=bool(is_python_module),
        headers=tuple(sorted(headers.items())),
        separate=True,
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _texts(sources: str | Sequence[str] | None) -> tuple[str, ...]:
    if sources is None:
        return ()
    return (sources,) if isinstance(sources, str) else tuple(str(source) for source in sources)


def _defines(flags: Sequence[str] | None) -> tuple[str, ...]:
    """Only what the preprocessor sees changes the meaning of a program; the rest of the flags is about speed."""
    return tuple(str(flag) for flag in flags or () if str(flag).startswith(("-D", "-U")))
