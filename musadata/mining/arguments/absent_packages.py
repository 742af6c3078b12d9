"""Executing references that import packages which no reference may import. Runs inside the sandbox.

Code that never runs may import anything: after pruning such an import is gone. Until then each name that it binds
stands for an object that raises `AbsentPackage` when it is used after the import.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torch import nn

from musadata.mining.slicing.imports import forbidden_imports


class AbsentPackage(Exception):
    """Mined code uses a package that references may not import."""


class _Missing:
    """Anything of an absent package. Decorating and deriving are harmless on import; every later use is an error."""

    importing = False

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> "_Missing":
        if attribute.startswith("__") or not _Missing.importing:
            raise (AttributeError if attribute.startswith("__") else AbsentPackage)(self._name)
        return _Missing(f"{self._name}.{attribute}")

    def __call__(self, *args: Any, **keywords: Any) -> "_Missing":
        if not _Missing.importing:
            raise AbsentPackage(self._name)
        return self

    def __iter__(self) -> Iterator[Any]:
        self()
        return iter(())

    def __getitem__(self, key: Any) -> "_Missing":
        return self()

    def __bool__(self) -> bool:
        return True

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def _used(self, *_: Any) -> Any:
        """A number, a path or a sequence is computed from it."""
        raise AbsentPackage(self._name)

    __len__ = __int__ = __float__ = __index__ = __fspath__ = __contains__ = _used
    __or__ = __ror__ = __call__  # of types, in annotations
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _used
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = _used

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        known = [base for base in bases if isinstance(base, type)]
        return () if known else (nn.Module,)


class _MissingModule(ModuleType):
    def __getattr__(self, attribute: str) -> _Missing:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if not _Missing.importing:
            raise AbsentPackage(self.__name__)
        return _Missing(f"{self.__name__}.{attribute}")


@contextmanager
def absent_packages(source: str) -> Iterator[None]:
    """While the source is executed, its top-level imports of packages that references may not import succeed."""
    modules = forbidden_imports(source)
    before = {name: sys.modules.get(name) for name in modules}
    for name in modules:
        sys.modules[name] = _MissingModule(name)
        sys.modules[name].__path__ = []  # type: ignore[attr-defined]
        sys.modules[name].__spec__ = ModuleSpec(name, None)  # which other packages ask for
    _Missing.importing = bool(modules)
    try:
        yield
    finally:
        _Missing.importing = False
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
