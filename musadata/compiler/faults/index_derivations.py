"""What faults of bounds, strides, axes and launches do: found by following threads at the sizes that show it."""

from collections.abc import Iterator, Mapping
from typing import Any

from musadata.compiler.faults.derivation import (
    Access,
    Derivation,
    Edit,
    count_of,
    derives,
    own_names,
    pairs,
    plural,
    unravel,
    with_values,
)
from musadata.compiler.faults.thread_walk import Visit, arguments_of, value_of
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
            values = value_of(one, visit.known), value_of(other, visit.known)
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
def _other_element(edit: Edit) -> Derivation | None:
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
    does = "writes" if one.writes else "reads"
    values = with_values(own_names(edit, one.place), visit.known)
    told = (
        f"{edit.at(sizes)}{visit.told} is the first to go wrong: with {values}, {other.text} {does} "
        f"{_element(other, edit, got, sizes)}; it should be {_element(one, edit, meant, sizes)}."
    )
    shape = edit.shape(one.tensor, sizes)
    past = shape and next(
        (
            (known, place)
            for known in edit.walked(0, one.node, sizes)
            if (place := value_of(other.place, known.known)) is not None and place >= count_of(shape)
        ),
        None,
    )
    if past and got < count_of(shape or ()):
        who, place = past
        told += (
            f" {who.told.capitalize()}, with {with_values(own_names(edit, one.place), who.known)}, is past the end: "
            f"element {place} of {count_of(shape or ())}."
        )
    else:
        told += _agreement(one.place, other.place)
    strides = _strides(one, edit, sizes)
    return Derivation(told, f"with {values}, {one.text} is {_element(one, edit, meant, sizes)}{strides}")


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
            known = value_of(stride, arguments_of(edit.emitted, sizes))
            if known == shape[-1]:
                return f": {access.tensor} has shape {shape}, so that {outer} steps over rows of {known} elements"
            if known is not None and known in (count_of(shape[n:]) for n in range(1, len(shape))):
                return f": {access.tensor} has shape {shape}, so that {outer} steps over {known} elements"
    return ""


@derives("wrong_axis")
def _swapped_dimensions(edit: Edit) -> Derivation | None:
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
        if (meant := value_of(access.place, one.known)) is not None
        and (got := value_of(access.place, other.known)) is not None
        and meant != got
    )
    if (first := next(found, None)) is None:
        return None
    access, sizes, one, other, meant, got = first
    flat = with_values((name for name in own_names(edit, outer.value, inner.value) if name not in names), one.known)
    right, wrong = with_values(names, one.known), with_values(names, other.known)
    told = (
        f"{edit.at(sizes)}{one.told} has {flat} and takes {wrong} from it instead of {right}. So {access.text} is "
        f"{_element(access, edit, got, sizes)}, and should be {_element(access, edit, meant, sizes)}."
    )
    why = (
        "the innermost dimension is the remainder, and what lies outside of it is counted by the quotient: "
        f"`{outer.name} = {outer.value}` and `{inner.name} = {inner.value}` give {right} for {flat}"
    )
    return Derivation(told, why)


@derives("missing_bounds_check")
def _past_the_end(edit: Edit) -> Derivation | None:
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
            if (place := value_of(index, one.known)) is not None and place >= (value_of(limit, one.known) or 0)
        ]
        if grid is None or not beyond:
            continue
        visit, place = beyond[0]
        total, most = value_of(limit, visit.known), max(found for _, found in beyond)
        reached = value_of(access.place, visit.known)
        threads = count_of(edit.emitted.threads)
        blocks = plural(count_of(grid), "block")
        span = f"{place}" if most == place else f"{place} to {most}"
        told = (
            f"{edit.at(sizes)}{limit} is {total}, and the launch has {blocks} of {threads} threads, whose `{index}` "
            f"goes up to {most}. {visit.told.capitalize()} is the first with no work: its `{index}` is {place}. "
            f"Without a check it goes on to {access.text}"
        )
        told += f", {_element(access, edit, reached, sizes)}." if reached is not None else "."
        right = (
            f"{edit.at(sizes)[:1].lower()}{edit.at(sizes)[1:]}`if ({guard.condition}) return;` lets the threads with "
            f"`{index}` {span} leave, and exactly 0 to {(total or 0) - 1} are computed"
        )
        return Derivation(told, right)
    return None


@derives("wrong_launch_geometry")
def _too_few_blocks(edit: Edit) -> Derivation | None:
    for sizes in edit.sizes:
        known = {**sizes, **{k: v[0] for k, v in settle(edit.emitted.host.setup, sizes).items() if len(v) == 1}}
        total, threads = known.get("total"), known.get("threads")
        if total is None or not threads or total % threads == 0:
            continue
        blocks, right = total // threads, -(-total // threads)
        covered = blocks * threads
        lost = (
            f"they have {covered} threads, so elements {covered} to {total - 1} are never computed and keep what "
            "torch::empty left there"
            if blocks
            else "a launch without a block is refused as an invalid configuration"
        )
        told = f"{edit.at(sizes)}total is {total}: {total} / {threads} is {plural(blocks, 'block')}, and {lost}."
        why = f"({total} + {threads} - 1) / {threads} is {right}, so that {right * threads} threads cover all {total}"
        return Derivation(told, why)
    return None


@derives("off_by_one")
def _short_loop(edit: Edit) -> Derivation | None:
    loop = next((one for one, other in pairs(*edit.parts, Loop) if one.condition != other.condition), None)
    if loop is None:
        return None
    for sizes in edit.sizes:
        known = arguments_of(edit.emitted, sizes) | {"blockDim.x": edit.emitted.threads[0]}
        limit, step = (value_of(one, known) for one in (loop.condition.right, loop.step or code(1)))
        start = value_of(loop.first, known) or 0
        if limit is None or step is None or limit < 2 or (loop.first == code(0) and (limit - 1 - start) % step):
            continue
        lost, rounds = limit - 1, -(-limit // step)
        who = f"each thread that runs it does {rounds - 1} of {rounds} rounds"
        if loop.first != code(0):
            who = f"the thread with `{loop.first}` = {lost % step}, to which {lost} belongs, leaves it out"
        reads = [one for one in edit.accesses(0) if loop.name in names_of(one.place) and not one.writes]
        inside = f", and {reads[0].text} is never taken with {loop.name} = {lost}" if reads else ""
        told = f"{edit.at(sizes)}the loop over `{loop.name}` ends before {lost}, its last value: {who}{inside}."
        return Derivation(
            told, f"`{loop.condition}` holds for {lost} and not for {limit}, so that none of the {limit} is left out"
        )
    return None


@derives("missing_padding_check")
def _before_the_start(edit: Edit) -> Derivation | None:
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
            position, place = value_of(dropped.left, visit.known), value_of(access.place, visit.known)
            if position is None or position >= 0 or place is None:
                continue
            values = with_values(own_names(edit, dropped.left), visit.known)
            reached = values if isinstance(dropped.left, Name) else f"{values}, where `{dropped.left}` is {position}"
            told = (
                f"{edit.at(sizes)}{visit.told} comes to {reached}: in the padding, before the first element. Nothing "
                f"stops it, and {access.text} is {_element(access, edit, place, sizes)}, where the padding has to "
                "count instead."
            )
            return Derivation(
                told,
                f"`{dropped}` is false in the padding, where `{dropped.left}` comes down to {position} and below, so "
                "that nothing is read there",
            )
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
def _past_the_last_four(edit: Edit) -> Derivation | None:
    _, new = edit.nodes
    for sizes in edit.sizes:
        for visit in edit.walked(1, new, sizes, last=True):
            first, total = visit.known.get("first"), visit.known.get("total")
            if first is None or total is None or not first < total < first + 4:
                continue
            told = (
                f"{edit.at(sizes)}total is {total}, which is {total // 4} groups of four and {total % 4} more. "
                f"{visit.told.capitalize()} has first = {first}: it is below {total}, so it moves elements {first} to "
                f"{first + 3} as a float4, and the last one is number {total - 1}."
            )
            why = (
                f"for first = {first}, first + 3 is {first + 3} and not below the total of {total}, so that what is "
                "left goes element by element"
            )
            return Derivation(told, why)
    return None


@derives("missing_contiguous")
def _other_strides(edit: Edit) -> Derivation | None:
    statement, _ = edit.nodes
    name = getattr(getattr(statement, "target", None), "name", "")
    found = next((buffer for _, buffer in edit.honest.host.parameters if buffer.name == name), None)
    if found is None:
        return None
    for sizes in edit.sizes:
        shape = tuple(side.evaluate(dict(sizes)) for side in found.shape)
        if len(shape) < 2 or min(shape[-2:]) < 2:
            continue
        rows, columns = shape[-2:]
        lead = "0, " * (len(shape) - 2)
        told = (
            f"The kernel counts on {name}[{lead}0, 1] being the next element after {name}[{lead}0, 0]. A view may lie "
            f"otherwise: let {name} of shape {shape} be the transpose of its last two dimensions. Its strides end in "
            f"(1, {rows}), so {name}[{lead}0, 1] lies {plural(rows, 'element')} on, and what the kernel reads as "
            f"{name}[{lead}0, 1] is {name}[{lead}1, 0]. Contiguous inputs hide it."
        )
        return Derivation(
            told, f"`contiguous()` copies such a view into rows of {columns} and returns others as they are"
        )
    return None
