"""From an accepted candidate to a question about its counters and the answer, the diagnosis."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from musadata.config import ProfilingConfig
from musadata.records import Candidate, Reject, Task
from musadata.rows import plain
from musadata.sampling.profiling import metrics as names
from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.countable import choose_launch
from musadata.sampling.profiling.diagnosis import fill, wordings, write_diagnosis
from musadata.sampling.profiling.kernel_code import KernelCode, read_kernels
from musadata.sampling.profiling.metrics import DEVICE, Counters, render_table
from musadata.sampling.profiling.problems import total_cost
from musadata.teacher.prompts import render_profile
from musadata.training_rows import ChatMessage
from musadata.verifier.protocol.access_counts import CountedCall

FAMILY = "profiling"
STEP = "profile"
MENDED = 1.5  # times the cost of a kernel that shows how it is done
# A task, a candidate's source, windows of its kernels (see `Verifier.count_accesses`), and the most accesses.
CountAccesses = Callable[[Task, str, Mapping[str, int], int], CountedCall]


@dataclass(frozen=True)
class Profile:
    """A question about one launch of a candidate, and its answer. `kind`: of the problem that limits it; `evidence`:
    the counters as JSON."""

    candidate: Candidate
    kind: str
    prompt: tuple[ChatMessage, ...]
    text: str
    evidence: str


def is_profiled(task: Task, config: ProfilingConfig) -> bool:
    """Whether a task is in the share that is profiled."""
    return _random(task.task_id, "share").random() < config.share


def profile_task(
    task: Task, candidates: Sequence[Candidate], count: CountAccesses, config: ProfilingConfig
) -> Profile | Reject:
    """The profile of the accepted candidate of a task that should be the slowest, its diagnosis, and the same kernel of
    the one that should be the fastest with its counters; a reject with the reason where no launch has exact counts,
    nothing is to be mended, or the other kernel does not cost far less. So each remedy was tried.

    Which is which is known from measured times; without them a teacher's first answer is its best.
    """
    programs = [one for one in candidates if one.accepted and not one.fault]
    timed = sorted((one for one in programs if one.speedup), key=lambda one: one.speedup or 0.0)
    ranked = timed or programs[::-1]
    if len(ranked) < 2:
        return reject(task, "no other program", "")
    counted = _count(task, ranked[0], count, config)
    if isinstance(counted, Reject):
        return counted
    counters, code = counted
    found = make_profile(task, ranked[0], counters, code)
    if isinstance(found, Reject):
        return found
    other = _count(task, ranked[-1], count, config)
    if isinstance(other, Reject):
        return other
    best, better = other
    alike = (better.name, set(better.pointers)) == (code.name, set(code.pointers))
    if not alike or total_cost(best) * MENDED > total_cost(counters):
        return reject(task, "no better program", found.kind)
    values = {"now": best.get(names.SECTORS), "before": counters.get(names.SECTORS), "launch": _launch(best)}
    values |= {"waves": sum(best.get(names.wavefronts_name(one)) for one in ("load", "store"))}
    text = f"{found.text}\n\n{fill(wordings()['mended']['change'], values)}\n\n```cuda\n{_whole(better)}\n```"
    return dataclasses.replace(found, text=text)


def _count(
    task: Task, candidate: Candidate, count: CountAccesses, config: ProfilingConfig
) -> tuple[Counters, KernelCode] | Reject:
    kernels = read_kernels(candidate.source)
    windows = {name: code.window for name, code in kernels.items() if code.window}
    call = count(task, candidate.source, windows, config.accesses)
    if call.why:
        return reject(task, "cannot be counted", call.why)
    chosen = choose_launch(call.launches, kernels)
    return reject(task, "no exact counts", chosen) if isinstance(chosen, str) else chosen


def make_profile(task: Task, candidate: Candidate, counters: Counters, code: KernelCode) -> Profile | Reject:
    """Question and answer about one launch; a reject if a figure of the answer is not borne out."""
    kind, text = write_diagnosis(counters, code)
    if not kind:
        return reject(task, "nothing stands out", f"{counters.blocks} blocks")
    wrong = check_diagnosis(text, counters)
    if wrong:
        return reject(task, "contradicts the counters", wrong[0])
    prompt = render_profile(_whole(code), _launch(counters), task.inputs, DEVICE, render_table(counters))
    evidence = json.dumps({"kind": kind, "counters": plain(counters)}, ensure_ascii=False)
    return Profile(candidate, kind, prompt, text, evidence)


def _whole(code: KernelCode) -> str:
    """A kernel with the device functions that it calls."""
    return "\n\n".join([*code.called, code.text])


def _launch(counters: Counters) -> str:
    grid, block = (", ".join(map(str, triple)) for triple in (counters.grid, counters.block))
    return f"{counters.kernel}<<<({grid}), ({block})>>>"


def reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject("sft", STEP, reason, detail[:500], task.task_id)


def _random(*parts: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(":".join(("profile", *parts)).encode()).digest()[:8]))
