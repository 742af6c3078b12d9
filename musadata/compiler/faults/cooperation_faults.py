"""Faults of threads that work together: barriers, shared memory, shuffles, combining."""

import re

from musadata.compiler.faults.catalogue import WORDS, fault
from musadata.compiler.faults.fault_context import FaultContext, first


@fault
def missing_barrier(context: FaultContext) -> str | None:
    # The last helper: a maximum comes before a sum, and a softmax that subtracts a smaller one is right all the same.
    helper = r"(?s)(.*    partial\[threadIdx\.x\] = value;\n)    __syncthreads\(\);\n"
    if re.search(helper, context.source) and any(max(site.inner) > 1 for site in context.sites()):
        return re.sub(helper, r"\1", context.source, count=1)
    shuffle = r"(    if \(lane == 0\) partial\[warp\] = value;\n)    __syncthreads\(\);\n"
    if re.search(shuffle, context.source) and any(site.threads > 32 for site in context.sites()):
        return re.sub(shuffle, r"\1", context.source, count=1)
    tiles = r"        __syncthreads\(\);[^\n]*\n(        (?:#pragma unroll|current \^= 1;))"
    return context.in_some_kernel(lambda text: re.sub(tiles, r"\1", text, count=1))


@fault
def shared_array_too_small(context: FaultContext) -> str | None:
    partial = r"(__shared__ \w+ partial)\[(64|128|256)\]"
    tile = r"(__shared__ (?:__align__\(16\) )?\w+ \w+_tile(?:\[\d+\])+)\[(\d+)\]"

    def change(text: str) -> str | None:
        return first(context.replace_one(text, pattern, _smaller) for pattern in (partial, tile))

    return context.in_some_kernel(change)


def _smaller(match: re.Match[str]) -> str:
    return f"{match[1]}[{int(match[2]) // 2}]"


@fault
def race_without_atomics(context: FaultContext) -> str | None:
    start = "    partial[threadIdx.x] = value;\n    __syncthreads();\n    for (int stride"
    end = "    const float result = partial[0];"
    first = context.source.find(start)
    last = context.source.find(end, first)
    tree = context.source[first:last] if 0 <= first < last else ""
    if "+= partial" not in tree or max(max(site.inner) for site in context.sites()) < 2:
        return None
    return context.source[:first] + WORDS["race_without_atomics"]["tree"] + context.source[last:]
