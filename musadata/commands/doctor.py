"""`musadata doctor`: checks what works on this machine, and whether the files of a corpus are intact."""

import argparse
import importlib.metadata
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from musadata.corpus.manifest import MANIFEST, open_corpus, read_manifest
from musadata.errors import MusadataError
from musadata.storage import files
from musadata.storage.shards import run_again

LEAST_ROOM, AMPLE_ROOM = 200 << 20, 2 << 30  # bytes: without the first a run does not begin


class Health(StrEnum):
    """`missing` is something that only some uses need; `broken` has to be fixed."""

    GOOD = "good"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    health: Health
    detail: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", nargs="?", help="also check every shard of this corpus by its SHA-256")


def run(arguments: argparse.Namespace) -> int:
    checks = [check() for check in MACHINE]
    if arguments.corpus:
        checks += check_corpus(arguments.corpus)
    _print(checks)
    return 2 if any(check.health is Health.BROKEN for check in checks) else 0


def _print(checks: list[Check]) -> None:
    marks = {Health.GOOD: ("✓", "green"), Health.MISSING: ("–", "yellow"), Health.BROKEN: ("✗", "red")}
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for check in checks:
        mark, colour = marks[check.health]
        detail = Text(check.detail)
        if check.remedy:
            detail.append(f"\n→ {check.remedy}", style=colour)
        table.add_row(Text(mark, style=colour), Text(check.name), detail)
    Console().print(table)


def check_python() -> Check:
    version = platform.python_version()
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        return Check("Python", Health.BROKEN, version, "use Python 3.11, 3.12 or 3.13")
    return Check("Python", Health.GOOD, f"{version}, {sys.executable}")


def check_torch() -> Check:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Check("torch", Health.BROKEN, "not installed", "run `make env`")
    return Check("torch", Health.GOOD, version)


def check_emulated() -> Check:
    """The backend that runs on every machine with a C++ compiler."""
    from musadata.verifier.compilation.host_toolchain import find_toolchain

    try:
        toolchain = find_toolchain()
    except MusadataError as error:
        return Check("backend emulated", Health.BROKEN, f"{error.what} ({error.where})", error.remedy)
    if toolchain.version == "unknown":
        return Check("backend emulated", Health.BROKEN, f"{toolchain.compiler} does not run", "install g++, or set CXX")
    detail = f"runs CUDA C++ on the CPU: proves function, never speed; {toolchain.version}"
    return Check("backend emulated", Health.GOOD, detail)


def check_cuda() -> Check:
    """A device and nvcc, from a toolkit or from PyPI."""
    from musadata.verifier.backends.cuda.cuda_backend import find_device
    from musadata.verifier.backends.cuda.nvcc import find_nvcc

    device, missing, remedies = find_device(), [], []
    if device is None:
        missing, remedies = ["no NVIDIA GPU (nvidia-smi finds none)"], ["use a machine with one, or backend emulated"]
    try:
        nvcc = find_nvcc(device.architecture if device else "90")
    except MusadataError as error:
        missing, remedies = [*missing, error.what], [*remedies, error.remedy]
        return Check("backend cuda", Health.MISSING, "; ".join(missing), "; ".join(remedies))
    if device is None:
        return Check("backend cuda", Health.MISSING, f"{missing[0]}; {nvcc.version}", remedies[0])
    found = f"{device.name}, sm_{device.architecture}, driver {device.driver}; {nvcc.version}; times kernels"
    return Check("backend cuda", Health.GOOD, found)


def check_musa() -> Check:
    """A Moore Threads GPU, its toolkit and torch_musa."""
    from musadata.verifier.backends.musa.mcc import find_musa

    try:
        musa = find_musa()
    except MusadataError as error:
        return Check("backend musa", Health.MISSING, error.what, error.remedy)
    detail = f"{musa.device}, {musa.architecture}; {musa.version}; judges, does not time"
    return Check("backend musa", Health.GOOD, detail)


def check_sandbox() -> Check:
    """Whether untrusted code can run in namespaces of its own."""
    from musadata.sandbox import Sandbox

    try:
        with Sandbox(preload=()) as sandbox:
            if sandbox.namespaces:
                return Check("sandbox", Health.GOOD, "namespaces, no network, read-only root")
    except MusadataError as error:
        return Check("sandbox", Health.MISSING, error.what, error.remedy)
    plain = "switched off by MUSADATA_SANDBOX=plain, only resource limits: do not run code that you do not trust"
    return Check("sandbox", Health.MISSING, plain, "unset MUSADATA_SANDBOX")


def check_space() -> Check:
    """Room here, for what is built and for temporary files; each filesystem once."""
    from musadata.verifier.compilation.build_cache import cache_folder

    try:
        places = Path(tempfile.gettempdir()), cache_folder(), Path.cwd()
    except MusadataError as error:
        return Check("disk", Health.BROKEN, f"{error.where} {error.what}", error.remedy)
    folders = {folder.stat().st_dev: folder for folder in places}
    free = {folder: shutil.disk_usage(folder).free for folder in folders.values()}
    detail = "; ".join(f"{room >> 20:,} MB free in {folder}" for folder, room in free.items())
    if min(free.values()) >= AMPLE_ROOM:
        return Check("disk", Health.GOOD, detail)
    health = Health.MISSING if min(free.values()) >= LEAST_ROOM else Health.BROKEN
    return Check("disk", health, detail, "make room, or set MUSADATA_CACHE and TMPDIR to folders with more")


MACHINE = (check_python, check_torch, check_sandbox, check_emulated, check_cuda, check_musa, check_space)


def check_corpus(path: str) -> list[Check]:
    """Check every committed shard by size and SHA-256, and the manifest against the commits.

    Raises:
        MusadataError: this is not a corpus.
    """
    corpus = open_corpus(path)
    checks = [Check(one.where, Health.BROKEN, one.what, one.remedy) for one in corpus.damage(verify=True)]
    shards = sum(len(commit.outputs) for commit in corpus.commits)
    if not checks:
        checks.append(Check("corpus", Health.GOOD, f"{shards} shards, all with the committed SHA-256"))
    checks.append(_check_manifest(path, {output.path: output.sha256 for c in corpus.commits for output in c.outputs}))
    return checks


def _check_manifest(path: str, committed: dict[str, str]) -> Check:
    where = files.join(path, MANIFEST)
    try:
        manifest = read_manifest(path)
        listed = {
            shard["path"]: shard["sha256"] for dataset in manifest["datasets"].values() for shard in dataset["shards"]
        }
    except MusadataError as error:
        return Check("manifest", Health.BROKEN, error.what, error.remedy)
    except (KeyError, TypeError, AttributeError):
        remedy = f"delete it and {run_again('all', path)}"
        return Check("manifest", Health.BROKEN, f"{where} is not a manifest of musadata", remedy)
    public = {name: digest for name, digest in committed.items() if not name.startswith("_")}
    if listed != public:
        differing = sorted(name for name in listed.keys() | public.keys() if listed.get(name) != public.get(name))
        detail = f"differs from the commits in {len(differing)} shards, first {differing[0]}"
        return Check("manifest", Health.BROKEN, detail, f"{run_again('all', path)} to finish the interrupted run")
    return Check("manifest", Health.GOOD, f"lists exactly the {len(public)} published shards")
