"""What faults of bounds, strides, axes and launches do: found by following threads at the sizes that show it."""

from collections.abc import Iterator, Mapping
from typing import Any

from musadata.compiler.faults.derivation import (
    Access,
    Edit,
    Figures,
    count_of,
    derives,
    own_names,
    pairs,
    plural,
    unravel,
    with_values,
)
from musadata.compiler.faults.thread_walk import Visit, arguments_of
from musadata.compiler.ir.code import (
    Binary,
    Choice,
    Declare,
    Expression,
    Group,
    Guard,
    Loop,
    Name,
    Number,
    code,
    evaluate,
    names_of,
    of_kind,
    settle,
    walk,
)

Sizes = Mapping[str, int]


def _first_parting(edit: Edit, one: Expression, other: Expression, target: Any) -> tuple[Sizes, Visit, int, int] | None:
    """The sizes and the visit of the right program at which two expressions first have different values, and these."""
    for sizes in edit.sizes:
        for visit in edit.walked(0, target, sizes):
            values = evaluate(one, visit.known), evaluate(other, visit.known)
            if None not in values and values[0] != values[1]:
                return sizes, visit, *values  # type: ignore[return-value]
    return None


def _element(access: Access, edit: Edit, place: int, sizes: Sizes) -> str:
    """ "element 20, which is `x[0, 20]`"; what lies past the end says so."""
    shape = edit.shape(access.tensor, sizes)
    if at := unravel(place, shape):
        return f"element {place}, which is {access.tensor}{at}" if shape and len(shape) > 1 else f"element {place}"
    if shape is None:
        return f"element {place}"
    count = count_of(shape)
    return f"element {place}, outside of the {plural(count, 'element')} of {access.tensor}"


@derives("wrong_stride", "transposed_read")
def _other_element(edit: Edit) -> Figures:
    accesses = [
        (one, other) for one, other in zip(edit.accesses(0), edit.accesses(1), strict=False) if one.node != other.node
    ]
    if not accesses:
        return None
    one, other = accesses[0]
    found = _first_parting(edit, one.place, other.place, one.node)
    if found is None:
        return None
    sizes, visit, meant, got = found
    values = with_values(own_names(edit, one.place), visit.known)
    return {
        "at": edit.at(sizes),
        "who": visit.told,
        "values": values,
        "one": one,
        "other": other,
        "does": "writes" if one.writes else "reads",
        "got": _element(other, edit, got, sizes),
        "meant": _element(one, edit, meant, sizes),
        "strides": _strides(one, edit, sizes),
        "more": _first_past(one, other, edit, sizes, got) or _agreement(one.place, other.place),
    }


def _first_past(one: Access, other: Access, edit: Edit, sizes: Sizes, got: int) -> str:
    """Who comes past the end of the tensor, if somebody else than the first one does."""
    total = count_of(edit.shape(one.tensor, sizes) or (0,))
    for visit in edit.walked(0, one.node, sizes) if got < total else ():
        place = evaluate(other.place, visit.known)
        if place is not None and place >= total:
            values = with_values(own_names(edit, one.place), visit.known)
            return f" {visit.told.capitalize()}, with {values}, is past the end: element {place} of {total}."
    return ""


def _agreement(right: Expression, wrong: Expression) -> str:
    """Where two places are the same one all the same."""
    match right, wrong:
        case Binary(Binary(outer, "*", Name() | Number()), "+", inner), Binary(Binary(same, "*", _), "+", other):
            if (outer, inner) == (same, other) and isinstance(outer, Name):
                return f" Where `{outer}` is 0 the two agree, which hides the fault there."
            if (outer, inner) == (other, same):
                return f" The two agree only where {outer} and {inner} are equal."
    return ""


def _strides(access: Access, edit: Edit, sizes: Sizes) -> str:
    """Why the factor in a place is right, where it is the extent of the last dimension."""
    shape = edit.shape(access.tensor, sizes)
    match access.place:
        case Binary(Binary(outer, "*", stride), "+", _) if shape and len(shape) > 1:
            known = evaluate(stride, arguments_of(edit.emitted, sizes))
            if known == shape[-1]:
                return f": {access.tensor} has shape {shape}, so that {outer} steps over rows of {known} elements"
            if known is not None and known in (count_of(shape[n:]) for n in range(1, len(shape))):
                return f": {access.tensor} has shape {shape}, so that {outer} steps over {known} elements"
    return ""


@derives("wrong_axis")
def _swapped_dimensions(edit: Edit) -> Figures:
    changed = [pair for pair in pairs(*edit.parts, Declare) if pair[0] != pair[1]]
    if len(changed) != 2:
        return None
    (outer, _), (inner, _) = changed
    names = [outer.name, inner.name]
    steps = [one.name for one in of_kind(edit.parts[0], Loop)]
    found = (
        (access, sizes, one, other, meant, got)
        for sizes in edit.sizes
        for access, twin in zip(edit.accesses(0), edit.accesses(1), strict=True)
        for one, other in zip(edit.walked(0, access.node, sizes), edit.walked(1, twin.node, sizes), strict=False)
        if one.thread == other.thread and all(one.known.get(step) == other.known.get(step) for step in steps)
        if (meant := evaluate(access.place, one.known)) is not None
        and (got := evaluate(access.place, other.known)) is not None
        and meant != got
    )
    if (first := next(found, None)) is None:
        return None
    access, sizes, one, other, meant, got = first
    flat = with_values((name for name in own_names(edit, outer.value, inner.value) if name not in names), one.known)
    right, wrong = with_values(names, one.known), with_values(names, other.known)
    return {
        "at": edit.at(sizes),
        "who": one.told,
        "flat": flat,
        "values": right,
        "other": wrong,
        "access": access,
        "got": _element(access, edit, got, sizes),
        "meant": _element(access, edit, meant, sizes),
        "outer": outer,
        "inner": inner,
    }


@derives("missing_bounds_check")
def _past_the_end(edit: Edit) -> Figures:
    guard, _ = edit.nodes
    if not isinstance(guard, Guard) or not isinstance(guard.condition, Binary):
        return None
    index, limit = guard.condition.left, guard.condition.right
    used = [one for one in edit.accesses(1) if names_of(one.place) & names_of(index)] or edit.accesses(1)
    for access, sizes in ((access, sizes) for sizes in edit.sizes for access in used[:1]):
        grid = edit.emitted.host.grid(sizes)
        beyond = [
            (one, place)
            for one in edit.walked(1, access.node, sizes, last=True)
            if (place := evaluate(index, one.known)) is not None and place >= (evaluate(limit, one.known) or 0)
        ]
        if grid is None or not beyond:
            continue
        visit, first = beyond[0]
        total, reached = evaluate(limit, visit.known), evaluate(access.place, visit.known)
        if total is not None and reached is not None:
            return {
                "at": edit.at(sizes),
                "limit": limit,
                "total": total,
                "last": total - 1,
                "index": index,
                "blocks": plural(count_of(grid), "block"),
                "threads": count_of(edit.emitted.threads),
                "most": max(found for _, found in beyond),
                "who": visit.told,
                "first": first,
                "guard": guard,
                "access": access,
                "reached": _element(access, edit, reached, sizes),
            }
    return None


@derives("wrong_launch_geometry")
def _too_few_blocks(edit: Edit) -> Figures:
    first: Figures = None
    for sizes in edit.sizes:
        known = {**sizes, **{k: v[0] for k, v in settle(edit.emitted.host.setup, sizes).items() if len(v) == 1}}
        total, threads = known.get("total"), known.get("threads")
        if total is None or not threads or total % threads == 0:
            continue
        blocks, enough = total // threads, -(-total // threads)
        figures = {
            "form": "wrong_launch_geometry" if blocks else "launch_of_no_block",
            "at": edit.at(sizes),
            "total": total,
            "threads": threads,
            "last": total - 1,
            "enough": enough,
            "blocks": plural(blocks, "block"),
            "covered": blocks * threads,
        }
        if not blocks:
            return figures  # of all that goes wrong a report names the refused launch
        first = first or figures
    return first


@derives("off_by_one")
def _short_loop(edit: Edit) -> Figures:
    loop = next((one for one, other in pairs(*edit.parts, Loop) if one.condition != other.condition), None)
    if loop is None:
        return None
    for sizes in edit.sizes:
        known = arguments_of(edit.emitted, sizes) | {"blockDim.x": edit.emitted.threads[0]}
        limit, step = (evaluate(one, known) for one in (loop.condition.right, loop.step or code(1)))
        start = evaluate(loop.first, known) or 0
        if limit is None or step is None or limit < 2 or (loop.first == code(0) and (limit - 1 - start) % step):
            continue
        lost, rounds = limit - 1, -(-limit // step)
        who = f"each thread that runs it does {rounds - 1} of {rounds} rounds"
        if loop.first != code(0):
            who = f"the thread with `{loop.first}` = {lost % step}, to which {lost} belongs, leaves it out"
        reads = [one for one in edit.accesses(0) if loop.name in names_of(one.place) and not one.writes]
        inside = f", and {reads[0].text} is never taken with {loop.name} = {lost}" if reads else ""
        return {"at": edit.at(sizes), "loop": loop, "limit": limit, "lost": lost, "who": who, "inside": inside}
    return None


@derives("missing_padding_check")
def _before_the_start(edit: Edit) -> Figures:
    guards = [pair for pair in pairs(*edit.parts, (Guard, Choice)) if pair[0].condition != pair[1].condition]
    if not guards:
        return None
    right, wrong = guards[0]
    left = list(_conjuncts(wrong.condition))
    dropped: Any = next(one for one in _conjuncts(right.condition) if one not in left)
    within = {id(one) for one in walk(wrong.body if isinstance(wrong, Guard) else wrong.yes)}
    inside = [one for one in edit.accesses(1) if id(one.node) in within]
    for access, sizes in ((access, sizes) for sizes in edit.sizes for access in inside[:1]):
        for visit in edit.walked(1, access.node, sizes):
            position, place = evaluate(dropped.left, visit.known), evaluate(access.place, visit.known)
            if position is None or position >= 0 or place is None:
                continue
            values = with_values(own_names(edit, dropped.left), visit.known)
            reached = values if isinstance(dropped.left, Name) else f"{values}, where `{dropped.left}` is {position}"
            return {
                "at": edit.at(sizes),
                "who": visit.told,
                "reached": reached,
                "position": position,
                "access": access,
                "got": _element(access, edit, place, sizes),
                "dropped": dropped,
            }
    return None


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    match condition:
        case Binary(left, "&&", right):
            yield from (*_conjuncts(left), *_conjuncts(right))
        case Group(inner):
            yield from _conjuncts(inner)
        case _:
            yield condition


@derives("missing_vector_tail")
def _past_the_last_vector(edit: Edit) -> Figures:
    _, new = edit.nodes
    width = evaluate(new.right, {}) if isinstance(new, Binary) else None
    for sizes in edit.sizes if width else ():
        for visit in edit.walked(1, new, sizes, last=True):
            first, left = visit.known.get("first"), visit.known.get("left")
            if first is None or left is None or width is None or not 0 < left < width:
                continue
            return {
                "at": edit.at(sizes),
                "who": visit.told,
                "left": left,
                "width": width,
                "first": first,
                "third": first + width - 1,
                "last": first + left - 1,
            }
    return None


@derives("missing_contiguous")
def _other_strides(edit: Edit) -> Figures:
    statement, _ = edit.nodes
    name = getattr(getattr(statement, "target", None), "name", "")
    found = next((buffer for _, buffer in edit.honest.host.parameters if buffer.name == name), None)
    if found is None:
        return None
    for sizes in edit.sizes:
        shape = tuple(side.evaluate(dict(sizes)) for side in found.shape)
        if len(shape) < 2 or min(shape[-2:]) < 2:
            continue
        lead = "0, " * (len(shape) - 2)
        return {
            "name": name,
            "lead": lead,
            "shape": shape,
            "rows": plural(shape[-2], "element"),
            "height": shape[-2],
            "columns": shape[-1],
        }
    return None
