"""Faults of bounds, strides, axes, views and launch geometry."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import fault
from musadata.compiler.faults.fault_context import FaultContext, KernelSite, first
from musadata.compiler.ir.code import (
    Assign,
    Binary,
    Body,
    Declare,
    Element,
    Expression,
    Function,
    Guard,
    Jump,
    Loop,
    Method,
    Name,
    Number,
    code,
    of_kind,
    rebuild,
    replace_at,
    walk,
)


@fault
def missing_bounds_check(context: FaultContext) -> Candidate | None:
    def matters(site: KernelSite) -> bool:
        per_block = site.threads // 32 if "lane" in site.names else site.threads
        return site.ragged(per_block) and _is_used(site)

    return context.replace_node(lambda node: () if _guarded(node) else None, matters)


def _guarded(node: Any) -> str:
    """The index that a thread leaves with if it is past the end; "" for other statements."""
    match node:
        case Guard(Binary(Name(name), ">=", Name("total")), (Jump("return"),)):
            return name
    return ""


def _is_used(site: KernelSite) -> bool:
    """Whether the guarded index reaches memory: with a single output, threads past it all write the same element."""
    guarded = next(filter(None, map(_guarded, walk(site.function))), "")
    declared = any(one.name == guarded for one in of_kind(site.function, Declare))
    return bool(guarded) and of_kind(site.function, Name).count(Name(guarded)) > 1 + declared


@fault
def wrong_launch_geometry(context: FaultContext) -> Candidate | None:
    def matters(site: KernelSite) -> bool:
        strides = site.emitted.schedule.strides  # a grid-stride loop reaches every element from any number of blocks
        return site.ragged(site.threads) and "lane" not in site.names and not strides

    def rounded_down(node: Any) -> Expression | None:
        match node:
            case Binary(Binary(Binary(Name("total") as total, "+", Name("threads")), "-", _), "/", Name("threads")):
                return total / "threads"
        return None

    sites = (site for site in context.sites() if matters(site))
    return first(context.with_launch(site, rebuild(site.emitted.host, rounded_down)) for site in sites)


def _row_place(node: Any) -> tuple[Expression, Expression, Expression] | None:
    """Outer position, stride and inner position of `outer * stride + inner`, which a place ends with."""
    match node:
        case Binary(Binary(outer, "*", Name() | Number() as stride), "+", Name() | Number() as inner):
            return outer, stride, inner
    return None


@fault
def wrong_stride(context: FaultContext) -> Candidate | None:
    def edit(site: KernelSite) -> Function | None:
        body = site.function.body
        sizes = [one.right for one in of_kind(body, Binary) if one.sign in ("<", "%", "/", "*")]
        used = sorted({str(one) for one in sizes if isinstance(one, (Name, Number))} - {"0"})
        places = [(n, _row_place(node.place)) for n, node in enumerate(walk(body)) if isinstance(node, Element)]
        strides = [(n, found[1]) for n, found in places if found and context.values_of(str(found[1]))]
        chosen = context.pick([(n, one) for n, stride in strides for one in used if context.differ(str(stride), one)])
        if chosen is None:
            return None
        number, other = chosen

        def restrided(node: Element) -> Element:
            found = _row_place(node.place)
            assert found is not None
            return node.array[found[0] * code(int(other) if other.isdigit() else other) + found[2]]

        return replace(site.function, body=replace_at(body, number, restrided))

    return context.in_some_kernel(edit)


@fault
def wrong_axis(context: FaultContext) -> Candidate | None:
    def edit(site: KernelSite) -> Function | None:
        adjacent = (pair for body in _bodies(site.function) for pair in pairwise(body))
        pairs = [
            (one, other)
            for one, other in adjacent
            if isinstance(one, Declare) and isinstance(other, Declare) and _are_swappable(context, one, other)
        ]
        pair = context.pick(pairs)
        if pair is None:
            return None
        (outer, one), (inner, other) = (declare.variables[0] for declare in pair)
        swapped = {pair[0]: ((inner, one),), pair[1]: ((outer, other),)}
        return rebuild(
            site.function,
            lambda node: replace(node, variables=swapped[node]) if isinstance(node, Declare) and node in pair else None,
        )

    return context.in_some_kernel(edit)


def _bodies(function: Function) -> Iterator[Body]:
    yield function.body
    for node in walk(function):
        yield from (node.body, node.otherwise) if isinstance(node, Guard) else ()
        yield from (node.body,) if isinstance(node, Loop) else ()


def _are_swappable(context: FaultContext, outer: Declare, inner: Declare) -> bool:
    """Whether two statements decode dimensions from a flat index, and swapping these reaches other elements: their
    extents differ."""
    match inner.value:
        case Binary(Name(), "%", Name() | Number() as extent):
            pass
        case _:
            return False
    match outer.value:
        case Binary(Name() | Binary(Name(), "/", Name() | Number()), "%", Name() | Number() as own):
            return context.differ(str(own), str(extent))
        case Name() | Binary(Name(), "/", Name() | Number()):
            return outer.kind == inner.kind and outer.kind in ("int", "int64_t")
    return False


@fault
def transposed_read(context: FaultContext) -> Candidate | None:
    def transposed(site: KernelSite) -> Function | None:
        outputs = {buffer.name for buffer in site.emitted.kernel.outputs}

        def change(node: Any) -> Element | None:
            found = _row_place(node.place) if isinstance(node, Element) and isinstance(node.array, Name) else None
            if found is None or node.array.name in outputs or str(found[0]) not in ("row", "col", "n", "b"):
                return None
            outer, stride, inner = found
            return node.array[inner * stride + outer] if (context.values_of(str(stride)) or (1,))[0] > 1 else None

        return context.changed(site, change)

    return context.in_some_kernel(transposed, lambda site: min(site.points) > 1)


@fault
def missing_contiguous(context: FaultContext) -> Candidate | None:
    tensors = [Name(item["name"]) for item in context.candidate.graph.arguments if item["rank"] > 1]
    made = [Assign(one, "=", Method(one, "contiguous")) for one in tensors]
    *others, host = context.candidate.parts
    assert isinstance(host, Function)
    statement = context.pick([one for one in made if one in host.body])
    left = tuple(one for one in host.body if one != statement)
    return None if statement is None else context.with_parts((*others, replace(host, body=left)))
