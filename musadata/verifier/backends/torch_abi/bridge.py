"""The library that implements the ABI: built once, loaded before the first candidate."""

import ctypes
import importlib.machinery
import importlib.util
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from musadata.computed_once import ComputedOnce
from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.compilation.header_folder import build_header_folder
from musadata.verifier.compilation.host_toolchain import Toolchain, compile_objects, find_toolchain, run_tool

_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"
_MODULE = "musadata_torch_abi"
_EXTENSION_NAME = "candidate"  # what TORCH_EXTENSION_NAME is defined as
_SOURCES = (_HERE / "csrc/operators.cpp", _HERE / "csrc/binding.cpp")
_SUPPORT = _HERE / "csrc/support"

# The ABI's letters for types, in the words of an operator schema.
_SCHEMA_TYPES = {
    "t": "Tensor", "i": "int", "j": "int", "u": "int", "d": "float", "b": "bool", "s": "str", "e": "ScalarType",
    "v": "Device", "S": "Scalar", "I": "int[]", "D": "float[]", "T": "Tensor[]",
}  # fmt: skip


def include_folder() -> Path:
    """The folder with `torch/extension.h` and its relatives, built if this machine does not have it yet."""
    return build_header_folder("torch_abi_headers", _INCLUDE)


def support_folders() -> tuple[Path, Path]:
    """The folders whose contents decide what `build_support` makes."""
    return include_folder(), _SUPPORT


def build_bridge(toolchain: Toolchain | None = None) -> Path:
    """Path of the bridge library, built if this machine does not have it yet.

    Raises:
        MusadataError: no compiler, or it cannot build the bridge.
    """
    toolchain = toolchain or find_toolchain()
    key = hash_of(toolchain.identity, *_SOURCES, _INCLUDE / "torch_abi" / "abi.h")
    folder = build_once(cache_folder() / f"torch_abi-{key}", lambda partial: _build(toolchain, partial))
    return folder / f"{_MODULE}.so"


@ComputedOnce
def build_support(cuda_flags: tuple[str, ...], cuda: str | Path, toolchain: Toolchain | None = None) -> Path:
    """Path of the object file that every candidate is linked with: the headers' parts that are no templates.

    Args:
        cuda_flags: where cuda_runtime.h and its relatives are.
        cuda: which those are: a version, or the folder itself.

    Raises:
        MusadataError: no compiler, or it cannot build the object.
    """
    toolchain = toolchain or find_toolchain()
    flags = ["-O1", "-std=gnu++20", "-fPIC", "-w", "-fvisibility=hidden", "-fno-gnu-unique"]
    flags += [*cuda_flags, f"-I{include_folder()}"]

    def build(partial: Path) -> None:
        objects = compile_objects(toolchain, sorted(_SUPPORT.glob("*.cpp")), flags, partial)
        run_tool([toolchain.compiler, "-r", "-nostdlib", *objects, "-o", partial / "support.o"], "support.o")
        for file in objects:
            file.unlink()

    key = hash_of(toolchain.identity, *flags, cuda, *support_folders())
    return build_once(cache_folder() / f"torch_abi_support-{key}", build) / "support.o"


def _build(toolchain: Toolchain, folder: Path) -> None:
    flags = ["-O1", "-std=c++20", "-fPIC", "-w", "-fvisibility-inlines-hidden", *toolchain.include_flags]
    objects = compile_objects(toolchain, _SOURCES, flags, folder)
    target = folder / f"{_MODULE}.so"
    soname = f"-Wl,-soname,{_MODULE}.so"
    run_tool([toolchain.compiler, "-shared", *objects, "-o", target, soname, *toolchain.library_flags], "torch_abi")
    for file in objects:
        file.unlink()


@cache
def load_bridge() -> types.ModuleType:
    """The bridge as a Python module; its symbols become visible to candidates."""
    import torch  # noqa: F401 - its libraries must be there first

    path = str(build_bridge())
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    return _load_extension(_MODULE, path)


def _load_extension(name: str, path: str) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def load_module(path: str | Path, name: str) -> types.ModuleType:
    """Open a compiled candidate.

    Raises:
        ImportError: it cannot be opened (a function that is declared and never defined, for example).
    """
    loaded = load_bridge().load(str(path))
    if loaded is None:
        return _load_pybind_module(str(path), name)
    functions, entries, documentation = loaded
    module = types.ModuleType(name, documentation or None)
    module.__file__ = str(path)
    for key, function in functions.items():
        setattr(module, key.removeprefix("="), function() if key.startswith("=") else function)
    module.__dict__["_libraries"] = _register(entries)
    return module


def _load_pybind_module(path: str, name: str) -> types.ModuleType:
    """A candidate that was compiled with PyTorch's own headers."""
    import torch

    try:
        return _load_extension(_EXTENSION_NAME, path)
    except ImportError as error:
        if "PyInit_" not in str(error):
            raise
        torch.ops.load_library(path)  # it registers operators and binds nothing
        return types.ModuleType(name)


def _register(entries: list[tuple[str, str, str, Any, list[str], str]]) -> list[Any]:
    """Register `TORCH_LIBRARY` blocks; they stay registered as long as the returned objects live."""
    import torch

    libraries: dict[str, Any] = {}
    for library_name, dispatch_key, schema, function, types_, result in entries:
        library = libraries.setdefault(library_name, torch.library.Library(library_name, "FRAGMENT"))
        if not schema.startswith("="):  # else the operator is defined already
            library.define(schema if "(" in schema else _schema(schema, types_, result))
        if function is not None:
            name = schema.removeprefix("=").partition("(")[0].strip()
            filled = _with_defaults(function, library_name, name)
            library.impl(name, filled, dispatch_key or "CompositeExplicitAutograd")
    return list(libraries.values())


def _with_defaults(function: Any, library: str, name: str) -> Callable[..., Any]:
    """Fill in the arguments that PyTorch leaves out because they have their default; a C++ function needs all."""
    import torch

    def call(*arguments: Any, **keywords: Any) -> Any:
        schema = getattr(getattr(torch.ops, library), name).default._schema
        rest = [keywords.get(item.name, item.default_value) for item in schema.arguments[len(arguments) :]]
        return function(*arguments, *rest)

    return call


def _schema(name: str, types_: list[str], result: str) -> str:
    arguments = ", ".join(f"{_schema_type(type_)} arg{index}" for index, type_ in enumerate(types_))
    results = [] if result == "n" else list(result[1:-1]) if result.startswith("(") else [result]
    return f"{name}({arguments}) -> ({', '.join(_schema_type(one) for one in results)})"


def _schema_type(letters: str) -> str:
    return _SCHEMA_TYPES[letters[1:]] + "?" if letters.startswith("?") else _SCHEMA_TYPES[letters]
