"""A task for a reference that comes alone, as a file: its input specs are inferred, and nothing is filtered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import InputSpec, OperatorFamily, Provenance, SourceKind, Task
from musadata.rows import content_id, restore
from musadata.sandbox import Limits, Sandbox

PRELOAD = ("torch", "musadata.tasks.input_specs", "musadata.tasks.reference_loading")
# What a sandbox that reads many references should preload as well: a second of imports that small ones do not need.
PRELOAD_FOR_MANY = ("musadata.tasks.sizing.measure_preload",)
_INTEGER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_MOST_DECLARED = 4
_TELLING = 16  # a smaller number in a candidate says nothing about sizes


@dataclass(frozen=True)
class ShrunkSize:
    """A size in a reference's text, at a line, and what it is for the proofs."""

    name: str
    line: int
    old: int
    new: int


@dataclass(frozen=True)
class LoneReference:
    """A reference of any size, and the small tasks that are judged in its place.

    Attributes:
        text: the reference as it came.
        forms: a task for each proof size, the better proof first: uneven sizes, then powers of two. One task, the
            reference itself, if it is small; none if it is large and cannot be shrunk.
        shrunk: for each form, the sizes that are smaller than in the text.
        measure: the specs of the text's own inputs, if they are larger than those of the forms.
        work: of one call as the text is, see `tasks.sizing`.
        reason: why there are no forms.
    """

    text: str
    forms: tuple[Task, ...]
    shrunk: tuple[tuple[ShrunkSize, ...], ...]
    measure: tuple[InputSpec, ...]
    reason: str = ""
    work: int = 0

    def require_forms(self) -> tuple[Task, ...]:
        """The forms.

        Raises:
            MusadataError: there are none.
        """
        if not self.forms:
            what = f"is too large to be executed here, and its sizes cannot be shrunk ({self.reason})"
            remedy = "name its sizes on top level, make them smaller, or judge it on a device"
            raise MusadataError(what, where="reference", remedy=remedy)
        return self.forms

    def written_sizes(self, candidate: str) -> list[tuple[int, int, str]]:
        """Numbers in a candidate that are sizes of the reference as it came, or products of two of them.

        Returns:
            The number, its line in the candidate, and the names of the sizes.
        """
        sizes = {one.old: one.name for one in next(iter(self.shrunk), ()) if one.old >= _TELLING}
        for (old, name), (other, other_name) in combinations(list(sizes.items()), 2):
            sizes.setdefault(old * other, f"{name} * {other_name}")
        return [
            (int(match[0]), number, sizes[int(match[0])])
            for number, line in enumerate(candidate.splitlines(), 1)
            for match in _INTEGER.finditer(line)
            if int(match[0]) in sizes
        ]

    def declared_sizes(self) -> list[list[tuple[int, ...]]]:
        """Each size that all forms cut, as it is declared: beside small ones of the others it shows what a candidate
        does wrong along that axis alone (a loop or grid that ends too early, an index of 16 bits). Then each of several
        of one value alone, for where all together are too much work."""
        cut = [{one.old for one in shrunk if one.new < one.old} for shrunk in self.shrunk]
        found = list[list[tuple[int, ...]]]()
        for size in sorted(set.intersection(*cut), reverse=True)[:_MOST_DECLARED] if cut else ():
            count = max(sum(one.old == size for one in shrunk) for shrunk in self.shrunk)
            alone = [(size, size, number) for number in range(min(count, _MOST_DECLARED))]
            found.append([(size, size), *(alone if count > 1 else ())])
        return found


def describe_sizes(shrunk: Sequence[ShrunkSize]) -> str:
    """What was shrunk, for people; "" if nothing was."""
    return ", ".join(f"{one.name} (line {one.line}) {one.old} to {one.new}" for one in shrunk)


def read_reference(
    reference: str,
    config: VerifierConfig,
    sandbox: Sandbox,
    resized: Sequence[tuple[int, ...]] = (),
    work: tuple[int, int] | None = None,
) -> LoneReference:
    """Read a reference; only what judging needs is filled in. `sandbox` should have preloaded `PRELOAD`. `resized`
    and `work`, the most and what is enough: see `resize_reference`.

    Raises:
        MusadataError: the reference does not run, or its inputs cannot be described.
    """
    limits = Limits(seconds=config.seconds, memory_mb=config.memory_mb)
    where, arguments = (
        ("resize_reference", (reference, list(resized), *work)) if work else ("read_reference", (reference,))
    )
    outcome = sandbox.call(f"musadata.tasks.sizing.shrinking:{where}", *arguments, limits=limits)
    if not outcome.ok:
        what = f"{outcome.error_type}: {outcome.message}" if outcome.error_type else outcome.message
        remedy = "it must define Model, get_inputs and get_init_inputs, and run"
        raise MusadataError(f"does not run ({what})", where="reference", remedy=remedy)
    found = outcome.value
    return LoneReference(
        reference,
        tuple(given_task(form["reference"], form["inputs"]) for form in found["forms"]),
        tuple(tuple(ShrunkSize(*one) for one in form["shrunk"]) for form in found["forms"]),
        tuple(restore(InputSpec, spec) for spec in found["measure"]),
        found["reason"],
        found["work"],
    )


def read_task(reference: str, config: VerifierConfig, sandbox: Sandbox) -> Task:
    """The task of a reference's proof size; see `read_reference`."""
    return read_reference(reference, config, sandbox).require_forms()[0]


def given_task(reference: str, inputs: list[dict[str, Any]]) -> Task:
    """The task of a reference whose inputs are known; nothing is executed.

    Raises:
        TypeError, ValueError, KeyError: the inputs are no plain specs.
    """
    return Task(
        task_id=content_id("task", reference),
        source_kind=SourceKind.OPERATOR,
        name="Model",
        reference=reference,
        operators=(),
        operator_family=OperatorFamily.OTHER,
        level=1,
        inputs=tuple(restore(InputSpec, spec) for spec in inputs),
        provenance=Provenance("file", "", "", "", "", ""),
        split="train",
        text_signature=(),
        graph_fingerprint="",
    )
