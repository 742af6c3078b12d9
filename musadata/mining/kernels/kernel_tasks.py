"""Rows of `kernels/` with and without a task, and under which licences they may be kept."""

import dataclasses
from collections.abc import Collection

from musadata.records import Kernel, Reject, Task
from musadata.rows import content_id
from musadata.sources.licenses import is_allowed

STEP = "pair"


def check_licenses(kernel: Kernel, allowed: Collection[str]) -> Reject | None:
    """A reject if the licences of all files of a row together are not allowed; it names the files that are not."""
    place = kernel.provenance
    if is_allowed(place.license, allowed):
        return None
    files = (*kernel.native, *kernel.musa)
    named = sorted(
        {f"{file.license} of {file.path}" for file in files if file.license and not is_allowed(file.license, allowed)}
    )
    origin = f"{place.origin}/{place.path}:{place.lines}"
    return Reject("kernels", STEP, "license", ", ".join(named) or place.license, origin)


def with_task(kernel: Kernel, task: Task | None) -> Kernel:
    """The row with the task that its candidate solves; without candidate if there is no task."""
    if task is None:
        return without_task(kernel)
    return identified(dataclasses.replace(kernel, task_id=task.task_id, split=task.split))


def with_split(kernel: Kernel, split: str) -> Kernel:
    """The row in the split of its task, which is only known when all tasks are."""
    return kernel if kernel.split == split else identified(dataclasses.replace(kernel, split=split))


def without_task(kernel: Kernel) -> Kernel:
    """The row without a candidate, since no task can verify it."""
    return identified(dataclasses.replace(kernel, task_id="", candidate="", split="train"))


def identified(kernel: Kernel) -> Kernel:
    """The row with its id, a hash of all other fields."""
    return dataclasses.replace(kernel, kernel_id=content_id("kernel", dataclasses.replace(kernel, kernel_id="")))
