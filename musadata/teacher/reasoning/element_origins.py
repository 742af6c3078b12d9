"""Which elements of the operand an element of the result is a copy of, or is made from."""

from collections.abc import Callable
from string import ascii_lowercase

from musadata.teacher.reasoning.kernel_plan import Call

# The names of an element's coordinates, and the call -> its coordinates in the first operand, where it can say.
_AXES = {2: "rc", 3: "nrc", 4: "nchw"}
_MOST_PARTS = 4  # of a concatenation, in one formula
_Places = Callable[[list[str], Call], list[str]]


def axis_names(rank: int) -> list[str]:
    """Names of a tensor's axes."""
    return list(_AXES.get(rank, [f"i{letter}" for letter in ascii_lowercase[:rank]]))


def element_of(call: Call) -> str:
    """An element of the call's result in coordinates, as `roll[r, c]`."""
    return f"{call.output.name}[{', '.join(axis_names(len(call.output.shape)))}]"


def origin_of(call: Call) -> str:
    """The element that `element_of` is a copy of, as `x[r, (c - 2 + 20) % 20]`; empty where that is not one formula."""
    names = axis_names(len(call.output.shape))
    if call.packet in ("tril", "triu"):
        return _triangle(names, call)
    if call.packet == "cat":
        return _concatenation(names, call)
    if call.packet == "stack":
        axis = (call.integers("dim") or (0,))[0] % len(names)
        inner = ", ".join(names[:axis] + names[axis + 1 :])
        return f"operand {names[axis]} of {', '.join(call.names)} at [{inner}]"
    write = _PLACES.get(call.packet)
    places = write(names, call) if write else None
    return f"{call.source.name}[{', '.join(places)}]" if places else ""


def indexed_places(call: Call) -> str:
    """The formula of a gather or a scatter along one axis, as `gather[r, c] = x[r, index[r, c]]`; empty for others."""
    rank, names = len(call.source.shape), call.names
    dim = call.integers("dim")
    if call.packet not in _INDEXED or not dim or len(names) < _INDEXED[call.packet] or rank < 1:
        return ""
    axis, place = dim[0] % rank, axis_names(rank) if rank > 1 else ["i"]
    own = place[axis] if call.packet.startswith("index_") else ", ".join(place)
    there = ", ".join([*place[:axis], f"{names[1]}[{own}]", *place[axis + 1 :]])
    here, result = ", ".join(place), f"`{call.output.name}`"
    if call.packet in ("gather", "index_select"):
        return f"{result}[{here}] = {names[0]}[{there}]"
    how = f"with {names[2]}[{here}] added to" if call.packet.endswith("_add") else f"but {names[2]}[{here}] at"
    return f"{result} = {names[0]}, {how} [{there}] for each element of {names[2]}"


_INDEXED = {"gather": 2, "index_select": 2, "scatter": 3, "scatter_add": 3, "index_add": 3}  # operands that are tensors


def nearest_places(call: Call) -> str:
    """The formula of an upsampling that repeats elements, with the scales of its axes."""
    pooled = int(call.packet[-2])
    outer, sizes = ["d", "h", "w"][3 - pooled :], (call.source.shape[-pooled:], call.output.shape[-pooled:])
    there = []
    for to, size, made in zip(outer, *sizes, strict=True):
        scale = call.argument("scales" if pooled == 1 else f"scales_{to}", "None")
        there.append(f"⌊{to}·{size} / {made}⌋" if scale == "None" else f"⌊{to} / {scale}⌋")
    before = ["n", "c"][pooled + 2 - len(call.source.shape) :]
    return f"`{call.output.name}`[{', '.join([*before, *outer])}] = {call.source.name}[{', '.join([*before, *there])}]"


def adaptive_windows(call: Call, what: str) -> str:
    """The window of an adaptive pooling along each axis: from ⌊o·n / m⌋ to before ⌈(o + 1)·n / m⌉ for n places to m."""
    pooled = 3 if "3d" in call.packet else 2
    outer = ["d", "h", "w"][3 - pooled :]
    sizes = zip(call.source.shape[-pooled:], call.output.shape[-pooled:], outer, "kij"[3 - pooled :], strict=True)
    inner, ranges = [], []
    for size, made, to, along in sizes:
        inner.append(to if size == made else along)
        if made == 1 and size > 1:
            ranges.append(f"all {size} places {along}")
        elif size != made and size % made == 0:
            ranges.append(f"{to}·{size} / {made} <= {along} < ({to} + 1)·{size} / {made}")
        elif size != made:
            ranges.append(f"⌊{to}·{size} / {made}⌋ <= {along} < ⌈({to} + 1)·{size} / {made}⌉")
    over = f" over {' and '.join(ranges)}" if ranges else ""
    before = ["n", "c"][pooled + 2 - len(call.source.shape) :]
    here, there = (", ".join([*before, *names]) for names in (outer, inner))
    return f"`{call.output.name}`[{here}] = {what} of {call.source.name}[{there}]{over}"


def _slice(names: list[str], call: Call) -> list[str]:
    """Places of a part of an axis; none where all of it is taken."""
    axis = call.integers("dim") or (0,)
    start, step = (int(call.argument(name) or default) for name, default in (("start", "0"), ("step", "1")))
    if call.source.shape == call.output.shape:
        return []
    place, size = axis[0] % len(names), call.source.shape[axis[0] % len(names)]
    first = start + size if start < 0 else start
    moved = names[place] if step == 1 else f"{names[place]} * {step}"
    names[place] = f"{moved} + {first}" if first else moved
    return names


def _roll(names: list[str], call: Call) -> list[str]:
    axes = call.integers("dims")
    if not axes:  # it rolls the flat tensor
        return []
    for shift, axis in zip(call.integers("shifts"), axes, strict=True):
        size, name = call.source.shape[axis], names[axis]
        ahead = shift % size
        names[axis] = f"({name} - {ahead} + {size}) % {size}" if ahead else name
    return names


def _flip(names: list[str], call: Call) -> list[str]:
    for axis in call.integers("dims"):
        names[axis] = f"{call.source.shape[axis]} - 1 - {names[axis]}"
    return names


def _repeat(names: list[str], call: Call) -> list[str]:
    sizes = call.source.shape
    added = len(names) - len(sizes)
    return [
        name if size == made else ("0" if size == 1 else f"{name} % {size}")
        for name, size, made in zip(names[added:], sizes, call.output.shape[added:], strict=True)
    ]


def _channel_shuffle(names: list[str], call: Call) -> list[str]:
    groups = call.integers("groups")[0]
    names[1] = f"{names[1]} % {groups} * ({call.source.shape[1]} / {groups}) + {names[1]} / {groups}"
    return names


def _pixel_shuffle(names: list[str], call: Call) -> list[str]:
    *before, channel, row, column = names
    by = call.integers("upscale_factor")[0]
    within = f"{row} % {by} * {by} + {column} % {by}"
    return [*before, f"{channel} * {by} * {by} + {within}", f"{row} / {by}", f"{column} / {by}"]


def _pixel_unshuffle(names: list[str], call: Call) -> list[str]:
    *before, channel, row, column = names
    by = call.integers("downscale_factor")[0]
    return [
        *before,
        f"{channel} / ({by} * {by})",
        f"{row} * {by} + {channel} / {by} % {by}",
        f"{column} * {by} + {channel} % {by}",
    ]


def _concatenation(names: list[str], call: Call) -> str:
    """Which operand an element comes from, by its place along the axis."""
    parts = call.operands
    if not 1 < len(parts) <= _MOST_PARTS or len({len(fact.shape) for fact in parts}) > 1:
        return ""
    axis, end, text = (call.integers("dim") or (0,))[0] % len(names), 0, ""
    for fact in parts:
        place = f"{names[axis]} - {end}" if end else names[axis]
        end += fact.shape[axis]
        element = f"{fact.name}[{', '.join([*names[:axis], place, *names[axis + 1 :]])}]"
        text += element if fact is parts[-1] else f"{names[axis]} < {end} ? {element} : "
    return f"({text})"


def _triangle(names: list[str], call: Call) -> str:
    (diagonal,) = call.integers("diagonal") or (0,)
    side = "<=" if call.packet == "tril" else ">="
    offset = f" + {diagonal}" if diagonal > 0 else f" - {-diagonal}" if diagonal else ""
    return f"({names[-1]} {side} {names[-2]}{offset} ? {call.source.name}[{', '.join(names)}] : 0)"


_PLACES: dict[str, _Places] = {
    write.__name__.removeprefix("_"): write
    for write in (_slice, _roll, _flip, _repeat, _channel_shuffle, _pixel_shuffle, _pixel_unshuffle)
}
