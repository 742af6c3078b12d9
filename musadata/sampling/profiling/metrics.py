"""The counters of one launch as a table: under Nsight Compute's names where the same metric exists there, and under
`emulator__…` where it does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from musadata.verifier.protocol.access_counts import GlobalCounts, LaunchCounts, SharedCounts

# Compute capability 9.0, as CUDA's programming guide has it and the emulator's `musadata_most_resident`.
MULTIPROCESSORS = 132
WARP = 32
SM_WARPS = 64
SM_BLOCKS = 32
SM_SHARED = 228 * 1024
BLOCK_SHARED = 1024  # that the system takes of each block
SECTOR = 32  # bytes

_OPERATIONS = {"load": "ld", "store": "st"}


@dataclass(frozen=True)
class Pointer:
    """What one operation does to the memory of one pointer; see `GlobalCounts` and `TouchedMemory`."""

    name: str
    operation: str
    requests: int
    lanes: int
    sectors: int
    least_sectors: int
    different_sectors: int


@dataclass(frozen=True)
class Counters:
    """One launch: metrics by name, and the accesses to global memory by pointer and operation."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, float]
    pointers: tuple[Pointer, ...] = ()

    def get(self, name: str) -> float:
        """A metric, 0 where it was not measured."""
        return self.metrics.get(name, 0)

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def blocks(self) -> int:
        return prod(self.grid)


def sectors_name(operation: str) -> str:
    return f"l1tex__t_sectors_pipe_lsu_mem_global_op_{_OPERATIONS[operation]}.sum"


def requests_name(operation: str) -> str:
    return f"l1tex__t_requests_pipe_lsu_mem_global_op_{_OPERATIONS[operation]}.sum"


def wavefronts_name(operation: str) -> str:
    return f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{_OPERATIONS[operation]}.sum"


def conflicts_name(operation: str) -> str:
    return f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{_OPERATIONS[operation]}.sum"


LEAST_SECTORS = "memory_l2_theoretical_sectors_global_ideal"
SECTORS = "memory_l2_theoretical_sectors_global"
LIMIT_WARPS = "launch__occupancy_limit_warps"
LIMIT_SHARED = "launch__occupancy_limit_shared_mem"
LIMIT_BLOCKS = "launch__occupancy_limit_blocks"
STATIC = "launch__shared_mem_per_block_static"
DYNAMIC = "launch__shared_mem_per_block_dynamic"
THREADS = "launch__thread_count"
DIVERGENT = "emulator__divergent_memory_requests.sum"
REQUESTS = "emulator__memory_requests.sum"
LANES = "emulator__memory_thread_requests.sum"
IDLE = "emulator__threads_without_memory_access.sum"
BARRIERS = "emulator__block_barriers.sum"
COLLECTIVES = "emulator__warp_collectives.sum"
WARPS = "emulator__warps_per_block"
DIFFERENT = "emulator__different_sectors.sum"
ATOMICS = "emulator__atomic_requests.sum"
TURNS = "emulator__atomic_turns.sum"


def read_launch(launch: LaunchCounts, pointers: Sequence[str]) -> Counters:
    """The counters of an emulated launch; `pointers` are the names of the kernel's pointer arguments."""
    threads, blocks = prod(launch.block), prod(launch.grid)
    warps = -(-threads // WARP)
    shared = launch.static_shared + launch.dynamic_shared + BLOCK_SHARED
    limits = {LIMIT_BLOCKS: SM_BLOCKS, LIMIT_WARPS: SM_WARPS // warps, LIMIT_SHARED: SM_SHARED // shared}
    metrics: dict[str, float] = {
        "launch__grid_size": blocks,
        "launch__block_size": threads,
        WARPS: warps,
        THREADS: threads * blocks,
        STATIC: launch.static_shared,
        DYNAMIC: launch.dynamic_shared,
        **limits,
        REQUESTS: launch.requests,
        LANES: launch.lanes,
        DIVERGENT: launch.divergent_requests,
        IDLE: launch.idle_threads,
        BARRIERS: launch.barriers,
        COLLECTIVES: launch.collectives,
    }
    for operation in _OPERATIONS:
        some = [one for one in launch.global_memory if one.operation == operation]
        metrics[requests_name(operation)] = sum(one.requests for one in some)
        metrics[sectors_name(operation)] = sum(one.sectors for one in some)
    metrics[SECTORS] = sum(one.sectors for one in launch.global_memory)
    metrics[LEAST_SECTORS] = sum(one.least_sectors for one in launch.global_memory)
    metrics[DIFFERENT] = sum(one.read_sectors + one.written_sectors for one in launch.touched)
    for operation in _OPERATIONS:
        parts: list[SharedCounts] = [one for one in launch.shared_memory if one.operation == operation]
        metrics[wavefronts_name(operation)] = sum(one.wavefronts for one in parts)
        metrics[conflicts_name(operation)] = sum(one.conflicts for one in parts)
    both: tuple[GlobalCounts | SharedCounts, ...] = (*launch.global_memory, *launch.shared_memory)
    metrics[ATOMICS] = sum(one.requests for one in both if one.operation == "atomic")
    metrics[TURNS] = sum(one.turns for one in both if one.operation == "atomic")
    rows = [_read_pointer(launch, one, pointers) for one in launch.global_memory if one.operation in _OPERATIONS]
    return Counters(launch.kernel, launch.grid, launch.block, metrics, tuple(rows))


def _read_pointer(launch: LaunchCounts, one: GlobalCounts, pointers: Sequence[str]) -> Pointer:
    [touched] = [memory for memory in launch.touched if memory.argument == one.argument]
    different = touched.read_sectors if one.operation == "load" else touched.written_sectors
    name = pointers[one.argument] if 0 <= one.argument < len(pointers) else ""
    return Pointer(name, one.operation, one.requests, one.lanes, one.sectors, one.least_sectors, different)


DEVICE = (
    f"{MULTIPROCESSORS} multiprocessors, of which each holds at most {SM_WARPS} warps, {SM_BLOCKS} blocks and "
    f"{SM_SHARED} bytes of shared memory; a block takes {BLOCK_SHARED} bytes more of these than it declares"
)


def render_table(counters: Counters) -> str:
    """The metrics and the pointers as two CSV tables."""
    lines = ["Metric Name,Metric Value"]
    lines += [f"{name},{_number(value)}" for name, value in counters.metrics.items()]
    if counters.pointers:
        lines += ["", "Pointer,Operation,Requests,Thread Requests,Sectors,Ideal Sectors,Different Sectors"]
        for one in counters.pointers:
            figures = (one.requests, one.lanes, one.sectors, one.least_sectors, one.different_sectors)
            lines.append(",".join((one.name, one.operation, *map(str, figures))))
    return "\n".join(lines)


def read_table(text: str, kernel: str = "") -> Counters:
    """The counters back from `render_table`.

    Raises:
        ValueError: the text is not of its form.
    """
    first, _, second = text.partition("\n\n")
    metrics = {name: float(value) for name, _, value in (line.partition(",") for line in first.splitlines()[1:])}
    pointers = []
    for line in second.splitlines()[1:]:
        name, operation, *figures = line.split(",")
        requests, lanes, sectors, least, different = map(int, figures)
        pointers.append(Pointer(name, operation, requests, lanes, sectors, least, different))
    return Counters(kernel, (1, 1, 1), (1, 1, 1), metrics, tuple(pointers))


def _number(value: float) -> str:
    return f"{value:g}" if value != int(value) else str(int(value))
