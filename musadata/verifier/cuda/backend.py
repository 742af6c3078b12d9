"""The cuda backend as the verifier sees it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.verifier.backends import Backend, Built

_DEVICE = "musadata.verifier.cuda.device"


@dataclass(frozen=True)
class Device:
    """A device as the driver describes it. `architecture`: its compute capability, "90"."""

    name: str
    architecture: str
    driver: str
    uuid: str


@cache
def find_device() -> Device | None:
    """The first device that this process may use, without making a CUDA context; None without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    query = ["--query-gpu=name,compute_cap,driver_version,uuid", "--format=csv,noheader"]
    query += [f"--id={chosen}"] if chosen else []
    done = subprocess.run([tool, *query], capture_output=True, text=True, check=False, timeout=60)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return None
    name, capability, driver, uuid = (part.strip() for part in lines[0].split(","))
    return Device(name, capability.replace(".", ""), driver, uuid)


def open_cuda(config: VerifierConfig) -> Backend:
    """The backend on this machine's first device.

    Raises:
        MusadataError: no device, or no nvcc.
    """
    from musadata.verifier.cuda.nvcc import find_nvcc
    from musadata.verifier.torch_abi.toolchain import cache_folder, find_toolchain

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
        environment=(("MUSADATA_CACHE", str(cache)),),
        times=True,
        identity=device.uuid,
    )


def _compiler_folders() -> list[Path]:
    """Where the C compiler is that Triton, and so torch.compile, will look for: CC, or gcc."""
    found = shutil.which(os.environ.get("CC", "gcc").split()[0])
    return [Path(found).parents[1], Path(found).resolve().parents[1]] if found else []


def _compiler(config: VerifierConfig, architecture: str) -> Callable[[dict[str, Any]], Built]:
    from musadata.verifier.cuda.nvcc import compile_candidate, find_nvcc
    from musadata.verifier.emulation.contained import CompileLimits
    from musadata.verifier.emulation.errors import CompileError
    from musadata.verifier.emulation.sources import CandidateSources

    limits = CompileLimits(seconds=max(1, round(config.compile_seconds)), memory_mb=16384)

    def compile_sources(sources: dict[str, Any]) -> Built:
        try:
            parsed = CandidateSources.from_dict(sources)
            return Built(path=str(compile_candidate(parsed, find_nvcc(architecture), limits)))
        except CompileError as error:
            return Built(error=str(error))
        except (KeyError, TypeError, ValueError):
            return Built(error="The sources cannot be read.")

    return compile_sources
