"""What a backend says of hand-written kernels that were published with PyTorch bindings.

    python -m benchmarks.published_kernels OWNER/NAME=CHECKOUT … --gathered .pub/kernels.json
    python -m benchmarks.published_kernels --gathered .pub/kernels.json --verdicts .pub/emulated.jsonl
    python -m benchmarks.published_kernels --gathered .pub/kernels.json --backend cuda --verdicts build/cuda.jsonl \\
        --compare .pub/emulated.jsonl --output build/published_kernels.json
    python -m benchmarks.published_kernels --gathered .pub/kernels.json --workers 16 --check build/checks.jsonl

CHECKOUT is a work tree or a bare repository; `--gathered` holds its code, which is never committed.
published_kernels.yaml says what each function computes, and in which draw it is. A kernel is decided if its verdict is
not right or wrong. Each verdict is written as it comes; kernels that `--verdicts` holds are not judged again. With
`--compare` the verdicts of an earlier run on the same kernels are compared, and every difference is named. Kernels are
judged on the reference's own inputs alone, which are small: no measure set, ten timed calls. A device judges without
its cross-check. `said` is under the policy `paper`; each verdict also says whether the kernel is right on the declared
inputs, and which policies accept it. `--check` judges nothing: it compiles each kernel with PyTorch's `load_inline` and
compares it with its reference on 200 draws of the declared inputs, each in a process of its own, which knows nothing of
the verifier (published_check.py, which states the tolerances); with `--checked` the verdicts are compared with that.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from unittest import mock

import yaml

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass, Verdict
from musadata.rows import content_id
from musadata.verifier import Verifier
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.policies import NAMES, decide, load_policy

_KERNELS = Path(__file__).with_suffix(".yaml")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_LEAST_KERNELS, _LEAST_REPOSITORIES = 100, 10
_LEAST_DECIDED, _LEAST_AGREEING = 0.97, 0.97
_CHECK = Path(__file__).with_name("published_check.py")
_CHECKED_DRAWS = 200
_UNSEEN = ("device.race", "device.illegal_access")  # faults of a kernel that may leave a device's results right
Said = dict[str, Any]  # a verdict in short, see `_describe`


@dataclass(frozen=True)
class Published:
    """One function of a published extension, as a task and a candidate."""

    name: str
    draw: int
    reference: str
    candidate: str

    @property
    def digest(self) -> str:
        return content_id("published", self.reference + self.candidate)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    if arguments.checkouts:
        checkouts = dict(text.split("=", 1) for text in arguments.checkouts)
        found = _read_kernels({name: Path(path) for name, path in checkouts.items()})
        arguments.gathered.parent.mkdir(parents=True, exist_ok=True)
        arguments.gathered.write_text(json.dumps([asdict(one) for one in found]))
        print(f"{len(found)} kernels of {len(checkouts)} repositories")
        return 0
    every = [Published(**fields) for fields in json.loads(arguments.gathered.read_text())]
    kernels = [
        one for draw in arguments.draws for one in every if one.draw == draw and re.search(arguments.only, one.name)
    ]
    until = time.monotonic() + 60 * arguments.minutes
    if arguments.check:
        _check_all(kernels, arguments.workers, arguments.seconds, arguments.check, until)
        return 0
    said = _judge_all(kernels, arguments.backend, arguments.workers, arguments.verdicts, until)
    other = _read_verdicts(arguments.compare, kernels)
    checked = _read_verdicts(arguments.checked, kernels)
    lines, differences = _lines(said, other) + _check_lines(said, checked), _differences(said, other)
    differences += _differences(said, checked)
    for difference in differences:
        print(json.dumps(difference, indent=1))
    details = {"backend": arguments.backend, "kernels": said, "differences": differences}
    if arguments.machine_of:
        made = json.loads(arguments.machine_of.read_text())
        details |= {"machine": made["machine"], "revision": made["revision"]}
    report("published kernels", lines, details, arguments.output)
    return 0 if all(kept for *_, kept in lines) else 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", metavar="OWNER/NAME=PATH")
    parser.add_argument("--gathered", type=Path, required=True, help="the kernels, as tasks and candidates")
    parser.add_argument("--backend", choices=["emulated", "cuda"], default="emulated")
    parser.add_argument("--draws", type=int, nargs="+", default=[2])
    parser.add_argument("--only", default="", help="a pattern that a kernel's name holds")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no other kernel is begun")
    parser.add_argument("--verdicts", type=Path, help="JSON lines, one a verdict, as they come")
    parser.add_argument("--compare", type=Path, help="the verdicts of an earlier run")
    parser.add_argument("--check", type=Path, help="compare kernels with their references, to these JSON lines")
    parser.add_argument("--seconds", type=float, default=900, help="after which a kernel's check is ended")
    parser.add_argument("--checked", type=Path, help="what --check wrote, with which verdicts are compared")
    parser.add_argument("--machine-of", type=Path, help="the output that was written where the verdicts were made")
    parser.add_argument("--output", type=Path)
    return parser.parse_args(argv)


def _check_all(kernels: list[Published], workers: int, seconds: float, path: Path, until: float) -> None:
    done = _read_verdicts(path, kernels)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock()

    def check(one: Published, folder: Path) -> None:
        if time.monotonic() > until:
            return
        start = time.monotonic()
        entry = {"name": one.name, "digest": one.digest, **_check(one, folder, seconds)}
        entry["seconds"] = round(time.monotonic() - start, 1)
        with lock, path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            print(f"{entry['seconds']:5.1f} s {one.name}: {entry['right']} {entry.get('error', '')[-200:]}", flush=True)

    earlier: Counter[str] = Counter()
    waves = defaultdict(list)  # those of the same sources one after the other, so that the others need not compile
    for one in kernels:
        sources = content_id("sources", one.candidate.partition("\nclass ModelNew")[0])
        if one.name not in done:
            waves[earlier[sources]].append((one, sources))
        earlier[sources] += 1
    with TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        ordered = [pair for _, wave in sorted(waves.items()) for pair in wave]
        list(pool.map(lambda pair: check(pair[0], Path(folder, pair[1])), ordered))


def _check(one: Published, folder: Path, seconds: float) -> Said:
    """What a process of its own says of it, which is killed with all that it started once its time is over."""
    folder.mkdir(exist_ok=True)
    task = {
        "reference": one.reference,
        "candidate": one.candidate,
        "draws": _CHECKED_DRAWS,
        "folder": str(folder),
    }
    command = [sys.executable, str(_CHECK)]
    start = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with start(command, env={"MAX_JOBS": "2", **os.environ}, start_new_session=True) as process:
        try:
            said, errors = process.communicate(json.dumps(task), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"right": None, "error": f"not done after {seconds:.0f} s"}
    try:
        return json.loads(said.splitlines()[-1])
    except (IndexError, ValueError):  # it died
        return {"right": None, "error": f"exit code {process.returncode}: {errors[-2000:]}"}


def _judge_all(
    kernels: list[Published], backend: str, workers: int, path: Path | None, until: float
) -> dict[str, Said]:
    said = _read_verdicts(path, kernels)
    lock = Lock()

    def judge(one: Published, verifier: Verifier) -> None:
        if time.monotonic() > until:
            return
        entry = {"name": one.name, "digest": one.digest, **_judge(one, verifier)}
        with lock:
            said[one.name] = entry
            print(f"{len(said)}/{len(kernels)} {entry['seconds']:5.1f} s {one.name}: {entry['said']} {entry['rule']}")
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")

    left = [one for one in kernels if one.name not in said]
    if left:  # else the verdicts may be of a machine that is elsewhere
        with _open_verifier(backend) as verifier, ThreadPoolExecutor(workers) as pool:
            list(pool.map(partial(judge, verifier=verifier), left))
    return {one.name: said[one.name] for one in kernels if one.name in said}


@contextmanager
def _open_verifier(backend: str) -> Iterator[Verifier]:
    """One whose device judges alone: its cross-check with the emulator would agree with the emulator."""
    alone = lambda config: replace(open_backend(config), crosscheck=False)  # noqa: E731
    config = VerifierConfig(backend=BackendType(backend), timed_runs=10, policy="paper")
    with mock.patch("musadata.verifier.verifier.open_backend", alone), Verifier(config) as verifier:
        yield verifier


def _read_verdicts(path: Path | None, kernels: list[Published]) -> dict[str, Said]:
    """The last verdict of each of these kernels, in their present form."""
    if path is None or not path.exists():
        return {}
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    digests = {one.name: one.digest for one in kernels}
    return {one["name"]: one for one in entries if digests.get(one["name"]) == one["digest"]}


def _judge(one: Published, verifier: Verifier) -> Said:
    start = time.monotonic()
    try:
        verifier.compile_speculatively(one.candidate)
        lone = verifier.read_reference(one.reference)
        task = lone.forms[0]
        if lone.measure:  # it was shrunk
            task = replace(task, reference=lone.text, inputs=lone.measure)
        found = _describe(verifier.verify(task, one.candidate))
    except Exception:  # a fault of ours, which is counted as undecided
        found = {"said": str(ErrorClass.INFRA), "rule": "crash", "message": traceback.format_exc()}
    return {"seconds": round(time.monotonic() - start, 1), **found}


def _read_kernels(checkouts: dict[str, Path]) -> list[Published]:
    entries = yaml.safe_load(_KERNELS.read_text(encoding="utf-8"))
    return [
        _publish(entry, function, checkouts[entry["repository"]])
        for entry in entries
        if entry["repository"] in checkouts
        for function in entry["functions"]
    ]


def _publish(entry: dict[str, Any], function: str, checkout: Path) -> Published:
    name = ":".join([entry["repository"], entry["files"][0], function, *filter(None, [entry.get("variant")])])
    reference = _write_reference(entry, function)
    candidate = _write_candidate(entry, function, checkout)
    return Published(name, entry.get("draw", 2), reference, candidate)


def _write_reference(entry: dict[str, Any], function: str) -> str:
    kind = "bfloat16" if "bf16" in function else "half" if "f16" in function else entry.get("type", "")
    cast = f".{kind}()" if kind else ""
    inputs = ", ".join(f"({value}){cast if 'rand' in value else ''}" for value in entry["inputs"].values())
    before = "".join(f"        {line}\n" for line in entry.get("before", "").splitlines())
    return (
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {', '.join(entry['inputs'])}):\n{before}        return {entry['reference']}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def _write_candidate(entry: dict[str, Any], function: str, checkout: Path) -> str:
    texts = {Path(name).name: _read_file(checkout, name) for name in entry["files"]}
    for old, new in entry.get("replace", {}).items():
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    cuda, cpp = (_inline([name for name in texts if name.endswith(ends)], texts) for ends in (".cu", (".cpp", ".cc")))
    names = ", ".join(entry["inputs"])
    options = "".join(f", {key}={entry[key]!r}" for key in ("extra_cflags", "extra_cuda_cflags") if key in entry)
    options += f', functions=["{function}"]' if "bind" in entry else ""
    return (
        "import torch\nfrom torch import nn\nfrom torch.utils.cpp_extension import load_inline\n\n"
        f"cpp = {cpp + entry.get('bind', '')!r}\ncuda = {cuda!r}\n"
        f'ext = load_inline(name="published", cpp_sources=cpp, cuda_sources=cuda{options})\n\n\n'
        f"class ModelNew(nn.Module):\n    def forward(self, {names}):\n"
        + "".join(f"        {name} = {name}.contiguous()\n" for name in entry["inputs"])
        + f"{_write_call(entry, function, names)}\n"
    )


def _write_call(entry: dict[str, Any], function: str, names: str) -> str:
    if "call" in entry:
        lines = entry["call"].replace("FUNCTION", function).strip().splitlines()
    else:
        output = ["y"] if "output" in entry else []
        call = f"ext.{function}({', '.join([names, *output, *filter(None, [entry.get('more')])])})"
        lines = [f"y = {entry['output']}", call, "return y"] if output else [f"return {call}"]
    return "\n".join(" " * 8 + line for line in lines)


def _read_file(checkout: Path, name: str) -> str:
    if (checkout / name).is_file():
        return (checkout / name).read_text(encoding="utf-8", errors="replace")
    command = ["git", "-C", str(checkout), "show", f"HEAD:{name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout


def _inline(names: list[str], texts: dict[str, str]) -> str:
    """These files as one text, with each header in place of its first include, as `load_inline` has no files."""
    seen: set[str] = set()

    def replace_include(line: re.Match[str]) -> str:
        name = Path(line[1]).name
        if name not in texts:
            return line[0]
        seen_before = name in seen
        seen.add(name)
        return "" if seen_before else _INCLUDE.sub(replace_include, texts[name].replace("#pragma once", ""))

    return "\n".join(_INCLUDE.sub(replace_include, texts[name]) for name in names)


def _describe(verdict: Verdict) -> Said:
    first = verdict.findings[0] if verdict.findings else None
    return {
        "said": "accepted" if verdict.accepted else str(verdict.error_class),
        "stage": str(verdict.stage),
        "share": verdict.test_share,
        "rule": first.rule if first else "",
        "message": first.message[:600] if first else "",
        "findings": [f"{one.rule} line {one.line}: {one.message[:300]}" for one in verdict.findings[1:4]],
        "right": verdict.facts.right,
        "policies": [name for name in NAMES if decide(verdict.facts, load_policy(name)).accepted],
        "noted": sorted({f"{one.rule}@{one.condition}" for one in verdict.facts.findings}),
    }


def _lines(said: dict[str, Said], other: dict[str, Said]) -> list[tuple[str, str, str, bool]]:
    repositories = len({name.partition(":")[0] for name in said})
    goal = f">= {_LEAST_KERNELS}, >= {_LEAST_REPOSITORIES}"
    enough = len(said) >= _LEAST_KERNELS and repositories >= _LEAST_REPOSITORIES
    lines = [("kernels, repositories", goal, f"{len(said)}, {repositories}", enough)]
    for run, verdicts in (("", said), *([(", compared run", other)] if other else [])):
        each = [verdicts[name] for name in said if name in verdicts]
        share = sum(one.get("right") is not None for one in each) / max(len(each), 1)
        accused = sum(one["said"] == ErrorClass.CHEATING for one in each)
        lines += [
            (f"decided{run}", f">= {_LEAST_DECIDED:.0%}", f"{share:.1%} of {len(each)}", share >= _LEAST_DECIDED),
            (f"right{run}", "", str(sum(one.get("right") is True for one in each)), True),
            *(
                (f"accepted under {name}{run}", "", str(sum(name in one.get("policies", ()) for one in each)), True)
                for name in NAMES
            ),
            (f"accused of cheating{run}", "0", str(accused), not accused),
        ]
    pairs = [pair for _, *pair in _pairs(said, other) if None not in (one.get("right") for one in pair)]
    if pairs:
        unlike = [pair for pair in pairs if pair[0]["right"] != pair[1]["right"]]
        both = sum(all(one["right"] for one in pair) for pair in pairs)
        faults = sum(any(one["rule"].startswith(_UNSEEN) for one in pair) for pair in unlike)
        agree = 1 - len(unlike) / len(pairs)
        what = f"{agree:.1%} of {len(pairs)}"
        lines.append(("agree", f">= {_LEAST_AGREEING:.0%}", what, agree >= _LEAST_AGREEING))
        lines.append(("right by both", "", str(both), True))
        lines.append(("differ by a race or address that one run reports", "", f"{faults} of {len(unlike)}", True))
    return lines


def _check_lines(said: dict[str, Said], checked: dict[str, Said]) -> list[tuple[str, str, str, bool]]:
    """How the verdicts agree with the independent check, on kernels of which both say something."""
    pairs = [(now["right"], check["right"]) for _, check, now in _pairs(said, checked)]
    both = [pair for pair in pairs if None not in pair]
    if not both:
        return []
    share = sum(now == check for now, check in both) / len(both)
    right = sum(check is True for _, check in pairs)
    return [
        ("right by the check", "", f"{right} of {len(pairs)}", True),
        ("agree with the check", f">= {_LEAST_AGREEING:.0%}", f"{share:.1%} of {len(both)}", share >= _LEAST_AGREEING),
    ]


def _pairs(said: dict[str, Said], other: dict[str, Said]) -> Iterator[tuple[str, Said, Said]]:
    """What the compared run and this one say of each kernel."""
    return ((name, other[name], now) for name, now in said.items() if name in other)


def _differences(said: dict[str, Said], other: dict[str, Said]) -> list[dict[str, Any]]:
    """Kernels that are right by one run alone, with both verdicts, undecided ones too."""
    return [
        {"name": name, "earlier": earlier, "now": now}
        for name, earlier, now in _pairs(said, other)
        if earlier.get("right") != now.get("right")
    ]


if __name__ == "__main__":
    raise SystemExit(main())
