"""`musadata evaluate`: a served model on a benchmark's checkout."""

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from musadata.config import BackendType, RequestsConfig, TeacherConfig, TeacherType, VerifierConfig
from musadata.errors import MusadataError
from musadata.sandbox import start_ahead


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base-url", required=True, help="an OpenAI-compatible server, up to and with /v1")
    parser.add_argument("--model", required=True, help="the model's name on the server")
    parser.add_argument("--problems", required=True, type=Path, help="a checkout of KernelBench, or files in its form")
    parser.add_argument(
        "--to", required=True, type=Path, metavar="DIR", help="results; the same command continues them"
    )
    parser.add_argument("--samples", type=int, default=8, metavar="N", help="answers to each problem (default: 8)")
    parser.add_argument("--levels", default="", help="only these, as in 1,2")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="only the first N problems of each level")
    parser.add_argument("--temperature", type=float, default=TeacherConfig.temperature)
    parser.add_argument("--max-tokens", type=int, default=TeacherConfig.max_tokens, help="tokens of an answer")
    parser.add_argument("--concurrency", type=int, default=TeacherConfig.concurrency, help="requests at once")
    parser.add_argument("--budget-tokens", type=int, default=0, metavar="N", help="stop a run that has used more")
    parser.add_argument("--backend", choices=[one.value for one in BackendType], default=BackendType.AUTO.value)
    parser.add_argument("--torch-compile", action="store_true", help="also time the references through torch.compile")
    parser.add_argument("--devices", default="", help="CUDA devices to use, as in 0,1; all if left out")
    parser.add_argument("--seconds", type=float, default=VerifierConfig.seconds, help="CPU time a candidate may take")


def run(arguments: argparse.Namespace) -> int:
    from musadata.evaluation.problems import read_problems
    from musadata.evaluation.run import PAGE, Evaluation, evaluate
    from musadata.verifier.batch import parse_devices

    if arguments.samples < 1:
        raise MusadataError(f"is {arguments.samples}", where="--samples", remedy="give 1 or more")
    if not arguments.base_url.startswith(("http://", "https://")):
        raise MusadataError(
            f"is {arguments.base_url!r}", where="--base-url", remedy="start it with http:// or https://"
        )
    try:
        levels = tuple(int(one) for one in arguments.levels.split(",") if one)
    except ValueError:
        raise MusadataError(f"is {arguments.levels!r}", where="--levels", remedy="say 1,2 or leave it out") from None
    problems = read_problems(arguments.problems, levels, arguments.limit)
    start_ahead()
    teacher = TeacherConfig(
        kind=TeacherType.OPENAI,
        base_url=arguments.base_url,
        model=arguments.model,
        samples=arguments.samples,
        temperature=arguments.temperature,
        max_tokens=arguments.max_tokens,
        concurrency=arguments.concurrency,
        send_seed=False,
    )
    verifier = VerifierConfig(
        backend=BackendType(arguments.backend), seconds=arguments.seconds, torch_compile=arguments.torch_compile
    )
    requests = RequestsConfig(budget_tokens=arguments.budget_tokens)
    at_once, devices = min(os.cpu_count() or 1, 16), parse_devices(arguments.devices)
    about = (tuple(problems), arguments.samples, teacher, arguments.to, verifier, requests, at_once, devices)
    summary = evaluate(Evaluation(*about), lambda text: print(text, file=sys.stderr))
    for policy, groups in summary["policies"].items():
        table = Table(title=f"policy {policy}", title_justify="left")
        for heading in (
            "",
            "problems",
            "solved",
            "avg@k",
            *(f"pass@{k}" for k in groups["all"]["pass_at_k"]),
            "failures",
        ):
            table.add_column(heading)
        for name, one in groups.items():
            failures = ", ".join(f"{count} {why}" for why, count in one["failures"].items())
            rates = [f"{rate:.1%}" for rate in (one["avg_at_k"], *one["pass_at_k"].values())]
            table.add_row(name, str(one["tasks"]), str(one["problems_solved"]), *rates, failures)
        Console().print(table)
    print(arguments.to / PAGE)
    return 0
