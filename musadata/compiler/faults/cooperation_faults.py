"""Faults of threads that work together: barriers, shared memory, shuffles, combining."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite
from musadata.compiler.ir.code import Assign, Barrier, Function, Loop, Name, replace_at, walk

_WRITTEN = "    partial[threadIdx.x] = value;\n"
_WRITTEN_BY_LANES = "    if (lane == 0) partial[warp] = value;\n"
_BARRIER = "    __syncthreads();\n"


@fault
def missing_barrier(context: FaultContext) -> Candidate | None:
    # The last helper: a maximum comes before a sum, and a softmax that subtracts a smaller one is right all the same.
    found = context.replace_in_helper(_WRITTEN + _BARRIER, _WRITTEN, last=True)
    if found and any(max(site.inner) > 1 for site in context.sites()):
        return found
    found = context.replace_in_helper(_WRITTEN_BY_LANES + _BARRIER, _WRITTEN_BY_LANES)
    if found and any(site.threads > 32 for site in context.sites()):
        return found
    return context.in_some_kernel(_without_barrier)


def _without_barrier(site: KernelSite) -> Function | None:
    """The first barrier gone that is followed by the products of a tile, or by the change to the next one."""
    for place, loop in enumerate(walk(site.function.body)):
        for number, (one, following) in enumerate(pairwise(loop.body) if isinstance(loop, Loop) else ()):
            turns = isinstance(following, Assign) and following.target == Name("current")
            if isinstance(one, Barrier) and (turns or (isinstance(following, Loop) and following.unroll)):
                less = replace(loop, body=loop.body[:number] + loop.body[number + 1 :])
                return replace(site.function, body=replace_at(site.function.body, place, partial(_instead, new=less)))
    return None


def _instead(_: object, new: Loop) -> Loop:
    return new
