"""Kernels that people wrote for CUDA and for MUSA, as rows that teach to translate one into the other."""

import json

from musadata.records import Kernel, OperatorFamily, PortVerdict
from musadata.rows import content_id
from musadata.sampling.ports import FAMILY, pair_files
from musadata.teacher.prompts import render_port_of_files
from musadata.tokens import count_columns
from musadata.training_rows import ChatMessage, SftRow

HUMAN = "human"


def translate_kernel(kernel: Kernel) -> SftRow | None:
    """The row of a mined kernel; None where it is not there for both platforms, or is too long."""
    pair = pair_files(kernel)
    if pair is None:
        return None
    prompt, answer = render_port_of_files(pair[0]), (ChatMessage("assistant", pair[1]),)
    return SftRow(
        sft_id=content_id("sft", kernel.kernel_id, prompt, answer),
        task_id=kernel.task_id,
        family=FAMILY,
        prompt=prompt,
        completion=answer,
        conversation=(*prompt, *answer),
        operator_family=OperatorFamily.OTHER,
        license=kernel.provenance.license,
        teacher=HUMAN,
        split=kernel.split,
        evidence=json.dumps({"kernel_id": kernel.kernel_id, "verdict": PortVerdict.NOT_RUN.value}),
        **count_columns(prompt=prompt, completion=answer, conversation=(*prompt, *answer)),
    )
