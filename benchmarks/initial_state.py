"""Whether a candidate's parameters start as its reference's do, as KernelBench's harness does it: both are constructed
after the same seed. Nothing of the verifier is used. `starts_equal` executes foreign code: call it in a sandbox.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import cpp_extension

from musadata.sandbox import Sandbox

SEEDS = (0, 42)


def count_equal(pairs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Of pairs of a reference and a candidate: those whose parameters start equal, and all that have parameters."""
    with Sandbox(("torch", __name__)) as sandbox:
        outcomes = [sandbox.call(f"{__name__}:starts_equal", *pair) for pair in pairs]
    found = [outcome.value if outcome.ok else False for outcome in outcomes]
    return sum(one is True for one in found), sum(one is not None for one in found)


def starts_equal(reference: str, candidate: str) -> bool | None:
    """Whether both hold the same names and values after the same seed; None if the reference holds none."""
    vars(cpp_extension)["load_inline"] = lambda *_, **__: SimpleNamespace()  # kernels take no part in construction
    source, answer = _execute(reference), _execute(candidate)
    for seed in SEEDS:
        expected, found = (_construct(kind, source, seed) for kind in (source["Model"], answer["ModelNew"]))
        if not expected:
            return None
        if expected.keys() != found.keys() or not all(map(_same, expected.values(), map(found.get, expected))):
            return False
    return True


def _execute(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "module"}
    exec(compile(text, "<module>", "exec"), namespace)
    return namespace


def _construct(kind: Any, source: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    arguments = source["get_init_inputs"]()
    torch.manual_seed(seed)
    state: dict[str, torch.Tensor] = kind(*arguments).state_dict()
    return state


def _same(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    return other is not None and one.dtype == other.dtype and torch.equal(one, other)
