"""Gates: two products of one operand that are only read together, element by element, as in `silu(x W) * (x V)`."""

from collections.abc import Mapping, Sequence

from musadata.compiler.ir.index_formulas import product
from musadata.compiler.ir.program import Loop
from musadata.compiler.ir.scalar import Buffer, Load, Scalar, same
from musadata.compiler.lowering.loop_points import axes_of, inner_axes, value_at

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
        made = list(dict.fromkeys(load.buffer for load in loads if load.buffer in products))
        alone = all(readers(buffer, loops) == 1 for buffer in made)
        at_point = all(load.index == axes for load in loads if load.buffer in made)
        if len(made) == 2 and loop.is_pointwise and alone and at_point and _are_alike(*(products[one] for one in made)):
            first, second = sorted(made, key=[*products].index)
            found[second] = first
    return found


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
    return sum(any(load.buffer is buffer for load in value_at(loop, *axes_of(loop)).loads) for loop in loops)


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
    """Whether two elements are at one place of two parameters or arguments of one shape, whose rows move in vectors."""
    if not (isinstance(one, Load) and isinstance(other, Load)):
        return False
    roles, lengths = {one.buffer.role, other.buffer.role}, [side.constant for side in one.buffer.shape]
    is_alike = one.index == other.index and one.buffer.shape == other.buffer.shape and roles <= {"argument", "state"}
    is_plain = all(place.variable is not None for place in one.index) and (lengths[-1] or 0) % 4 == 0
    return is_alike and is_plain and all(length is None or length >= 8 for length in lengths)
