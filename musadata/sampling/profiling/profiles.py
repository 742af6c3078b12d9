"""From an accepted candidate to a question about its counters and the answer, the diagnosis."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from musadata.config import ProfilingConfig
from musadata.records import SCHEMA_VERSION, Candidate, Reject, Task
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
_MOST_PROGRAMS = 4
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
    """The profile of the kernel that costs most among the accepted candidates of a task, and with its diagnosis the
    same kernel of another one that costs far less, where there is one; a reject with the reason where no launch has
    exact counts or nothing is to be mended."""
    programs = [one for one in candidates if one.accepted and not one.fault][:_MOST_PROGRAMS]
    if not programs:
        return reject(task, "no accepted candidate", "")
    counted, reasons = [], list[Reject]()
    for candidate in programs:
        kernels = read_kernels(candidate.source)
        windows = {name: code.window for name, code in kernels.items() if code.window}
        call = count(task, candidate.source, windows, config.accesses)
        chosen = call.why or choose_launch(call.launches, kernels)
        if isinstance(chosen, str):
            reasons.append(reject(task, "cannot be counted" if call.why else "no exact counts", chosen))
        else:
            counted.append((candidate, *chosen))
    if not counted:
        return reasons[0]
    candidate, counters, code = max(counted, key=lambda one: total_cost(one[1]))
    others = [one[1:] for one in counted if (one[2].name, set(one[2].pointers)) == (code.name, set(code.pointers))]
    best, better = min(others, key=lambda one: total_cost(one[0]))
    mended = (best, better) if total_cost(best) * MENDED <= total_cost(counters) else None
    return make_profile(task, candidate, counters, code, mended)


def make_profile(
    task: Task, candidate: Candidate, counters: Counters, code: KernelCode, mended: tuple[Counters, KernelCode] | None
) -> Profile | Reject:
    """Question and answer about one launch; a reject if a figure of the answer is not borne out."""
    kind, text = write_diagnosis(counters, code)
    if not kind:
        return reject(task, "nothing stands out", f"{counters.blocks} blocks")
    wrong = check_diagnosis(text, counters)
    if wrong:
        return reject(task, "contradicts the counters", wrong[0])
    if mended:
        best, better = mended
        values = {"now": best.get(names.SECTORS), "before": counters.get(names.SECTORS), "launch": _launch(best)}
        values |= {"waves": sum(best.get(names.wavefronts_name(one)) for one in ("load", "store"))}
        text = f"{text}\n\n{fill(wordings()['mended']['change'], values)}\n\n```cuda\n{_whole(better)}\n```"
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
    return Reject(SCHEMA_VERSION, "sft", STEP, reason, detail[:500], task.task_id)


def _random(*parts: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(":".join(("profile", *parts)).encode()).digest()[:8]))
