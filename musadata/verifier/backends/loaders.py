"""In the sandbox: `load_inline` and `load` of `torch.utils.cpp_extension`, with the trusted side as their compiler."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from musadata.verifier.compilation.sources import CandidateSources, from_load, from_load_inline

Compile = Callable[[CandidateSources], "str | Path"]
_modules: list[types.ModuleType] = []  # the operators that they register live as long as they do


def replace_loaders(compile: Compile, note_library: Callable[[str], object] = str) -> None:
    """Make both functions ask `compile` for the path of a library and open that.

    What `compile` raises, they raise as the RuntimeError that torch has for it ("Error building extension ...").
    `note_library` is called with each path.
    """
    import torch.utils.cpp_extension as cpp_extension

    def open_library(sources: CandidateSources) -> types.ModuleType | None:
        from musadata.verifier.backends.torch_abi import load_module

        try:
            path = str(compile(sources))
        except Exception as error:
            raise RuntimeError(f"Error building extension '{sources.name}': {error}") from error
        module = load_module(path, sources.name)
        note_library(path)
        _modules.append(module)
        return module if sources.is_python_module else None

    def load_inline(
        name: str,
        cpp_sources: Any = None,
        cuda_sources: Any = None,
        sycl_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        *unused: Any,
        is_python_module: bool = True,
        **options: Any,
    ) -> types.ModuleType | None:
        if unused:
            raise TypeError("load_inline: give the arguments after extra_cuda_cflags by name")
        given = name, cpp_sources, cuda_sources, functions, extra_cflags, extra_cuda_cflags, is_python_module
        return open_library(from_load_inline(*given))

    def load(
        name: str,
        sources: Any,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        *unused: Any,
        is_python_module: bool = True,
        **options: Any,
    ) -> types.ModuleType | None:
        if unused:
            raise TypeError("load: give the arguments after extra_cuda_cflags by name")
        return open_library(from_load(name, sources, extra_cflags, extra_cuda_cflags, is_python_module))

    cpp_extension.load_inline = load_inline
    cpp_extension.load = load
