"""Sample, judge, count: what `musadata evaluate` does, in a folder that the same command continues."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from musadata.config import RequestsConfig, TeacherConfig, VerifierConfig
from musadata.corpus.page_templates import PAGES
from musadata.evaluation.problems import Problem
from musadata.evaluation.sampling import Sample, ask_model
from musadata.records import Verdict
from musadata.rows import plain
from musadata.sampling.pass_rate import PassRate, average_rates
from musadata.schema import arrow_schema
from musadata.storage.files import write_atomic
from musadata.storage.journal import Journal
from musadata.verifier.batch import Batch, judge_batch
from musadata.verifier.policies import apply_policy, load_policy

POLICIES = ("paper", "kernelbench")
ROWS, SUMMARY, PAGE = "rows.parquet", "summary.json", "index.html"
KS = (1, 2, 4, 8, 16)
FASTER = 1.1  # the paper's threshold


@dataclass(frozen=True)
class Evaluation:
    """What to ask, of whom, and how to judge it. `folder` holds journals, rows and page."""

    problems: tuple[Problem, ...]
    samples: int
    teacher: TeacherConfig
    folder: Path
    verifier: VerifierConfig
    requests: RequestsConfig
    at_once: int
    devices: tuple[str, ...] = ()


def evaluate(evaluation: Evaluation, say: Callable[[str], None]) -> dict[str, Any]:
    """Figures by level under each policy; rows and a page in the folder.

    Raises:
        Outage: some samples got no answer or no verdict; the same command asks and judges only those.
        MusadataError: no server, no such model, no backend.
    """
    folder = evaluation.folder
    with Journal(folder / "_journal", "answers") as journal:
        asked = (evaluation.problems, evaluation.samples, evaluation.teacher, evaluation.requests, journal, say)
        samples = ask_model(*asked)
    candidates = folder / "_journal" / "candidates.parquet"
    columns = {"reference": [one.problem.reference for one in samples], "source": [one.text for one in samples]}
    pq.write_table(pa.table(columns, pa.schema({"reference": pa.string(), "source": pa.string()})), candidates)
    judged = folder / "_journal" / "verdicts.parquet"
    batch = Batch(candidates, judged, evaluation.verifier, evaluation.at_once, evaluation.devices)
    facts = judge_batch(batch, say)
    verdicts = {name: [apply_policy(one, load_policy(name)) for one in facts] for name in POLICIES}
    _write_rows(folder / ROWS, samples, verdicts)
    summary = {
        "model": evaluation.teacher.model,
        "served_models": sorted({one.served_model for one in samples} - {""}),
        "temperature": evaluation.teacher.temperature,
        "samples": evaluation.samples,
        "backend": facts[0].backend,
        "device": facts[0].device,
        "tokens": dict(sum((Counter(one.usage) for one in samples), Counter())),
        "policies": {name: count_figures(samples, some) for name, some in verdicts.items()},
    }
    write_atomic(str(folder / SUMMARY), json.dumps(summary, indent=1).encode() + b"\n")
    page = PAGES.get_template("evaluation.html").render(
        summary=summary, ks=KS, faster=FASTER, rows=_list(samples, verdicts)
    )
    write_atomic(str(folder / PAGE), page.encode())
    return summary


def count_figures(samples: Sequence[Sample], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """{"all" | "level 1" | …: figures}: Pass@k, Avg@k, shares that are faster, and why the others failed.

    Every sample counts: one without an answer, and one on which nothing can be said, did not pass.
    """
    groups: dict[str, list[int]] = {"all": list(range(len(samples)))}
    for index, sample in enumerate(samples):
        groups.setdefault(f"level {sample.problem.level}", []).append(index)
    return {name: _count_group([(samples[at], verdicts[at]) for at in places]) for name, places in groups.items()}


def _count_group(judged: Sequence[tuple[Sample, Verdict]]) -> dict[str, Any]:
    by_problem: dict[str, list[Verdict]] = {}
    for sample, verdict in judged:
        by_problem.setdefault(sample.problem.name, []).append(verdict)
    rates = [PassRate(len(some), sum(one.accepted for one in some)) for some in by_problem.values()]
    found: dict[str, Any] = {**average_rates(rates, KS), "problems_solved": sum(rate.passed > 0 for rate in rates)}
    for name in ("eager", "compile"):
        gains = [[_gain(one, name) for one in some] for some in by_problem.values()]
        if any(gain is not None for some in gains for gain in some):
            faster = [any(gain is not None and gain >= FASTER for gain in some) for some in gains]
            found[f"faster_than_{name}"] = round(sum(faster) / len(faster), 4)
    failed = Counter(_why(sample, verdict) for sample, verdict in judged if not verdict.accepted)
    found["failures"] = dict(failed.most_common())
    return found


def _gain(verdict: Verdict, name: str) -> float | None:
    """How many times as fast an accepted candidate is as PyTorch; None where it was not timed."""
    times = {one.name: one.median_ms for one in verdict.timings}
    timed = verdict.accepted and name in times and times.get("candidate", 0.0) > 0.0
    return times[name] / times["candidate"] if timed else None


def _why(sample: Sample, verdict: Verdict) -> str:
    return sample.failed or (verdict.error_class.value if verdict.error_class else "rejected")


def _list(samples: Sequence[Sample], verdicts: dict[str, list[Verdict]]) -> list[dict[str, Any]]:
    return [
        {
            "problem": sample.problem.name,
            "level": sample.problem.level,
            "sample": sample.number,
            "verdicts": ["accepted" if some[at].accepted else _why(sample, some[at]) for some in verdicts.values()],
            "speedup": verdicts["paper"][at].speedup,
            "rules": list(dict.fromkeys(one.rule for one in verdicts["paper"][at].findings)),
            "text": sample.text,
        }
        for at, sample in enumerate(samples)
    ]


def _write_rows(path: Path, samples: Sequence[Sample], verdicts: dict[str, list[Verdict]]) -> None:
    """One row per sample: problem, answer, facts, and each policy's verdict."""
    fixed = {"problem": pa.string(), "level": pa.int64(), "sample": pa.int64(), "reference": pa.string()}
    fixed |= {"answer": pa.string(), "failed": pa.string(), "served_model": pa.string()}
    kind = pa.struct(list(arrow_schema(Verdict)))
    schema = pa.schema({**fixed, **dict.fromkeys(verdicts, kind)})
    rows = [
        {
            "problem": one.problem.name,
            "level": one.problem.level,
            "sample": one.number,
            "reference": one.problem.reference,
            "answer": one.text,
            "failed": one.failed,
            "served_model": one.served_model,
            **{name: plain(some[at]) for name, some in verdicts.items()},
        }
        for at, one in enumerate(samples)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")
