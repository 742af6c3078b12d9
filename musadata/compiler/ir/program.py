"""Lazy tensors, and the program of loops that computes them.

A `Value` computes one element as a function of its index; a view changes the index. `Program.materialize` records a
loop that stores every element of a value to a buffer; from then on the value is read from there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import Index, Size, Variable, of
from musadata.compiler.ir.scalar import RESERVED_NAMES, Added, Buffer, Load, Named, Scalar, cast, compute_type

Indices = tuple[Index, ...]
Body = Callable[[Indices], Scalar]


@dataclass(eq=False)
class Value:
    """A tensor, given by a function from an index to its element.

    Attributes:
        name: of the graph's node whose result it is, used for variables and buffers; of a reshaping that of its source,
            whose elements it has in the same order.
        body: the element at an index, in the compute type of the dtype.
        cost: about how many operations an element takes, loads aside; 0 for inputs, buffers and views of them.
        buffer: where the elements are in memory, if they are.
        viewed: the value that this one only rearranges, if it is a view.
    """

    name: str
    type: TensorType
    body: Body
    cost: int = 0
    buffer: Buffer | None = None
    viewed: "Value | None" = None
    _loaded: dict[Indices, Scalar] = field(default_factory=dict)

    @classmethod
    def stored(cls, name: str, type: TensorType, buffer: Buffer) -> "Value":
        """A tensor that a loop fills, or that is given."""
        return cls(name, type, lambda index: Load(compute_type(buffer.dtype), buffer, index), buffer=buffer)

    @property
    def shape(self) -> Indices:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def load(self, index: Indices) -> Scalar:
        """The element at an index; the same node for the same index."""
        if index not in self._loaded:
            self._loaded[index] = self._load(index)
        return self._loaded[index]

    def _load(self, index: Indices) -> Scalar:
        if self.buffer is not None:
            return Load(compute_type(self.buffer.dtype), self.buffer, index)
        value = self.body(index)
        wanted = compute_type(self.dtype)
        value = cast(value, wanted)
        return value if self.viewed is not None or isinstance(value, (Load, Named)) else Named(wanted, self.name, value)


@dataclass(frozen=True, eq=False)
class Reduction:
    """The inner loops of a loop nest.

    `kind`: sum, prod, max, min, argmax, argmin, any, all, fast_max, a maximum that need not pass NaN on, or attention,
    whose loops are over keys and over the elements of a key (`Attended`).
    `extents` are a function of the outer axes, because a window may be cut off.
    """

    kind: str
    extents: Callable[[Indices], Indices]
    names: tuple[str, ...]


def fixed(extents: Indices) -> Callable[[Indices], Indices]:
    """Inner extents that are the same everywhere."""
    return lambda _: extents


@dataclass(frozen=True)
class Split:
    """A dimension of a result whose places, divided by `size`, tell both operands of a product what they multiply.

    That is the quotient with groups of channels, and the remainder, the phase, in a convolution that is transposed:
    places of one phase have the same taps. `names` are those of quotient and remainder.
    """

    dim: int
    size: Index
    names: tuple[str, str]
    is_phase: bool


@dataclass(frozen=True, eq=False)
class Contraction:
    """That an inner loop is a product of two operands, so it can be tiled.

    Of the result's dimensions, both operands see those in `batch`, only the left one sees those in `rows`, and only the
    right one the others. `left` and `right` give an operand's element for (axes, inner). Tiles are for results without
    `splits`: where those are carried out, `shared` are the axes that they leave to both operands, and `extents` those
    of the result, which they may overstep. `dtype` is the type that both operands have in the graph, "" if they differ:
    what is computed for them is rounded to it there.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    left: Callable[[Indices, Indices], Scalar]
    right: Callable[[Indices, Indices], Scalar]
    splits: tuple[Split, ...] = ()
    shared: tuple[Variable, ...] = ()
    extents: Indices = ()
    dtype: str = ""

    def parts(self, index: Indices) -> tuple[Indices, Indices, Indices]:
        """An index into the result as (batch, rows, columns)."""
        dims = range(len(index))
        cols = [dim for dim in dims if dim not in (*self.batch, *self.rows)]
        batch, rows, right = (tuple(index[dim] for dim in part) for part in (self.batch, self.rows, cols))
        return batch, rows, right


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop nest that fills one buffer: element at `axes`, reduced over the inner loops if there are any.

    With `steps` the host goes through it step by step; `prefix` are the first axes then, which the step decides.
    `log_sums` are of attention to a part of the keys: the logarithm of the sum of a row's exponentials.
    """

    buffer: Buffer
    names: tuple[str, ...]  # of the outer loop variables
    body: Callable[[Indices, Indices], Scalar]
    reduction: Reduction | None = None
    contraction: Contraction | None = None
    scan: "Scanned | None" = None
    spread: Indices = ()
    steps: "Steps | None" = None
    prefix: Indices = ()
    log_sums: Buffer | None = None

    @property
    def is_pointwise(self) -> bool:
        """Whether each point has an element of its own, for which it needs no others."""
        return not (self.reduction or self.scan or self.spread)

    @property
    def attends(self) -> bool:
        return self.reduction is not None and self.reduction.kind == "attention"

    @property
    def shape(self) -> Indices:
        """Of its points: the buffer's, unless values are `spread`, and added to computed places of the buffer."""
        return self.spread or self.buffer.shape[len(self.prefix) :]


@dataclass(frozen=True, eq=False)
class Steps:
    """A loop of the host over `TIME_STEP`, with the same kernels in each of its steps."""

    count: Index


TIME_STEP = of(Size("time_step", 0))


@dataclass(frozen=True)
class Scanned:
    """That an element is the sum, product, maximum, minimum or logsumexp (`kind`) of what the body gives for it and for
    all before it along an axis."""

    kind: str
    axis: int


_LOOP_NAMES = frozenset("i j k n c d h w b g row col oc ic oh ow od kh kw kd lane".split())  # noqa: SIM905

# Spatial axes of convolution and pooling, and the axes of their windows, by the number of dimensions.
SPATIAL_AXES = {1: ("ow",), 2: ("oh", "ow"), 3: ("od", "oh", "ow")}
KERNEL_AXES = {1: ("kw",), 2: ("kh", "kw"), 3: ("kd", "kh", "kw")}
TAP_AXES = {1: ("tap_w",), 2: ("tap_h", "tap_w"), 3: ("tap_d", "tap_h", "tap_w")}  # those that meet a place
_AXIS_NAMES = ("", "i", "row col", "b row col", "n c h w", "n c d h w")


def axis_names(rank: int) -> tuple[str, ...]:
    return tuple(_AXIS_NAMES[rank].split() if rank < len(_AXIS_NAMES) else [f"d{i}" for i in range(rank)])


@dataclass(eq=False)
class Program:
    """The loops in order. `node` is the node of the graph that is being lowered; `stored` are buffers that have kernels
    of their own, however cheap their elements are.

    If `alike`, operators of one kind get loops of one form, so that layers share kernels: also where one of them could
    do with fewer tests, or finish a result where it is read.
    """

    alike: bool = False
    node: str = ""
    loops: list[Loop] = field(default_factory=list)
    stored: list[Buffer] = field(default_factory=list)
    steps: Steps | None = None  # of the host, that loops are recorded for
    _names: dict[str, int] = field(default_factory=dict)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from buffers."""
        self._names |= dict.fromkeys(names, 1)

    def materialize(self, value: Value, names: tuple[str, ...] = ()) -> Buffer:
        """Make sure that a value has a buffer of its own shape, and return it."""
        if value.buffer is None:
            buffer = self.new_buffer(value.name, value.type, value.name)
            body = value.body
            wanted = compute_type(value.dtype)
            loop = Loop(buffer, names or axis_names(len(value.shape)), lambda axes, _: cast(body(axes), wanted))
            self.loops.append(loop)
            value.buffer, value.cost, value.viewed = buffer, 0, None
            value._loaded.clear()
        return value.buffer

    def reduce(
        self,
        name: str,
        type: TensorType,
        names: tuple[str, ...],
        reduction: Reduction,
        body: Callable[[Indices, Indices], Scalar],
        contraction: Contraction | None = None,
    ) -> Value:
        """Record a reduction; the result is always a buffer until fusion keeps it in a register."""
        buffer = self.new_buffer(name, type)
        self.loops.append(Loop(buffer, names, body, reduction, contraction, steps=self.steps))
        return Value.stored(name, type, buffer)

    def store_step(
        self, buffer: Buffer, names: tuple[str, ...], time: Index, body: Callable[[Indices], Scalar]
    ) -> None:
        """Record that each step of the host stores at its time what `body` gives."""
        wanted = compute_type(buffer.dtype)
        stored = Loop(buffer, names, lambda axes, _: cast(body(axes), wanted), steps=self.steps, prefix=(time,))
        self.loops.append(stored)

    def spread(
        self,
        name: str,
        type: TensorType,
        shape: Indices,
        body: Callable[[Indices], Scalar],
        place: Callable[[Indices], Indices],
    ) -> Value:
        """Record that what `body` gives at each point of a shape is added to the element that `place` names."""
        buffer = replace(self.new_buffer(name, type), zeroed=True)
        wanted = compute_type(type.dtype)

        def added(axes: Indices, _: Indices) -> Scalar:
            return Added(wanted, cast(body(axes), wanted), place(axes))

        self.loops.append(Loop(buffer, axis_names(len(shape)), added, spread=shape))
        return Value.stored(name, type, buffer)

    def scan(
        self, name: str, type: TensorType, names: tuple[str, ...], scanned: Scanned, body: Callable[[Indices], Scalar]
    ) -> Value:
        """Record a scan of the values that `body` gives."""
        buffer = self.new_buffer(name, type)
        self.loops.append(Loop(buffer, names, lambda axes, _: body(axes), scan=scanned))
        return Value.stored(name, type, buffer)

    def new_buffer(self, name: str, type: TensorType, node: str = "") -> Buffer:
        """A buffer for a result of a node, by default of the one that is being lowered."""
        return Buffer(self.fresh(name), type.shape, type.dtype, "temporary", node=node or self.node)

    def fresh(self, name: str) -> str:
        """A name that no other buffer has."""
        name = name.strip("_").replace(".", "_")
        name = f"layer{name}" if name[:1].isdigit() else name  # parameters of a Sequential: 0.weight
        name = f"{name}_data" if name in RESERVED_NAMES or name in _LOOP_NAMES else name
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if not count else self.fresh(f"{name}{count + 1}")
