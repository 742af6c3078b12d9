"""Faults of threads that work together: barriers, shared memory, shuffles, combining."""

from __future__ import annotations

import re

from musadata.teacher.compiler.faults.catalogue import fault, in_kernel
from musadata.teacher.compiler.faults.fault_context import Condition, FaultContext, KernelSite, first


@fault(
    "missing_barrier",
    cause="threads read shared memory that others had not written yet, because no barrier stood between",
    mend="a __syncthreads() separates writing shared memory from reading what other threads wrote",
)
def missing_barrier(context: FaultContext) -> str | None:
    # The last helper: a maximum comes before a sum, and a softmax that subtracts a smaller one is right all the same.
    helper = r"(?s)(.*    partial\[threadIdx\.x\] = value;\n)    __syncthreads\(\);\n"
    if re.search(helper, context.source) and any(max(site.inner) > 1 for site in context.sites()):
        return re.sub(helper, r"\1", context.source, count=1)
    shuffle = r"(    if \(lane == 0\) partial\[warp\] = value;\n)    __syncthreads\(\);\n"
    if re.search(shuffle, context.source) and any(site.threads > 32 for site in context.sites()):
        return re.sub(shuffle, r"\1", context.source, count=1)
    tiles = r"        __syncthreads\(\);\n(        #pragma unroll)"
    return context.in_some_kernel(lambda text: re.sub(tiles, r"\1", text, count=1))


@fault(
    "shared_array_too_small",
    cause="the shared array had fewer elements than the block has threads, so some wrote past its end",
    mend="the shared array has an element for every thread that writes to it",
)
def shared_array_too_small(context: FaultContext) -> str | None:
    partial, tile = r"(__shared__ \w+ partial)\[(64|128|256)\]", r"(__shared__ \w+ \w+_tile\[\d+\])\[(8|16)\]"

    def change(text: str) -> str | None:
        return first(context.replace_one(text, pattern, _smaller) for pattern in (partial, tile))

    return context.in_some_kernel(change)


def _smaller(match: re.Match[str]) -> str:
    return f"{match[1]}[{int(match[2]) // 2}]"


fault(
    "partial_result_stored",
    cause="the threads' partial results were never combined, so each thread went on with its own",
    mend="the partial results are combined before the result is used",
)(in_kernel(r"\n    (\w+) = (?:block|warp)_\w+\(\1(?:, \w+)?\);", "", lambda site: max(site.inner) > 1))


@fault(
    "wrong_shuffle_range",
    cause="the shuffles started at an offset of 8, so only half of a warp's lanes were combined",
    mend="the offsets start at half the warp size",
)
def wrong_shuffle_range(context: FaultContext) -> str | None:
    def is_long(site: KernelSite) -> bool:
        return max(site.inner) > 16 and ("warp_" in site.function or "block_" in site.function)

    return _replace_in_helper(context, "int offset = 16;", "int offset = 8;", is_long)


@fault(
    "wrong_tree_start",
    cause="the tree reduction started at a quarter of the block, so half of the partial results were left out",
    mend="the first stride of the tree is half the block",
)
def wrong_tree_start(context: FaultContext) -> str | None:
    def is_wide(site: KernelSite) -> bool:
        return max(site.inner) > site.threads // 2 and "block_" in site.function

    start = "int stride = blockDim.x / {}; stride > 0"
    return _replace_in_helper(context, start.format(2), start.format(4), is_wide)


def _replace_in_helper(context: FaultContext, old: str, new: str, where: Condition) -> str | None:
    """The candidate with a device function changed, if some kernel for which it matters meets the condition."""
    matters = any(where(site) for site in context.sites()) and old in context.source
    return context.source.replace(old, new, 1) if matters else None


@fault(
    "wrong_tile_index",
    cause="the two tiles were multiplied row by row instead of row by column",
    mend="the product runs along a row of the left tile and a column of the right tile",
)
def wrong_tile_index(context: FaultContext) -> str | None:
    return context.in_some_kernel(
        lambda text: text.replace("right_tile[k][threadIdx.x]", "right_tile[threadIdx.x][k]", 1)
    )


@fault(
    "race_without_atomics",
    cause="all threads of the block updated the same element of shared memory, and each overwrote the others' sums",
    mend="every thread has an element of its own, and they are combined in a tree",
)
def race_without_atomics(context: FaultContext) -> str | None:
    start = "    partial[threadIdx.x] = value;\n    __syncthreads();\n    for (int stride"
    end = "    const float result = partial[0];"
    first = context.source.find(start)
    last = context.source.find(end, first)
    tree = context.source[first:last] if 0 <= first < last else ""
    if "+= partial" not in tree or max(max(site.inner) for site in context.sites()) < 2:
        return None
    return context.source[:first] + _RACE + context.source[last:]


_RACE = """    if (threadIdx.x == 0) partial[0] = 0.0f;
    __syncthreads();
    const float before = partial[0];
    __syncthreads();
    partial[0] = before + value;
    __syncthreads();
"""
