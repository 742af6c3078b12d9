"""The cuda backend as the verifier sees it."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import Compile, report_errors
from musadata.verifier.compilation.sources import CandidateSources

_DEVICE = "musadata.verifier.backends.cuda.cuda_hook"
_LONGEST_ANSWER_SECONDS = 60.0
_BELIEVED_SECONDS = 10.0  # how long an answer that the device is there is trusted
# A candidate's context, what it allocates, and what flushes the cache between timed calls; measured on an H200: 0.8 GB.
_MEMORY_PER_CANDIDATE_MB = 1536
# Work queues of a context, 8 by default. Creating them takes most of a context's time, and the driver serves one
# process after another: with two queues it makes twice as many contexts a second. Kernels on more than two streams may
# wait for each other unnecessarily.
_CONNECTIONS = "2"


@dataclass(frozen=True)
class Device:
    """A device as the driver describes it. `architecture`: its compute capability, "90". `memory_mb`: 0 if it does not
    say."""

    name: str
    architecture: str
    driver: str
    uuid: str
    memory_mb: int = 0

    @property
    def seats(self) -> int:
        """How many candidates it has memory for, but no more than keep it and the machine's cores busy."""
        most = 2 * len(os.sched_getaffinity(0))
        return max(1, min(most, self.memory_mb // _MEMORY_PER_CANDIDATE_MB)) if self.memory_mb else most


@cache
def find_device() -> Device | None:
    """The first device that this process may use, without making a CUDA context; None without one."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    lines = _ask_driver("name,compute_cap,driver_version,uuid,memory.total", chosen)
    if not lines:
        return None
    name, capability, driver, uuid, *memory = (part.strip() for part in lines[0].split(","))
    return Device(name, capability.replace(".", ""), driver, uuid, int(_megabytes(memory[0]) if memory else 0))


def visible_devices() -> tuple[str, ...]:
    """All devices that this process may use, by number or name; none without a driver."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(name.strip() for name in chosen.split(",") if name.strip())
    return tuple(line.strip() for line in _ask_driver("index", ""))


def _megabytes(text: str) -> float:
    """The figure of "143771 MiB"; 0 for anything else."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return 0.0


def _ask_driver(query: str, device: str) -> list[str]:
    """Lines about one device, or about all; none if there is no device or driver, or it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={query}", "--format=csv,noheader", *([f"--id={device}"] if device else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST_ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def watch_device(uuid: str) -> Callable[[], bool]:
    """A function that says whether the driver has lost a device (it fell off the bus, or was taken away)."""
    seen = -_BELIEVED_SECONDS

    def is_lost() -> bool:
        nonlocal seen
        if time.monotonic() - seen < _BELIEVED_SECONDS:
            return False
        if _ask_driver("uuid", uuid) != [uuid]:
            return True
        seen = time.monotonic()
        return False

    return is_lost


def watch_memory(uuid: str) -> Callable[[], float]:
    """A function that says what share of a device's memory is free: all of it where the driver does not say."""

    def free_share() -> float:
        lines = _ask_driver("memory.free,memory.total", uuid)
        free, total = [*map(_megabytes, lines[0].split(",")), 0.0, 0.0][:2] if lines else (0.0, 0.0)
        return free / total if total else 1.0

    return free_share


def open_cuda(config: VerifierConfig) -> Backend:
    """The backend on this machine's first device.

    Raises:
        MusadataError: no device, or no nvcc.
    """
    from musadata.verifier.backends.cuda.nvcc import find_nvcc
    from musadata.verifier.compilation.build_cache import cache_folder
    from musadata.verifier.compilation.host_toolchain import find_toolchain

    device = find_device()
    if device is None:
        raise MusadataError("no CUDA device", where="verifier.backend", remedy="use emulated, or a machine with a GPU")
    nvcc, toolchain = find_nvcc(device.architecture), find_toolchain()
    cache = cache_folder().resolve()
    shown = [cache, nvcc.root, Path("/usr/local/nvidia"), Path("/sys"), toolchain.torch_root.parents[1]]
    return Backend(
        name="cuda",
        device=device.name,
        driver=device.driver,
        toolchain=f"{nvcc.version}; {toolchain.version}; torch {toolchain.torch_version}",
        child=_DEVICE,
        setup=f"{_DEVICE}:prepare",
        compile=_compiler(config, device.architecture),
        readable=tuple(map(str, [*shown, *_compiler_folders()])),
        devices=tuple(str(path) for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()),
        environment=(
            ("MUSADATA_CACHE", str(cache)),
            ("CUDA_DEVICE_MAX_CONNECTIONS", _CONNECTIONS),
            ("MUSADATA_ARCHITECTURE", device.architecture),
        ),
        times=True,
        crosscheck=True,
        identity=device.uuid,
        memory_mb=device.memory_mb,
        seats=device.seats,
        free_share=watch_memory(device.uuid),
        is_lost=watch_device(device.uuid),
    )


def _compiler_folders() -> list[Path]:
    """Where the C compiler is that Triton, and so torch.compile, will look for: CC, or gcc."""
    found = shutil.which((os.environ.get("CC", "").split() or ["gcc"])[0])
    return [Path(found).parents[1], Path(found).resolve().parents[1]] if found else []


def _compiler(config: VerifierConfig, architecture: str) -> Compile:
    from musadata.verifier.backends.cuda.nvcc import compile_candidate, find_nvcc
    from musadata.verifier.compilation.contained_run import CompileLimits

    limits = CompileLimits.of_seconds(config.compile_seconds, memory_mb=16384)
    # nvcc compiles for host and device side by side, and others read references meanwhile. More compilations than cores
    # would all finish late, and the device would wait.
    turns = threading.Semaphore(max(2, len(os.sched_getaffinity(0)) // 2))

    def compile_sources(sources: CandidateSources) -> Path:
        with turns:
            return compile_candidate(sources, find_nvcc(architecture), limits)

    return report_errors(compile_sources)
