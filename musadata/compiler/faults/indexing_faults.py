"""Faults of bounds, strides, axes and launch geometry."""

import re

from musadata.compiler.faults.catalogue import fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite, first

_TOO_MANY = (1056, 1280, 1536, 2048)  # threads of a block


@fault
def missing_bounds_check(context: FaultContext) -> str | None:
    def matters(site: KernelSite) -> bool:
        per_block = site.threads // 32 if "lane" in site.function else site.threads
        return site.ragged(per_block) and _is_used(site.function)

    return context.in_some_kernel(lambda text: re.sub(r"\n    if \(\w+ >= total\) return;[^\n]*", "", text), matters)


def _is_used(function: str) -> bool:
    """Whether the guarded index reaches memory: with a single output, threads past it all write the same element."""
    guard = re.search(r"if \((\w+) >= total\) return;", function)
    return guard is not None and len(re.findall(rf"\b{guard.group(1)}\b", function)) > 2


@fault
def wrong_launch_geometry(context: FaultContext) -> str | None:
    def matters(site: KernelSite) -> bool:
        strides = "gridDim.x" in site.function  # a grid-stride loop reaches every element from any number of blocks
        return site.ragged(site.threads) and "lane" not in site.function and not strides

    old, new = "(total + threads - 1) / threads", "total / threads"
    return first(context.in_launch(site, old, new) for site in context.sites() if matters(site))


@fault
def too_many_threads(context: FaultContext) -> str | None:
    declaration = "const int threads = {};"
    return first(
        context.in_launch(site, declaration.format(site.threads), declaration.format(context.random.choice(_TOO_MANY)))
        for site in context.sites()
    )


@fault
def wrong_stride(context: FaultContext) -> str | None:
    def change(text: str) -> str | None:
        used = sorted(set(re.findall(r"(?:< |% |/ |\* )(\w+)", text)) - {"0"})
        strides = [m for m in re.finditer(r"\* (\w+) \+ \w+\]", text) if context.values_of(m[1])]
        chosen = context.pick([(m, other) for m in strides for other in used if context.differ(m[1], other)])
        if chosen is None:
            return None
        match, other = chosen
        return text[: match.start(1)] + other + text[match.end(1) :]

    return context.in_some_kernel(change)


@fault
def wrong_axis(context: FaultContext) -> str | None:
    def matters(match: re.Match[str]) -> bool:
        return _differ_in_extent(context, match[2], match[5])

    decoded = r"const int (\w+) = (\w+(?: / \w+)?(?: % \w+)?);\n(\s+)const int (\w+) = (\w+ % \w+);"
    swapped = r"const int \4 = \2;\n\3const int \1 = \5;"
    return context.replace_in_kernel(decoded, swapped, accepts=matters)


def _differ_in_extent(context: FaultContext, outer: str, inner: str) -> bool:
    """Whether swapping two decoded dimensions reaches other elements: their extents differ."""
    inner_extent = inner.split("%")[-1].strip()
    outer_extent = outer.split("%")[-1].strip() if "%" in outer else ""
    return not outer_extent or context.differ(outer_extent, inner_extent)


@fault
def transposed_read(context: FaultContext) -> str | None:
    def transposed(site: KernelSite) -> str | None:
        outputs = {buffer.name for buffer in site.emitted.kernel.outputs}

        def matters(match: re.Match[str]) -> bool:
            return match[1] not in outputs and (context.values_of(match[3]) or (1,))[0] > 1

        read, swapped = r"\b(\w+)\[(row|col|n|b) \* (\w+) \+ (\w+)\]", r"\1[\4 * \3 + \2]"
        return context.in_kernel(site, lambda text: context.replace_one(text, read, swapped, matters))

    return first(transposed(site) for site in context.sites() if min(site.points) > 1)


@fault
def wrong_output_shape(context: FaultContext) -> str | None:
    def is_returned(match: re.Match[str]) -> bool:
        name = re.search(r"auto (\w+) = $", context.source[: match.start()])
        return name is not None and f"return {name[1]};" in context.source

    found = re.finditer(r"torch::empty\(\{(\w+), (\w+)([^}]*)\}", context.source)
    match = context.pick([m for m in found if context.differ(m[1], m[2])])
    if match is None or not is_returned(match):
        return None
    swapped = f"torch::empty({{{match[2]}, {match[1]}{match[3]}}}"
    return context.source[: match.start()] + swapped + context.source[match.end() :]
