"""What a backend says of hand-written kernels that were published with PyTorch bindings.

    python -m benchmarks.published_kernels OWNER/NAME=CHECKOUT … --output build/emulated.json
    python -m benchmarks.published_kernels … --backend cuda --compare build/emulated.json --output build/h200.json

CHECKOUT is a work tree or a bare repository; nothing of it is kept. published_kernels.yaml says what each function
computes. A kernel is decided if its verdict is not of class infra. With `--compare` the verdicts of an earlier run on
the same kernels are compared, and every difference is named.
"""

import argparse
import json
import random
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass, Verdict
from musadata.verifier import Verifier

_KERNELS = Path(__file__).with_suffix(".yaml")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_LEAST_DECIDED, _LEAST_AGREEING = 0.85, 0.95


@dataclass(frozen=True)
class Published:
    """One function of a published extension, as a task and a candidate."""

    name: str
    reference: str
    candidate: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", metavar="OWNER/NAME=PATH")
    parser.add_argument("--backend", choices=["emulated", "cuda"], default="emulated")
    parser.add_argument("--draw", type=int, default=0, help="judge as many, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--compare", type=Path, help="the output of an earlier run")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    checkouts = dict(text.split("=", 1) for text in arguments.checkouts)
    kernels = _read_kernels({name: Path(path) for name, path in checkouts.items()})
    if arguments.draw:
        kernels = random.Random(arguments.seed).sample(kernels, min(arguments.draw, len(kernels)))
    config = VerifierConfig(backend=BackendType(arguments.backend))
    with Verifier(config) as verifier, ThreadPoolExecutor(arguments.workers) as pool:
        verdicts = list(pool.map(lambda one: verifier.verify_text(one.reference, one.candidate), kernels))
    said = {one.name: _describe(verdict) for one, verdict in zip(kernels, verdicts, strict=True)}
    lines = _lines(said, json.loads(arguments.compare.read_text())["kernels"] if arguments.compare else {})
    report("published kernels", lines, {"backend": arguments.backend, "kernels": said}, arguments.output)
    return 0 if all(kept for *_, kept in lines) else 1


def _read_kernels(checkouts: dict[str, Path]) -> list[Published]:
    entries = yaml.safe_load(_KERNELS.read_text(encoding="utf-8"))
    return [
        _publish(entry, function, checkouts[entry["repository"]])
        for entry in entries
        if entry["repository"] in checkouts
        for function in entry["functions"]
    ]


def _publish(entry: dict[str, Any], function: str, checkout: Path) -> Published:
    name = f"{entry['repository']}:{entry['files'][0]}:{function}"
    return Published(name, _write_reference(entry, function), _write_candidate(entry, function, checkout))


def _write_reference(entry: dict[str, Any], function: str) -> str:
    cast = ".bfloat16()" if "bf16" in function else ".half()" if "f16" in function else ""
    inputs = ", ".join(f"({value}){cast}" for value in entry["inputs"].values())
    before = "".join(f"        {line.strip()}\n" for line in entry.get("before", "").split(";") if line.strip())
    return (
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {', '.join(entry['inputs'])}):\n{before}        return {entry['reference']}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def _write_candidate(entry: dict[str, Any], function: str, checkout: Path) -> str:
    texts = {Path(name).name: _read_file(checkout, name) for name in entry["files"]}
    whole = {name: _inline(text, texts) for name, text in texts.items()}
    cuda, cpp = ("\n".join(text for name, text in whole.items() if name.endswith(end)) for end in (".cu", ".cpp"))
    names = ", ".join(entry["inputs"])
    given = ", ".join(part for part in (names, "y" if "output" in entry else "", entry.get("more", "")) if part)
    call = f"ext.{function}({given})"
    body = f"y = {entry['output']}\n        {call}\n        return y" if "output" in entry else f"return {call}"
    bound = f', functions=["{function}"]' if "bind" in entry else ""
    return (
        "import torch\nfrom torch import nn\nfrom torch.utils.cpp_extension import load_inline\n\n"
        f"cpp = {entry.get('bind', cpp)!r}\ncuda = {cuda!r}\n"
        f'ext = load_inline(name="published", cpp_sources=cpp, cuda_sources=cuda{bound})\n\n\n'
        f"class ModelNew(nn.Module):\n    def forward(self, {names}):\n        {body}\n"
    )


def _read_file(checkout: Path, name: str) -> str:
    if (checkout / name).is_file():
        return (checkout / name).read_text(encoding="utf-8", errors="replace")
    command = ["git", "-C", str(checkout), "show", f"HEAD:{name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout


def _inline(text: str, texts: dict[str, str]) -> str:
    """The text with the headers beside it in place of their includes, as `load_inline` has no files."""
    return _INCLUDE.sub(lambda line: texts.get(Path(line[1]).name, line[0]), text)


def _describe(verdict: Verdict) -> dict[str, str]:
    first = verdict.findings[0] if verdict.findings else None
    return {
        "said": "accepted" if verdict.accepted else str(verdict.error_class),
        "rule": first.rule if first else "",
        "message": first.message[:300] if first else "",
    }


def _lines(said: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> list[tuple[str, str, str, bool]]:
    decided = {name: one for name, one in said.items() if one["said"] != ErrorClass.INFRA}
    accused = [name for name, one in said.items() if one["said"] == ErrorClass.CHEATING]
    share = len(decided) / len(said)
    repositories = len({name.partition(":")[0] for name in said})
    lines = [
        ("kernels, repositories", "", f"{len(said)}, {repositories}", bool(said)),
        ("decided", f">= {_LEAST_DECIDED:.0%}", f"{share:.0%}", share >= _LEAST_DECIDED),
        ("accused of cheating", "0", str(len(accused)), not accused),
    ]
    both = [name for name in decided if other.get(name, {}).get("said", ErrorClass.INFRA) != ErrorClass.INFRA]
    if both:
        differ = [name for name in both if (said[name]["said"] == "accepted") != (other[name]["said"] == "accepted")]
        agreeing = 1 - len(differ) / len(both)
        lines.append(("agree", f">= {_LEAST_AGREEING:.0%}", f"{agreeing:.0%}", agreeing >= _LEAST_AGREEING))
        for name in differ:
            lines.append((name, "", f"{other[name]['rule'] or 'accepted'}; {said[name]['rule'] or 'accepted'}", True))
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
