"""From an accepted candidate to a question about its counters and the answer, the diagnosis."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from musadata.config import ProfilingConfig
from musadata.records import SCHEMA_VERSION, Candidate, Reject, Task
from musadata.rows import plain
from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.countable import choose_launch
from musadata.sampling.profiling.diagnosis import write_diagnosis
from musadata.sampling.profiling.kernel_code import KernelCode, read_kernels
from musadata.sampling.profiling.metrics import DEVICE, Counters, render_table
from musadata.teacher.prompts import render_profile
from musadata.training_rows import ChatMessage
from musadata.verifier.protocol.access_counts import CountedCall

FAMILY = "profiling"
STEP = "profile"
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
    """The profile of one of a task's accepted candidates, one that was kept if there is one; a reject with the reason
    where no launch has exact counts."""
    accepted = [one for one in candidates if one.accepted and not one.fault]
    programs = [one for one in accepted if one.kept] or accepted
    if not programs:
        return reject(task, "no accepted candidate", "")
    candidate = _random(task.task_id, "candidate").choice(programs)
    kernels = read_kernels(candidate.source)
    windows = {name: code.window for name, code in kernels.items() if code.window}
    call = count(task, candidate.source, windows, config.accesses)
    if call.why:
        return reject(task, "cannot be counted", call.why)
    chosen = choose_launch(call.launches, kernels)
    if isinstance(chosen, str):
        return reject(task, "no exact counts", chosen)
    return make_profile(task, candidate, *chosen)


def make_profile(task: Task, candidate: Candidate, counters: Counters, code: KernelCode) -> Profile | Reject:
    """Question and answer about one launch; a reject if a figure of the answer is not borne out."""
    kind, text = write_diagnosis(counters, code)
    if not kind:
        return reject(task, "nothing stands out", f"{counters.blocks} blocks")
    wrong = check_diagnosis(text, counters)
    if wrong:
        return reject(task, "contradicts the counters", wrong[0])
    whole = "\n\n".join([*code.called, code.text])
    grid, block = (", ".join(map(str, triple)) for triple in (counters.grid, counters.block))
    launch = f"{counters.kernel}<<<({grid}), ({block})>>>"
    table = render_table(counters)
    prompt = render_profile(whole, launch, task.inputs, DEVICE, table)
    evidence = json.dumps({"kind": kind, "counters": plain(counters)}, ensure_ascii=False)
    return Profile(candidate, kind, prompt, text, evidence)


def reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject(SCHEMA_VERSION, "sft", STEP, reason, detail[:500], task.task_id)


def _random(*parts: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(":".join(("profile", *parts)).encode()).digest()[:8]))
