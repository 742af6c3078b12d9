"""One warm sandbox for all tests of this folder, and references in KernelBench's form."""

from collections.abc import Iterator

import pytest

from musadata.config import TasksConfig
from musadata.records import Draft, Provenance, Reject, SourceKind, Task
from musadata.sandbox import Sandbox
from musadata.tasks.probe import PRELOAD, probe

CONFIG = TasksConfig(seconds=20.0, memory_mb=1500, decontaminate=(), half_share=0.0)
PROVENANCE = Provenance("directory:tests", "", "1", "model.py", "1-9", "MIT")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(preload=PRELOAD) as opened:
        yield opened


@pytest.fixture
def examine(sandbox):
    """Probe a reference with the tests' limits."""

    def run(reference: str, config: TasksConfig = CONFIG, seed: int = 0) -> Task | Reject:
        return probe(Draft(SourceKind.MINED, "model", reference, PROVENANCE), config, sandbox, seed)

    return run


def reference(
    forward: str,
    init: str = "pass",
    inputs: str = "torch.randn(4, 33)",
    arguments: str = "x",
    top: str = "",
) -> str:
    """A task around the given lines."""

    def indent(text: str) -> str:
        return "\n".join("        " + line for line in text.splitlines())

    return f"""import torch
import torch.nn as nn
import torch.nn.functional as F
{top}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{indent(init)}

    def forward(self, {arguments}):
{indent(forward)}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
