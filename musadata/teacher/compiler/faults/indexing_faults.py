"""Faults of bounds, strides, axes and launch geometry."""

from __future__ import annotations

import re

from musadata.teacher.compiler.faults.catalogue import fault
from musadata.teacher.compiler.faults.fault_context import FaultContext


@fault(
    "missing_bounds_check",
    cause="the grid is rounded up to whole blocks, and nothing stopped the last block's threads past the end",
    mend="threads past the last element return before they touch memory",
)
def missing_bounds_check(context: FaultContext) -> str | None:
    for site in context.sites():
        per_block = site.threads // 32 if "lane" in site.function else site.threads
        if site.ragged(per_block) and _is_used(site.function):
            changed = context.in_kernel(site, lambda text: re.sub(r"\n    if \(\w+ >= total\) return;[^\n]*", "", text))
            if changed:
                return changed
    return None


def _is_used(function: str) -> bool:
    """Whether the guarded index reaches memory: with a single output, threads past it all write the same element."""
    guard = re.search(r"if \((\w+) >= total\) return;", function)
    return guard is not None and len(re.findall(rf"\b{guard.group(1)}\b", function)) > 2


@fault(
    "wrong_launch_geometry",
    cause="the number of blocks was rounded down, so the elements after the last whole block were never computed",
    mend="the number of blocks is rounded up",
)
def wrong_launch_geometry(context: FaultContext) -> str | None:
    for site in context.sites():
        strides = "gridDim.x" in site.function  # a grid-stride loop reaches every element from any number of blocks
        if site.ragged(site.threads) and "lane" not in site.function and not strides:
            changed = context.in_launch(site, "(total + threads - 1) / threads", "total / threads")
            if changed:
                return changed
    return None


@fault(
    "too_many_threads",
    cause="a block was launched with more threads than the 1024 that a device allows, so the launch was refused",
    mend="the block has a size that every device allows",
)
def too_many_threads(context: FaultContext) -> str | None:
    for site in context.sites():
        changed = context.in_launch(site, f"const int threads = {site.threads};", "const int threads = 2048;")
        if changed:
            return changed
    return None


@fault(
    "off_by_one",
    cause="the inner loop did not run over exactly its extent",
    mend="the loop runs from 0 to the extent, which it excludes",
)
def off_by_one(context: FaultContext) -> str | None:
    pattern = r"(for \(int (\w+) = (?:0|lane|threadIdx\.x); \2 < )([\w* ]+)(; )"
    return context.replace_in_some_kernel(
        pattern, r"\1\3 - 1\4", lambda site: bool(site.emitted.kernel.reductions) and "_tile[" not in site.function
    )


@fault(
    "wrong_stride",
    cause="the index was built with the extent of another dimension as its stride",
    mend="each position is multiplied by the extent of the dimension that follows it",
)
def wrong_stride(context: FaultContext) -> str | None:
    for site in context.sites():
        used = sorted(set(re.findall(r"(?:< |% |/ |\* )(\w+)", site.function)))

        def change(text: str, used: list[str] = used) -> str | None:
            strides = [m for m in re.finditer(r"\* (\w+) \+ \w+\]", text) if context.values_of(m.group(1))]
            pairs = [
                (m, other) for m in strides for other in used if context.differ(m.group(1), other) and other != "0"
            ]
            chosen = context.pick(pairs)
            if chosen is None:
                return None
            match, other = chosen
            return text[: match.start(1)] + other + text[match.end(1) :]

        changed = context.in_kernel(site, change)
        if changed:
            return changed
    return None


@fault(
    "wrong_axis",
    cause="two dimensions were taken out of the flat index in the wrong order",
    mend="the innermost dimension is the remainder, the outer ones are the quotients",
)
def wrong_axis(context: FaultContext) -> str | None:
    pattern = re.compile(r"const int (\w+) = (\w+(?: / \w+)?(?: % \w+)?);\n(\s+)const int (\w+) = (\w+ % \w+);")

    def change(text: str) -> str | None:
        matches = [m for m in pattern.finditer(text) if _differ_in_extent(context, m.group(2), m.group(5))]
        match = context.pick(matches)
        if match is None:
            return None
        one, first, space, two, second = match.groups()
        swapped = f"const int {two} = {first};\n{space}const int {one} = {second};"
        return text[: match.start()] + swapped + text[match.end() :]

    return context.in_some_kernel(change)


def _differ_in_extent(context: FaultContext, outer: str, inner: str) -> bool:
    """Whether swapping two decoded dimensions reaches other elements: their extents differ."""
    inner_extent = inner.split("%")[-1].strip()
    outer_extent = outer.split("%")[-1].strip() if "%" in outer else ""
    return not outer_extent or context.differ(outer_extent, inner_extent)


@fault(
    "transposed_read",
    cause="rows and columns were exchanged in the index of a read",
    mend="the row is multiplied by the number of columns, and the column is added",
)
def transposed_read(context: FaultContext) -> str | None:
    for site in context.sites():
        outputs = {buffer.name for buffer in site.emitted.kernel.outputs}

        def change(text: str, outputs: set[str] = outputs) -> str | None:
            found = re.finditer(r"\b(\w+)\[(row|col|n|b) \* (\w+) \+ (\w+)\]", text)
            match = context.pick(
                [m for m in found if m.group(1) not in outputs and (context.values_of(m.group(3)) or (1,))[0] > 1]
            )
            if match is None:
                return None
            name, first, stride, second = match.groups()
            return f"{text[: match.start()]}{name}[{second} * {stride} + {first}]{text[match.end() :]}"

        if min(site.points) > 1:
            changed = context.in_kernel(site, change)
            if changed:
                return changed
    return None


@fault(
    "missing_padding_check",
    cause="positions in the padding before the first element were read as if they were inside of the input",
    mend="a position counts only if it is at least 0 and below the extent",
)
def missing_padding_check(context: FaultContext) -> str | None:
    return context.replace_in_some_kernel(r"(?<=[( ])\w+ >= 0 && ", "")


@fault(
    "wrong_output_shape",
    cause="the output was allocated with two of its dimensions exchanged",
    mend="the output is allocated with the reference's shape",
)
def wrong_output_shape(context: FaultContext) -> str | None:
    found = re.finditer(r"torch::empty\(\{(\w+), (\w+)([^}]*)\}", context.source)
    match = context.pick([m for m in found if context.differ(m.group(1), m.group(2))])
    if match is None or "return" not in context.source:
        return None
    name = re.search(r"auto (\w+) = $", context.source[: match.start()])
    if name is None or not re.search(rf"return {name.group(1)};", context.source):
        return None
    swapped = f"torch::empty({{{match.group(2)}, {match.group(1)}{match.group(3)}}}"
    return context.source[: match.start()] + swapped + context.source[match.end() :]


@fault(
    "misaligned_vector_access",
    cause="float4 loads need addresses that are multiples of 16 bytes, and one of them started one element too late",
    mend="every float4 access starts at a multiple of four elements",
)
def misaligned_vector_access(context: FaultContext) -> str | None:
    return context.replace_in_some_kernel(r"(reinterpret_cast<const float4\*>\(\w+ \+ first)(\))", r"\1 + 1\2")


@fault(
    "missing_vector_tail",
    cause="the number of elements is not always a multiple of four, and the last float4 reached past the end",
    mend="only whole groups of four are moved as float4, the rest element by element",
)
def missing_vector_tail(context: FaultContext) -> str | None:
    return context.in_some_kernel(
        lambda text: text.replace("if (first + 3 < total)", "if (first < total)"),
        lambda site: any(points % 4 for points in site.points),
    )
