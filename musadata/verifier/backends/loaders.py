"""In the sandbox: `load_inline` and `load` of `torch.utils.cpp_extension`, with the trusted side as their compiler."""

import types
from collections.abc import Callable
from pathlib import Path

from musadata.verifier.compilation.sources import CandidateSources, from_load, from_load_inline

RequestLibrary = Callable[[CandidateSources], "str | Path"]  # gives the library's path
_modules: list[types.ModuleType] = []  # the operators that they register live as long as they do


def replace_loaders(compile: RequestLibrary, note_library: Callable[[str], object] = str) -> None:
    """Make both functions ask `compile` for the path of a library and open that.

    What `compile` raises, they raise as the RuntimeError that torch has for it ("Error building extension ...").
    `note_library` is called with each path.
    """
    import torch.utils.cpp_extension as cpp_extension

    def open_library(sources: CandidateSources) -> types.ModuleType | None:
        from musadata.verifier.backends.torch_abi.bridge import load_module

        try:
            path = str(compile(sources))
        except Exception as error:
            raise RuntimeError(f"Error building extension '{sources.name}': {error}") from error
        module = load_module(path, sources.name)
        note_library(path)
        _modules.append(module)
        return module if sources.is_python_module else None

    cpp_extension.load_inline = lambda *given, **named: open_library(from_load_inline(*given, **named))
    cpp_extension.load = lambda *given, **named: open_library(from_load(*given, **named))
