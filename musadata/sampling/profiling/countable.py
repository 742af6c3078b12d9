"""Whether the counts of a launch are exact, and which launch of a program a profile is about."""

from collections.abc import Mapping, Sequence

from musadata.sampling.profiling.kernel_code import KernelCode
from musadata.sampling.profiling.metrics import Counters, read_launch
from musadata.sampling.profiling.problems import total_cost
from musadata.verifier.protocol.access_counts import LaunchCounts


def why_not(launch: LaunchCounts, code: KernelCode | None) -> str:
    """Why a launch's counts are not exact; "" if they are.

    Threads run one after another on the emulator. What a warp executes together is put together by counting turns,
    which is right only where all lanes take the same turns of their loops, or leave a loop for good.
    """
    if code is None:
        return "the kernel's code is not found"
    if code.unseen:
        return f"it uses {code.unseen}"
    if launch.incomplete:
        return "too many accesses"
    if launch.module_accesses and not code.constants:
        return "it accesses variables of the module"
    if launch.repeated and code.skips:
        return "lanes may skip turns of a loop"
    if launch.uneven and code.nested:
        return "lanes may take different turns of nested loops"
    if any(one.argument >= len(code.pointers) for one in launch.global_memory):
        return "its pointers are not found"
    return ""


def choose_launch(
    launches: Sequence[LaunchCounts], kernels: Mapping[str, KernelCode]
) -> tuple[Counters, KernelCode] | str:
    """The launch that costs most of those with exact counts; why there is none otherwise."""
    found: list[tuple[Counters, KernelCode]] = []
    reasons: list[str] = []
    for launch in launches:
        code = kernels.get(launch.kernel.partition("<")[0].strip())
        reason = why_not(launch, code)
        if reason or code is None:
            reasons.append(reason)
        else:
            found.append((read_launch(launch, code.pointers), code))
    found = [one for one in found if total_cost(one[0])]
    if not found:
        return reasons[0] if reasons else "no kernel accesses memory"
    return max(found, key=lambda one: total_cost(one[0]))
