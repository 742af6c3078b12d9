"""Inside the sandbox: further sets of shapes for a reference that declares one only, found by trying."""

import ast
import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks.reference_loading import build_model, load_reference
from musadata.tasks.sizing.sizes import Specs, groups, size_at
from musadata.tracing.inputs import draw
from musadata.tracing.shape_sets import resize

_MOST_TRIALS = 20
_WHOLE_WARPS = 64


def derive_shapes(text: str, inputs: list[dict[str, Any]], uneven: bool = False) -> list[list[dict[str, Any]]]:
    """A larger and a smaller set of shapes, as plain specs; fewer if sizes are fixed. Sizes are as even as they were,
    but for those of one more larger set if that should be `uneven`.

    A candidate with a size written into it, or that keeps what it has made for the first sizes, is wrong on one.
    """
    model = build_model(load_reference(text), 0)
    own = tuple(restore(InputSpec, spec) for spec in inputs)

    def runs(specs: Specs) -> bool:
        try:
            with torch.no_grad():
                model(*draw(specs, 0))
        except Exception:  # the reference may raise anything; that is the answer
            return False
        return True

    tied = _tied(text)
    ways = [(1, _WHOLE_WARPS), (-1, _WHOLE_WARPS), *[(1, 1)] * uneven]
    found = dict.fromkeys(_vary(own, tied, runs, *way) for way in ways)
    return [list(map(dataclasses.asdict, specs)) for specs in found if specs != own]


def _tied(text: str) -> list[set[tuple[int, int]]]:
    """The sizes of inputs that one number of the text sets together: `torch.randn(n, n)` is a square."""
    tree, found = ast.parse(text), list[set[tuple[int, int]]]()
    own = _shapes(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int:
            node.value.value += 1
            moved = _shapes(tree)
            node.value.value -= 1
            found.append({place for place, size in moved.items() if own.get(place, size) != size})
    return found


def _shapes(tree: ast.Module) -> dict[tuple[int, int], int]:
    """The sizes of what `get_inputs` returns, by input and axis; none where it fails."""
    try:
        values = load_reference(ast.unparse(tree)).get_inputs()
    except Exception:  # the reference may raise anything
        return {}
    shapes = [value.shape if isinstance(value, torch.Tensor) else () for value in values]
    return {(at, axis): size for at, shape in enumerate(shapes) for axis, size in enumerate(shape)}


def _vary(own: Specs, tied: list[set[tuple[int, int]]], runs: Callable[[Specs], bool], sign: int, most: int) -> Specs:
    """With each size that can change a quarter larger or smaller, as `sign` says, or else the other way round; of equal
    sizes each by another amount, so that an image is no square, but for those that are `tied`. A batch of one becomes
    two. A power of two up to `most` that divides a size divides the new one; where that is 1, all are odd."""
    current, changed, left, seen = own, set[tuple[int, int]](), _MOST_TRIALS, Counter[int]()
    for places in groups(own):
        size = size_at(own, min(places))
        along = set[tuple[int, int]]().union(*(some for some in tied if places & some))
        places |= {place for place in along if size_at(own, place) == size}
        even = min(size & -size, most)
        step = sign * even * max(1, size // (4 * even)) * (1 + seen[size])
        is_fixed = size == 1 and any(axis for _, axis in places)
        for trial in (resize(current, places, new | (most == 1)) for new in (size + step, size - step) if new > 1):
            if changed & places or is_fixed or left == 0 or trial == current:
                break
            left -= 1
            if runs(trial):
                current, changed = trial, changed | places
                seen[size] += 1
                break
    return current
