"""Names of ATen operators: which there are, and which a candidate's forward may dispatch. Both lists are data."""

from functools import cache
from pathlib import Path

_DATA = Path(__file__).parent / "data"


@cache
def allowed_operators() -> frozenset[str]:
    """Operators that only allocate, view, copy or cast; with an overload ("_assert_async.msg") only that one."""
    return frozenset(_words("aten_allowlist.txt"))


@cache
def aten_operators() -> frozenset[str]:
    """Base names of all operators of torch, "matmul", "add_", …."""
    return frozenset(_words("aten_operators.txt"))


@cache
def compute_operators() -> frozenset[str]:
    """Names whose call in a forward is a fallback to PyTorch."""
    harmless = allowed_operators() | _plumbing()
    return frozenset(name for name in aten_operators() if name not in harmless)


@cache
def _plumbing() -> frozenset[str]:
    return frozenset(_words("aten_plumbing.txt"))


def is_allowed(operator: str) -> bool:
    """Whether a dispatched operator, "aten.add.Tensor" or "aten::add.Tensor", is on the list."""
    name = operator.replace("::", ".").removeprefix("aten.")
    base = name.split(".")[0]
    allowed = allowed_operators()
    return base in allowed or name.removesuffix(".default") in allowed or base in _plumbing()


def _words(name: str) -> list[str]:
    lines = (_DATA / name).read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]
