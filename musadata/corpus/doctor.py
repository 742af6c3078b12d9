"""What on this machine works, what does not, and what to do about it; and whether a corpus is whole."""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from musadata.corpus import files
from musadata.corpus.commits import damage, run_again
from musadata.corpus.manifest import MANIFEST, open_corpus, read_manifest
from musadata.errors import MusadataError


class Health(StrEnum):
    """`missing` is something that only some uses need; `broken` has to be mended."""

    GOOD = "good"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

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


def check_compiler() -> Check:
    """A C++ compiler: the emulated backend compiles candidates with it."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "")
    if not compiler:
        return Check("C++ compiler", Health.BROKEN, "none on PATH", "install g++ or clang++, or set CXX")
    first = _first_line([compiler, "--version"])
    if not first:
        return Check("C++ compiler", Health.BROKEN, f"{compiler} does not run", "install g++ or clang++, or set CXX")
    return Check("C++ compiler", Health.GOOD, first)


def check_nvcc() -> Check:
    """nvcc from a toolkit or from PyPI: only the cuda backend needs it."""
    nvcc = shutil.which("nvcc") or next(
        map(str, sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/bin/nvcc"))), ""
    )
    if not nvcc:
        return Check("nvcc", Health.MISSING, "only the cuda backend needs it", "pip install 'musadata[cuda]'")
    lines = _output([nvcc, "--version"]).splitlines()
    return Check("nvcc", Health.GOOD, f"{next((line for line in lines if 'release' in line), '')} at {nvcc}".strip())


def check_gpu() -> Check:
    name = _first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    if name:
        return Check("GPU", Health.GOOD, f"{name}: backend cuda, with timing")
    if importlib.util.find_spec("torch_musa"):
        return Check("GPU", Health.GOOD, "torch_musa: backend musa")
    return Check("GPU", Health.MISSING, "none: backend emulated, which proves function, never speed")


def check_sandbox() -> Check:
    """Whether untrusted code gets namespaces of its own."""
    from musadata.sandbox import Sandbox

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is what is printed here
        with Sandbox(preload=()) as sandbox:
            if sandbox.namespaces:
                return Check("sandbox", Health.GOOD, "namespaces, no network, read-only root")
    return Check(
        "sandbox",
        Health.MISSING,
        "no user namespaces here: limits only, so run nothing that you do not trust",
        "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)",
    )


def check_space() -> Check:
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    if free < 2 << 30:
        return Check("disk", Health.BROKEN, f"{free >> 20:,} MB free in {folder}", "free some space")
    return Check("disk", Health.GOOD, f"{free >> 30:,} GB free in {folder}")


MACHINE: tuple[Callable[[], Check], ...] = (
    check_python,
    check_torch,
    check_compiler,
    check_sandbox,
    check_gpu,
    check_nvcc,
    check_space,
)


def check_corpus(path: str) -> list[Check]:
    """Every committed shard by size and SHA-256, and the manifest against the commits.

    Raises:
        MusadataError: it is not a corpus.
    """
    corpus = open_corpus(path)
    checks = [
        Check(file, Health.BROKEN, trouble, f"delete it and {run_again(commit.stage, path)} again")
        for commit in corpus.commits
        for file, trouble in damage(path, commit, verify=True)
    ]
    shards = sum(len(commit.outputs) for commit in corpus.commits)
    if not checks:
        checks.append(Check("corpus", Health.GOOD, f"{shards} shards, each with the SHA-256 that was committed"))
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
        return Check(
            "manifest", Health.BROKEN, f"{where} is not one of ours", f"delete it and {run_again('all', path)}"
        )
    public = {name: digest for name, digest in committed.items() if not name.startswith("_")}
    if listed != public:
        differing = sorted(name for name in listed.keys() | public.keys() if listed.get(name) != public.get(name))
        detail = f"differs from the commits in {len(differing)} shards, first {differing[0]}"
        return Check("manifest", Health.BROKEN, detail, f"{run_again('all', path)} to finish what was interrupted")
    return Check("manifest", Health.GOOD, f"names all {len(public)} published shards and nothing else")


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _first_line(command: list[str]) -> str:
    return next(iter(_output(command).splitlines()), "")
