"""Gates: two products of one operand that are only read together, element by element, as in `silu(x W) * (x V)`.

One product whose halves are read so is two of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from musadata.compiler.ir.index_formulas import ZERO, Index, as_index, divide, product
from musadata.compiler.ir.program import Indices, Loop
from musadata.compiler.ir.scalar import Buffer, Load, Scalar, same
from musadata.compiler.lowering.loop_points import axes_of, inner_axes, value_at
from musadata.compiler.lowering.rewriting import replace_loads

MOST_IDLE = 1.25  # the work of tiles, beyond that of what they cover
FEWEST_ROWS, FEWEST_COLS, FEWEST_TILES = 128, 64, 128  # of a tile of both, and of these for a GPU to be busy


def gated_products(loops: Sequence[Loop], returned: set[Buffer], sizes: Mapping[str, int]) -> dict[Buffer, Buffer]:
    """The products that others can be computed with, by their buffers: the left operand is read once then, and neither
    is in memory. Only where tiles of both keep a GPU busy at these sizes."""
    products = {
        loop.buffer: loop for loop in loops if is_large(loop, sizes, FEWEST_COLS) and loop.buffer not in returned
    }
    found: dict[Buffer, Buffer] = {}
    for loop in loops if len(products) > 1 else ():
        axes, variables = axes_of(loop)
        loads = value_at(loop, axes, variables).loads
        made = sorted({load.buffer for load in loads if load.buffer in products}, key=[*products].index)
        alone = all(readers(buffer, loops) == 1 for buffer in made)
        at_point = all(load.index == axes for load in loads if load.buffer in made)
        if len(made) == 2 and loop.is_pointwise and alone and at_point and _are_alike(*(products[one] for one in made)):
            found[made[1]] = made[0]
    return found


def halve_packed(loops: Sequence[Loop], returned: set[Buffer], sizes: Mapping[str, int]) -> list[Loop]:
    """The loops, with two products in place of each large one that is only read in halves, the same column of both; a
    bias may have been added."""
    found = list(loops)
    for loop in loops:
        if not is_large(loop, sizes, 2 * FEWEST_COLS) or (chain := _chain(loop, found, returned)) is None:
            continue
        half, rest = divide(loop.shape[-1], as_index(2))
        axes, variables = axes_of(chain[-1])
        reader = chain[-1] if len(chain) == 1 else _spelled(*chain)
        read = {load.index for load in value_at(reader, axes, variables).loads if load.buffer is loop.buffer}
        parts = [_part(loop, half, number) for number in range(2)]
        is_packed = rest == ZERO and reader.shape[-1] == half and read == {axes, (*axes[:-1], axes[-1] + half)}
        if is_packed and _are_alike(*parts):
            change = {id(loop): parts, id(chain[0]): [], id(chain[-1]): [_halved(reader, loop.buffer, parts)]}
            found = [one for other in found for one in change.get(id(other), [other])]
    return found


def _chain(loop: Loop, loops: Sequence[Loop], returned: set[Buffer]) -> list[Loop] | None:
    """What reads a product, and what reads that if it is as large; None unless both are pointwise and the only ones."""
    chain: list[Loop] = []
    while not chain or (len(chain) == 1 and chain[0].shape == loop.shape):
        buffer = chain[0].buffer if chain else loop.buffer
        reading = [one for one in loops if _reads(one, buffer)]
        if buffer in returned or len(reading) != 1 or not reading[0].is_pointwise or reading[0].steps:
            return None
        chain += reading
    return chain


def _spelled(made: Loop, reader: Loop) -> Loop:
    """A loop with what another one makes in place of its elements."""
    return _changed(reader, lambda load, _: made.body(load.index, ()) if load.buffer is made.buffer else None)


def _halved(reader: Loop, packed: Buffer, parts: Sequence[Loop]) -> Loop:
    """A loop with the halves in place of what they are of."""

    def change(load: Load, axes: Indices) -> Scalar | None:
        return Load(load.dtype, parts[load.index != axes].buffer, axes) if load.buffer is packed else None

    return _changed(reader, change)


def _changed(loop: Loop, change: Callable[[Load, Indices], Scalar | None]) -> Loop:
    def body(axes: Indices, inner: Indices) -> Scalar:
        return replace_loads(loop.body(axes, inner), lambda load: change(load, axes), {})

    return replace(loop, body=body)


def _part(loop: Loop, half: Index, number: int) -> Loop:
    """One half of a product's columns."""
    contraction, buffer = loop.contraction, loop.buffer
    assert contraction is not None

    def shifted(body: Callable[[Indices, Indices], Scalar]) -> Callable[[Indices, Indices], Scalar]:
        return lambda axes, inner: body((*axes[:-1], axes[-1] + half * number), inner)

    name = f"{buffer.name}_{('first', 'second')[number]}"
    return replace(
        loop,
        buffer=replace(buffer, name=name, shape=(*buffer.shape[:-1], half)),
        body=shifted(loop.body),
        contraction=replace(contraction, left=shifted(contraction.left), right=shifted(contraction.right)),
    )


def is_large(loop: Loop, sizes: Mapping[str, int], width: int) -> bool:
    """Whether it is a plain product of floats with enough tiles of that width, which do not stick out too far."""
    contraction = loop.contraction
    if contraction is None or loop.attends or loop.steps or contraction.splits or loop.buffer.dtype != "float32":
        return False
    batch, rows, cols = (product(part).evaluate(sizes) for part in contraction.parts(loop.shape))
    tiles = -(-rows // FEWEST_ROWS) * -(-cols // width)
    is_covered = tiles * FEWEST_ROWS * width <= MOST_IDLE * rows * cols
    return rows >= FEWEST_ROWS and cols >= width and batch * tiles >= FEWEST_TILES and is_covered


def readers(buffer: Buffer, loops: Sequence[Loop]) -> int:
    return sum(_reads(loop, buffer) for loop in loops)


def _reads(loop: Loop, buffer: Buffer) -> bool:
    return any(load.buffer is buffer for load in value_at(loop, *axes_of(loop)).loads)


def _are_alike(one: Loop, other: Loop) -> bool:
    """Whether they have the left operand in common, and right ones that are parameters or arguments alike."""
    if one.shape != other.shape or one.names != other.names:
        return False
    axes, variables = axes_of(one)
    (inner, steps), (others, more) = (inner_axes(loop, axes, variables) for loop in (one, other))
    if steps != more or one.contraction is None or other.contraction is None:
        return False
    sides = (one.contraction.batch, one.contraction.rows), (other.contraction.batch, other.contraction.rows)
    left = one.contraction.left(axes, inner), other.contraction.left(axes, others)
    right = one.contraction.right(axes, inner), other.contraction.right(axes, others)
    return sides[0] == sides[1] and same(*left) and is_beside(*right)


def is_beside(one: Scalar, other: Scalar) -> bool:
    """Whether two elements are at one place of two parameters or arguments of one shape, whose rows move in vectors, or
    at places of one of them that are as far apart everywhere."""
    if not (isinstance(one, Load) and isinstance(other, Load)) or one.buffer.shape != other.buffer.shape:
        return False
    roles, lengths = {one.buffer.role, other.buffer.role}, [side.constant for side in one.buffer.shape]
    apart = [there - here for here, there in zip(one.index, other.index, strict=True)]
    is_packed = one.buffer is other.buffer and not any(step.variables for step in apart)
    is_packed = is_packed and (apart[-1].constant or 0) % 4 == 0 and apart[-1].constant is not None
    is_alike = (one.index == other.index or is_packed) and roles <= {"argument", "state"}
    is_plain = all(place.variable is not None for place in one.index) and (lengths[-1] or 0) % 4 == 0
    return is_alike and is_plain and all(length is None or length >= 8 for length in lengths)
