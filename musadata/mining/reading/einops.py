"""einops calls as plain tensor methods, so that a reference needs PyTorch alone.

`rearrange(x, "b (h w) c -> b c h w", h=8)` is `x.unflatten(1, (8, -1)).permute(0, 3, 1, 2)`. Computed patterns, `pack`
and `unpack` are not translated, so their classes are rejected. In six public repositories 321 classes were rejected
because of einops, more than for any other package.
"""

import ast
import re
from collections.abc import Mapping, Sequence

from musadata.mining.reading.dotted_names import dotted_name

FUNCTIONS = frozenset({"rearrange", "repeat", "reduce", "einsum"})
LAYERS = frozenset({"Rearrange", "Reduce"})
REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "amax", "min": "amin"}
TOKEN = re.compile(r"\.\.\.|[()]|[A-Za-z_]\w*|\d+")
REST = "..."
Group = tuple[str, ...]  # axes of one dimension; () for one of size 1


class Untranslatable(Exception):
    """The call cannot be translated from its text alone."""


def call_name(call: ast.Call, names: Mapping[str, str]) -> str:
    """The einops function or layer that a call uses, if it can be translated; else "".

    Args:
        names: dotted names in this file -> what they are in einops.
    """
    name = names.get(dotted_name(call.func), "")
    if not name:
        return ""
    texts = [ast.unparse(item) for item in call.args]
    keywords = {item.arg or "**": ast.unparse(item.value) for item in call.keywords}
    try:
        translate_layer(name, texts, keywords) if name in LAYERS else translate_call(name, texts, keywords)
    except Untranslatable:
        return ""
    return name


def translate_call(name: str, arguments: Sequence[str], keywords: Mapping[str, str]) -> str:
    """The expression that replaces a call of an einops function; arguments are source text.

    Raises:
        Untranslatable: its pattern or operation is computed, or it uses more than tensors.
    """
    if name == "einsum":
        if len(arguments) < 2 or keywords:
            raise Untranslatable
        return f'torch.einsum("{einsum_pattern(_literal(arguments[-1]))}", {", ".join(arguments[:-1])})'
    operand, pattern, operation, sizes = _parts(name, arguments, keywords)
    if operand.lstrip().startswith(("[", "*")):
        raise Untranslatable
    simple = isinstance(ast.parse(operand, mode="eval").body, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return (operand if simple else f"({operand})") + "".join(tensor_steps(name, pattern, sizes, operation))


def translate_layer(name: str, arguments: Sequence[str], keywords: Mapping[str, str]) -> tuple[str, str]:
    """The constructor arguments of an equivalent layer, and the text of its class, which is called `name`.

    Raises:
        Untranslatable: as for calls.
    """
    _, pattern, operation, sizes = _parts(name.lower(), ["x", *arguments], keywords)
    steps = tensor_steps(name.lower(), pattern, {size: f"self.{size}" for size in sizes}, operation)
    lines = [f"class {name}(nn.Module):", f'    """{" ".join(pattern.split())}"""', ""]
    if sizes:
        lines += [f"    def __init__(self, {', '.join(sizes)}):", "        super().__init__()"]
        lines += [*(f"        self.{size} = {size}" for size in sizes), ""]
    lines += ["    def forward(self, x):", f"        return x{''.join(steps)}"]
    return ", ".join(f"{size}={value}" for size, value in sizes.items()), "\n".join(lines)


def _parts(name: str, arguments: Sequence[str], keywords: Mapping[str, str]) -> tuple[str, str, str, dict[str, str]]:
    """Operand, pattern, operation and sizes of a call."""
    named = dict(keywords)
    places = ["tensor", "pattern", "reduction"][: 3 if name == "reduce" else 2]
    given = [*arguments, *(named.pop(place) for place in places[len(arguments) :] if place in named)]
    if len(given) != len(places) or "**" in named:
        raise Untranslatable
    return given[0], _literal(given[1]), _literal(given[2]) if name == "reduce" else "", named


def _literal(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise Untranslatable from error
    if not isinstance(value, str):
        raise Untranslatable
    return value


def einsum_pattern(pattern: str) -> str:
    """torch's form of an einsum pattern: one letter for each axis."""
    letters: dict[str, str] = {}
    free = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]

    def letter(axis: str) -> str:
        if axis not in letters:
            wanted = axis[0] if axis[0] in free else free[0]
            free.remove(wanted)
            letters[axis] = wanted
        return letters[axis]

    operands, arrow, result = pattern.partition("->")
    if not arrow or re.search(r"[()\d]", pattern):
        raise Untranslatable
    sides = [
        "".join(axis if axis == REST else letter(axis) for axis in side.split())
        for side in [*operands.split(","), result]
    ]
    return f"{', '.join(sides[:-1])} -> {sides[-1]}"


def tensor_steps(name: str, pattern: str, sizes: Mapping[str, str], operation: str = "") -> list[str]:
    """The chain of method calls for a pattern."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise Untranslatable
    left, right = (_parse(side) for side in sides)
    before, after = ([axis for group in groups for axis in group] for groups in (left, right))
    new, gone = [item for item in after if item not in before], [item for item in before if item not in after]
    if len({*before}) < len(before) or len({*after}) < len(after) or REST in [*new, *gone]:
        raise Untranslatable
    if (new and name != "repeat") or (gone and name != "reduce"):
        raise Untranslatable
    known = {**sizes, **{axis: axis.lstrip("_") for axis in [*before, *after] if axis.startswith("_")}}
    steps = _split(left, known)
    if gone:
        places = [_place(before, before.index(axis)) for axis in gone]
        if operation not in REDUCTIONS:
            raise Untranslatable
        steps.append(f".{REDUCTIONS[operation]}({places[0] if len(places) == 1 else tuple(places)})")
    kept = [item for item in after if item not in new]
    steps += _permute([item for item in before if item not in gone], kept)
    steps += _widen(after, new, known)
    steps += _join(right)
    return _shortened(steps)


def _parse(side: str) -> list[Group]:
    if TOKEN.sub("", side).strip():
        raise Untranslatable
    groups: list[Group] = []
    inside: list[str] | None = None
    for token in TOKEN.findall(side):
        if token == "(":
            inside = []
        elif token == ")":
            groups.append(tuple(inside or ()))
            inside = None
        else:
            if inside is not None and token == REST:
                raise Untranslatable
            axis = () if token == "1" else (f"_{token}" if token.isdigit() else token,)
            if inside is None:
                groups.append(axis)
            else:
                inside += axis
    return groups


def _place(axes: Sequence[str], number: int) -> int:
    """The dimension of an axis, counted from the end if it comes after `...`."""
    return number - len(axes) if REST in axes[:number] else number


def _rest(groups: Sequence[Group]) -> int:
    return groups.index((REST,)) if (REST,) in groups else len(groups)


def _split(left: Sequence[Group], sizes: Mapping[str, str]) -> list[str]:
    """Split every dimension of several axes, and squeeze every dimension of size 1."""
    rest, steps = _rest(left), []
    for number in [*reversed(range(rest)), *range(rest + 1, len(left))]:
        group, place = left[number], number if number < rest else number - len(left)
        if not group:
            steps.append(f".squeeze({place})")
        elif len(group) > 1:
            if sum(axis not in sizes for axis in group) > 1:
                raise Untranslatable
            steps.append(f".unflatten({place}, ({', '.join(sizes.get(axis, '-1') for axis in group)}))")
    return steps


def _permute(old: Sequence[str], new: Sequence[str]) -> list[str]:
    moved = [number for number, (first, second) in enumerate(zip(old, new, strict=True)) if first != second]
    if not moved:
        return []
    if len(moved) == 2 and REST not in (old[moved[0]], old[moved[1]]):
        return [f".transpose({_place(old, moved[0])}, {_place(old, moved[1])})"]
    if REST not in old:
        return [f".permute({', '.join(str(old.index(axis)) for axis in new)})"]
    named = [axis for axis in old if axis != REST]
    sources = tuple(_place(old, old.index(axis)) for axis in named)
    targets = tuple(_place(new, new.index(axis)) for axis in named)
    return [f".movedim({sources}, {targets})" if len(named) > 1 else f".movedim({sources[0]}, {targets[0]})"]


def _widen(after: Sequence[str], new: Sequence[str], sizes: Mapping[str, str]) -> list[str]:
    """Insert and repeat new axes."""
    if any(axis not in sizes for axis in new):
        raise Untranslatable
    steps = []
    for number, axis in enumerate(after):
        if axis in new:
            behind = sum(item not in new for item in after[number + 1 :])
            steps.append(f".unsqueeze({-behind - 1 if REST in after[:number] else number})")
    if new and REST not in after:
        steps.append(f".expand({', '.join(sizes[axis] if axis in new else '-1' for axis in after)})")
    elif new:
        steps += [f".repeat_interleave({sizes[axis]}, {_place(after, after.index(axis))})" for axis in new]
    return steps


def _join(right: Sequence[Group]) -> list[str]:
    """Flatten axes that share a dimension, and insert dimensions of size 1."""
    rest, steps = _rest(right), []
    for number in reversed(range(rest)):
        start, count = sum(map(len, right[:number])), len(right[number])
        if not count:
            steps.append(f".unsqueeze({start})")
        elif count > 1:
            steps.append(
                f".flatten({start})" if number == len(right) - 1 else f".flatten({start}, {start + count - 1})"
            )
    for number in range(rest + 1, len(right)):
        behind, count = sum(map(len, right[number + 1 :])), len(right[number])
        if not count:
            steps.append(f".unsqueeze({-behind - 1})")
        elif count > 1:
            steps.append(f".flatten({-behind - count}, {-behind - 1})")
    return steps


def _shortened(steps: Sequence[str]) -> list[str]:
    """Remove pairs of steps that squeeze and unsqueeze the same dimension."""
    found: list[str] = []
    for step in steps:
        if found and found[-1] == step.replace(".unsqueeze", ".squeeze") and step.startswith(".unsqueeze"):
            found.pop()
        else:
            found.append(step)
    return found
