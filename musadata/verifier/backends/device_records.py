"""What a candidate did on its device, as a backend's child module reports it in the sandbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Launch:
    """Launches of one kernel with one geometry. `error` is CUDA's number, 0 if the launch was accepted."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    error: int
    count: int


@dataclass(frozen=True)
class Fault:
    """Something that a kernel did wrong.

    `where` is "block (x,y,z) thread (x,y,z)" or empty; `source` and `line` are known where there is a table of lines.
    """

    kind: str
    kernel: str = ""
    where: str = ""
    message: str = ""
    source: str = ""
    line: int = 0


@dataclass(frozen=True)
class Records:
    """What a candidate did since the last time it was asked.

    Attributes:
        kernels: distinct launches in order, also those that were replaced by null kernels or refused (error != 0).
        operators: calls by aten operator, "aten.mul.Tensor", sorted by name; on cuda tensors only.
        faults: what kernels did wrong, each also raised as a RuntimeError at its launch.
        reports: what the checks on accesses found.
        host_bytes: copied from the device to the host by the candidate's C++, or in memory that both share.
        pinned_bytes: memory that kernels and the host share, from PyTorch's allocator.
        peak_bytes: device memory at its highest; 0 if it is not known.
    """

    kernels: Sequence[Launch]
    operators: Mapping[str, int] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    reports: Sequence[Fault] = ()
    host_bytes: int = 0
    pinned_bytes: int = 0
    peak_bytes: int = 0


def read_rows(text: bytes) -> list[list[str]]:
    """The fields of each line: how the libraries beside a candidate hand over what they recorded."""
    return [line.split("\t") for line in text.decode("utf-8", errors="replace").splitlines()]


def read_launches(text: bytes) -> list[Launch]:
    """Launches, one a line: name, grid, block, bytes of shared memory, error, count."""
    launches = []
    for name, *fields in read_rows(text):
        gx, gy, gz, bx, by, bz, shared_bytes, error, count = map(int, fields)
        launches.append(Launch(name, (gx, gy, gz), (bx, by, bz), shared_bytes, error, count))
    return launches
