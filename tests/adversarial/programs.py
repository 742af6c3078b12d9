"""The references, cheats and honest candidates of this folder, read with what their headers say about them.

A program starts with comments of the form `# key: value`; a key may stand more than once.
"""

import ast
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from musadata.records import InputSpec, OperatorFamily, Provenance, SourceKind, Task
from tests.adversarial.counting.variants import counting_cheats

FOLDER = Path(__file__).resolve().parent
_PROVENANCE = Provenance("directory:tests/adversarial", "", "", "", "", "Apache-2.0")


@dataclass(frozen=True)
class Program:
    """One file: its name, its header by key, and the whole text."""

    name: str
    header: dict[str, list[str]]
    source: str

    def value(self, key: str) -> str:
        """The only value of a key; empty if the header lacks it."""
        return self.header.get(key, [""])[0]


@dataclass(frozen=True)
class Exercise:
    """A task and the further sets of shapes that it is judged on."""

    task: Task
    shape_sets: tuple[tuple[InputSpec, ...], ...]


def read_programs(folder: str) -> list[Program]:
    """All programs of `references`, `cheats` or `honest`, by name."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (FOLDER / folder).glob("*.py")}
    if folder == "cheats":
        sources |= counting_cheats()
    return [_parse(name, source) for name, source in sorted(sources.items())]


def chosen(programs: list[Program], key: str, every: int = 1) -> list[Any]:
    """Test parameters: the first program for each value of a key (or for every n-th value), all others marked slow."""
    first: dict[str, str] = {}
    for program in programs:
        first.setdefault(program.value(key), program.name)
    quick = set(list(first.values())[::every])
    return [pytest.param(program, id=program.name, marks=_marks(program, quick)) for program in programs]


def _marks(program: Program, quick: set[str]) -> list[pytest.MarkDecorator]:
    """`# known: …` in a header says why the verifier cannot judge a program rightly yet."""
    known = [pytest.mark.xfail(reason=program.value("known"), strict=True)] if program.value("known") else []
    return known if program.name in quick else [*known, pytest.mark.slow]


def _parse(name: str, source: str) -> Program:
    header: dict[str, list[str]] = {}
    for line in source.splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line[2:].partition(": ")
        header.setdefault(key, []).append(value)
    return Program(name, header, source)


@cache
def read_exercise(name: str) -> Exercise:
    """The task of `references/NAME.py`. Runs the file, which is our own."""
    program = _parse(name, (FOLDER / "references" / f"{name}.py").read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "reference"}
    exec(compile(program.source, program.name, "exec"), namespace)
    declared = namespace["get_inputs"]()
    inputs = tuple(_spec(program, number, value) for number, value in enumerate(declared))
    sets = [ast.literal_eval(text) for text in program.header.get("also", [])]
    shape_sets = tuple(
        tuple(_reshaped(spec, shape) for spec, shape in zip(inputs, shapes, strict=True)) for shapes in sets
    )
    task = Task(
        task_id="adversarial-" + hashlib.sha256(program.source.encode()).hexdigest()[:16],
        source_kind=SourceKind.OPERATOR,
        name=name,
        reference=program.source,
        operators=(),
        operator_family=OperatorFamily.OTHER,
        level=1,
        inputs=inputs,
        provenance=_PROVENANCE,
        split="test",
        text_signature=(),
        graph_fingerprint="",
    )
    return Exercise(task, shape_sets)


def _spec(program: Program, number: int, value: object) -> InputSpec:
    """How fresh values of an argument are drawn: normal for floats, else what the header says (`# input 0: …`):
    its kind, and bounds, choices, or the structure of matrices."""
    name = f"argument{number}"
    if not isinstance(value, torch.Tensor):
        return InputSpec(name, "literal", "", (), literal=repr(value))
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
    kind, *bounds = (program.value(f"input {number}") or "normal").split()
    if kind == "choice" or (bounds and bounds[0].isalpha()):
        return InputSpec(name, kind, dtype, shape, literal=" ".join(bounds))
    low, high = (float(bound) for bound in bounds or ("0", "0"))
    return InputSpec(name, kind, dtype, shape, low, high)


def _reshaped(spec: InputSpec, shape: tuple[int, ...] | None) -> InputSpec:
    if shape is None:
        return spec
    return InputSpec(spec.name, spec.kind, spec.dtype, shape, spec.low, spec.high, spec.literal)
