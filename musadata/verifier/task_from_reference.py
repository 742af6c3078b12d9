"""A task for a reference that comes alone, as a file: its input specs are inferred, and nothing is filtered."""

from typing import Any

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION, InputSpec, OperatorFamily, Provenance, SourceKind, Task
from musadata.rows import content_id, restore
from musadata.sandbox import Limits, Sandbox

PRELOAD = ("torch", "musadata.tasks.input_specs", "musadata.tasks.reference_loading")
_DRAWS = 3


def read_task(reference: str, config: VerifierConfig, sandbox: Sandbox) -> Task:
    """The task; only what judging needs is filled in. `sandbox` should have preloaded `PRELOAD`.

    Raises:
        MusadataError: the reference does not run, or its inputs cannot be described.
    """
    limits = Limits(seconds=config.seconds, memory_mb=config.memory_mb)
    outcome = sandbox.call("musadata.verifier.task_from_reference:infer_inputs", reference, limits=limits)
    if not outcome.ok:
        what = f"{outcome.error_type}: {outcome.message}" if outcome.error_type else outcome.message
        remedy = "it must define Model, get_inputs and get_init_inputs, and run"
        raise MusadataError(f"does not run ({what})", where="reference", remedy=remedy)
    return Task(
        task_id=task_id(reference),
        schema_version=SCHEMA_VERSION,
        source_kind=SourceKind.OPERATOR,
        name="Model",
        reference=reference,
        operators=(),
        operator_family=OperatorFamily.OTHER,
        level=1,
        inputs=tuple(restore(InputSpec, spec) for spec in outcome.value),
        provenance=Provenance("file", "", "", "", "", ""),
        split="train",
        text_signature=(),
        graph_fingerprint="",
    )


def task_id(reference: str) -> str:
    """The id of a reference's task, which is known before the reference is read."""
    return content_id("task", reference)


def infer_inputs(source: str) -> list[dict[str, Any]]:
    """The child's side: specs of the arguments of `forward`, from three draws of `get_inputs`."""
    import torch

    from musadata.tasks.input_specs import infer_specs
    from musadata.tasks.reference_loading import build_model, load_reference

    reference = load_reference(source)
    model = build_model(reference, 0)
    draws = []
    for seed in range(_DRAWS):
        torch.manual_seed(seed)
        draws.append(list(reference.get_inputs()))
    return infer_specs(model, draws)
