"""`python -m musadata verify` and `verify-batch`: verdicts from the command line."""

import argparse
import codecs
import io
import json
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from musadata.bounds import find_out_of_bounds
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Verdict
from musadata.rows import plain
from musadata.sandbox import start_ahead
from musadata.verifier.extract import MAX_CHARACTERS
from musadata.verifier.policies import NAMES, decide, load_policy

ACCEPTED, REJECTED, UNDECIDED = 0, 1, 2
_AT_ONCE = 16  # candidates per device
_MOST_BYTES = 100 << 20
_MOST_BYTES_PER_CHARACTER = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `verify`."""
    parser.add_argument(
        "--reference", required=True, type=Path, help="Python file with Model, get_inputs, get_init_inputs"
    )
    parser.add_argument("--candidate", required=True, type=Path, help="Python file with ModelNew, or a model's reply")
    parser.add_argument("--json", action="store_true", help="print the whole verdict as JSON")
    add_common(parser)


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `verify-batch`."""
    parser.add_argument(
        "candidates", type=Path, help="Parquet file with the columns reference and source (or candidate)"
    )
    parser.add_argument("--output", required=True, type=Path, help="Parquet file to write: the same rows and a verdict")
    parser.add_argument(
        "--compile-workers",
        type=int,
        metavar="N",
        help="candidates that are compiled and executed at the same time; one per core, but 16 per device at the most",
    )
    parser.add_argument("--devices", default="", help="CUDA devices to use, as in 0,1; all if left out")
    add_common(parser)


def add_common(parser: argparse.ArgumentParser) -> None:
    names = [kind.value for kind in BackendType]
    parser.add_argument(
        "--policy", default="paper", help=f"{', '.join(NAMES)}, or a YAML file; see `musadata policies`"
    )
    parser.add_argument("--backend", choices=names, default=BackendType.AUTO.value, help="where kernels run")
    parser.add_argument("--sanitize", action="store_true", help="check every access, not the first ones only")
    parser.add_argument("--seed", type=int, default=0, help="the secret that inputs are drawn from")
    parser.add_argument("--torch-compile", action="store_true", help="also time the reference through torch.compile")
    parser.add_argument(
        "--input-sets", type=int, default=VerifierConfig.input_sets, help="randomised input sets per set of shapes"
    )
    parser.add_argument("--timed-runs", type=int, default=VerifierConfig.timed_runs, help="calls that are timed")
    parser.add_argument("--seconds", type=float, default=VerifierConfig.seconds, help="CPU time a candidate may take")


def config_of(arguments: argparse.Namespace) -> VerifierConfig:
    """What the options ask for.

    Raises:
        MusadataError: a number is out of bounds, or there is no such policy.
    """
    load_policy(arguments.policy)
    config = VerifierConfig(
        backend=BackendType(arguments.backend),
        policy=arguments.policy,
        sanitize=arguments.sanitize,
        seed=arguments.seed,
        seconds=arguments.seconds,
        input_sets=arguments.input_sets,
        timed_runs=arguments.timed_runs,
        torch_compile=arguments.torch_compile,
    )
    for key, wrong in find_out_of_bounds(config):
        option = f"--{key.replace('_', '-')}"
        raise MusadataError(wrong, where=option, remedy="change it, or leave it out for the usual")
    return config


def run(arguments: argparse.Namespace) -> int:
    """Judge one candidate: 0 accepted, 1 rejected, 2 the verifier could not say."""
    reference = read_reference(arguments.reference)
    candidate = _read(arguments.candidate, MAX_CHARACTERS * _MOST_BYTES_PER_CHARACTER)
    config = config_of(arguments)
    start_ahead()  # torch is imported while this process gets ready
    from musadata.verifier import Verifier

    with Verifier(config) as verifier:
        verdict = verifier.verify_text(reference, candidate)
    print(json.dumps(plain(verdict), indent=2) if arguments.json else _render(verdict))
    return _exit_code(verdict)


def _exit_code(verdict: Verdict) -> int:
    if verdict.accepted:
        return ACCEPTED
    return UNDECIDED if verdict.is_undecided else REJECTED


def read_reference(path: Path) -> str:
    """A reference's text.

    Raises:
        MusadataError: it cannot be read, is too large, or is no text.
    """
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise MusadataError("is larger than 100 MB", where=str(path), remedy="name a source file")
    text = _read(path, _MOST_BYTES)
    if any("\udc80" <= letter <= "\udcff" for letter in text):
        raise MusadataError("is not UTF-8 text", where=str(path), remedy="save it as UTF-8")
    if re.search(r"^class ModelNew\b", text, re.MULTILINE) and not re.search(r"^class Model\b", text, re.MULTILINE):
        remedy = "name the reference with --reference, and this one with --candidate"
        raise MusadataError("defines ModelNew and no Model, so it is a candidate", where=str(path), remedy=remedy)
    return text


def _read(path: Path, most_bytes: int) -> str:
    """A file's text, as Python would read it, or by its byte order mark; bytes that cannot be decoded become lone
    surrogates, which the verdict reports. What is beyond `most_bytes` is left out.

    Raises:
        MusadataError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        remedy = "name an existing, readable file"
        raise MusadataError(f"cannot be read ({error.strerror})", where=str(path), remedy=remedy) from error
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
    except (SyntaxError, UnicodeDecodeError):
        return data.decode("utf-8-sig", "surrogateescape")


def _render(verdict: Verdict) -> str:
    head = "accepted" if verdict.accepted else f"rejected ({verdict.error_class})"
    if verdict.is_undecided:
        head = "undecided"
    place = f"at stage {verdict.stage}, policy {verdict.policy}, backend {verdict.backend}, reward {verdict.reward:g}"
    lines = [f"{head} {place}", verdict.feedback, *_facts(verdict)]
    if verdict.shrunk:
        lines.append(f"judged at smaller sizes: {verdict.shrunk}")
    if verdict.speedup is not None:
        lines.append(f"speedup over eager: {verdict.speedup:.2f}")
    return "\n".join(lines)


def _facts(verdict: Verdict) -> Iterator[str]:
    """What other policies say, and what was seen beside the reasons."""
    right = verdict.facts.right
    if right is not None:
        yield f"on the declared inputs: {'right' if right else 'wrong'}"
    accepting = [name for name in NAMES if decide(verdict.facts, load_policy(name)).accepted]
    yield f"accepted under: {', '.join(accepting) or 'no policy'}"
    refused = {(one.rule, one.line) for one in verdict.findings}
    for finding in verdict.facts.findings:
        if (finding.rule, finding.line) not in refused:
            yield f"noted: {finding.rule}{f', line {finding.line}' if finding.line else ''}: {finding.message}"


def run_batch(arguments: argparse.Namespace) -> int:
    """Judge every row of a Parquet file; the output has the same rows, in order, with a column `verdict`."""
    config = config_of(arguments)
    from musadata.verifier.backend_choice import open_backend
    from musadata.verifier.backends.cuda.cuda_backend import visible_devices
    from musadata.verifier.batch import Batch, judge_batch, parse_devices
    from musadata.verifier.summary import render

    devices = parse_devices(arguments.devices)
    if not devices:
        found = visible_devices() if config.backend in (BackendType.AUTO, BackendType.CUDA) else ()
        devices = found if len(found) > 1 else ()  # one needs no process of its own
    if not devices:
        start_ahead()
    if devices and config.backend is BackendType.AUTO and open_backend(config).name == BackendType.EMULATED.value:
        remedy = "leave it out to run the kernels on the CPU"
        raise MusadataError("there is no CUDA device here", where="--devices", remedy=remedy)
    at_once = arguments.compile_workers
    if at_once is None:
        at_once = min(os.cpu_count() or 1, _AT_ONCE * max(1, len(devices)))
    if at_once < 1:
        raise MusadataError("must be 1 or more", where="--compile-workers", remedy="leave it out for one per core")
    batch = Batch(arguments.candidates, arguments.output, config, at_once, devices)
    verdicts = judge_batch(batch)
    accepted = sum(verdict.accepted for verdict in verdicts)
    print(render(verdicts))
    said = f"{accepted} of {len(verdicts)} accepted under the policy {config.policy}; verdicts in {arguments.output}"
    print(said, file=sys.stderr)
    return 0
