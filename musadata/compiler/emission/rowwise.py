"""Kernels with inner loops: each point of the axes is worked on by a thread, a warp or a block."""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise, takewhile

from musadata.compiler.emission.block import INDEX, Block, decode
from musadata.compiler.emission.cpp import (
    C_TYPES,
    combined,
    combined_type,
    helper_name,
    helpers,
    identity,
    number,
    update,
)
from musadata.compiler.emission.held_rows import HeldRow, OwnRow, held_row, own_row
from musadata.compiler.emission.launch import EmittedKernel, constant, count_of, finish, linear_setup
from musadata.compiler.emission.pointwise import decoded, write_store
from musadata.compiler.ir.code import (
    BLOCK_DIM_X,
    BLOCK_X,
    THREAD_X,
    UNARY,
    Apply,
    Assign,
    Binary,
    Choice,
    Expression,
    Group,
    Guard,
    Name,
    Run,
    Some,
    Unary,
    apply,
)
from musadata.compiler.ir.index_formulas import ZERO, Index, Operation, Size, Variable, of, product
from musadata.compiler.ir.scalar import Local, Named, Scalar
from musadata.compiler.ir.schedule import Bind, Combine, Schedule
from musadata.compiler.ir.schedule import Stage as Staged
from musadata.compiler.lowering.fusion import Kernel, Reduce, Scan, Stage, Store
from musadata.compiler.lowering.paired_reductions import is_extreme, is_moments, is_shifted, is_softmax

WARP = 32
COLLECTIVE = ("sum", "prod", "max", "min", "fast_max", "any", "all")  # reductions that several threads can share


_SHARED_TYPES = ("float32", "float64", "int64", "int32", "bool")


@dataclass(frozen=True)
class Team:
    """The threads that work on one point together.

    Attributes:
        first: the member's first inner position; none where one thread does all.
        step: how far a member's next inner position is.
        leader: the condition under which a member stores the result of a point.
        collective: prefix of the functions that combine the members' partial results.
        memory: whether those functions need shared memory, and how many elements.
        online: whether a maximum and the sum of exponentials below it are found in one loop.
        row: how the members hold their row in registers, if they do.
    """

    first: Expression | None = None
    step: Some = ""
    leader: Expression | None = None
    collective: str = ""
    memory: int = 0
    online: bool = False
    row: HeldRow | OwnRow | None = None


def emit_thread(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One thread per point, or a bounded grid of threads that stride over the points."""
    block, point, threads = new_block(kernel, schedule), point_name(kernel), schedule.get(Bind).amount
    team = Team(online=schedule.online, row=own_row(kernel) if schedule.find(Staged) else None)
    block.point_loop(point, schedule.strides, lambda: work(kernel, block, team, point))
    setup = linear_setup(block, kernel.axes, threads, stride=schedule.strides)
    return finish(kernel, schedule, block, setup, threads=(threads,), counts=("total",))


def emit_warp(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One warp per point, partial results combined by shuffles; lanes may hold elements of a row in registers."""
    block, point, warps = new_block(kernel, schedule), point_name(kernel), schedule.get(Bind).amount
    held = schedule.find(Staged)
    row = held_row(kernel, Name("lane"), WARP, held.amount) if held else None
    lane, total = Name("lane"), Name("total")
    team = Team(lane, WARP, lane.equals(0), "warp", online=schedule.online, row=row)
    block.declare(point, BLOCK_X if warps == 1 else BLOCK_X * (BLOCK_DIM_X / WARP) + THREAD_X / WARP)
    block.declare("lane", THREAD_X % WARP)
    block.leave(Name(point) >= total, note="the whole warp leaves")
    work(kernel, block, team, point)
    blocks = (total + warps - 1) / warps if warps > 1 else total
    setup = linear_setup(block, kernel.axes, warps * WARP, blocks)
    functions = helpers(kernel, "warp") + (row.helpers if row else [])
    return finish(kernel, schedule, block, setup, threads=(warps * WARP,), counts=("total",), helpers=functions)


def emit_block(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One block per point, partial results combined in shared memory, or by shuffles and then in shared memory; threads
    may hold elements of a row in registers."""
    threads, held, shuffle = schedule.get(Bind).amount, schedule.find(Staged), schedule.get(Combine).by != "tree"
    row = held_row(kernel, THREAD_X, threads, held.amount) if held else None
    block, point = new_block(kernel, schedule), point_name(kernel)
    memory = threads // WARP if shuffle else threads
    team = Team(THREAD_X, BLOCK_DIM_X, THREAD_X.equals(0), "block", memory, schedule.online, row)
    declare_partial(block, kernel, memory)
    if kernel.axes:
        block.declare(point, BLOCK_X)
    work(kernel, block, team, point)
    setup = (constant("blocks", count_of(block, kernel.axes)), constant("threads", threads))
    functions = helpers(kernel, "warp", "shuffle") if shuffle else helpers(kernel, "tree")
    functions += row.helpers if row else []
    limit = threads if row is not None else 0  # else arrays in registers may take more than a large block has
    return finish(kernel, schedule, block, setup, threads=(threads,), helpers=functions, bounds=limit)


def can_share(kernel: Kernel) -> bool:
    """Whether several threads can work on one point."""
    return all(
        (r.kind in COLLECTIVE or r.kind.startswith("arg")) and combined_type(r) in _SHARED_TYPES
        for r in kernel.reductions
    )


def declare_partial(block: Block, kernel: Kernel, *size: int) -> None:
    """The shared memory in which threads combine what they have found, for each type."""
    stages = combined(kernel.reductions)
    for dtype in dict.fromkeys(map(combined_type, stages)):
        block.shared(C_TYPES[dtype], _partial(kernel, dtype), *size)
    if any(stage.kind.startswith("arg") for stage in stages):
        block.shared(INDEX, "places", *size)


def _partial(kernel: Kernel, dtype: str) -> str:
    first = combined_type(combined(kernel.reductions)[0])
    return "partial" if dtype == first else f"partial_{dtype}"


def new_block(kernel: Kernel, schedule: Schedule) -> Block:
    inner = [axis.name for stage in kernel.stages for axis in stage.axes]
    registers = [stage.local for stage in kernel.reductions]
    return Block.of(kernel, schedule, [*inner, *registers, "total", "lane", "member", "k", "step"])


def point_name(kernel: Kernel) -> str:
    """The variable of the flat point: the axis itself where there is only one."""
    if len(kernel.axes) == 1:
        return kernel.axes[0].name
    return "output" if all(not store.axes for store in kernel.stores) else "point"


def work(kernel: Kernel, block: Block, team: Team, point: str) -> None:
    """Write all stages at one point."""
    if len(kernel.axes) > 1 and team.first is None and not block.alike:
        block.printer.flat = (kernel.axes, Name(point))
        decode(block, point, kernel.axes, decoded(kernel, block))
    elif len(kernel.axes) > 1:
        decode(block, point, kernel.axes, used_axes(kernel))
    _Work(kernel, block, team).write()


class _Work:
    """The stages under construction."""

    def __init__(self, kernel: Kernel, block: Block, team: Team):
        self.kernel, self.block, self.team, self.stages = kernel, block, team, kernel.stages
        self.fixed, self.known = frozenset(kernel.axes), frozenset[str]()  # variables, and registers that hold results
        self.names = _register_names(kernel, block)
        tests = [is_softmax, *([is_moments] if team.row is not None else [])] if team.online else []
        self.online = {one: other for one, other in pairwise(self.stages) if any(test(one, other) for test in tests)}

    def write(self) -> None:
        """Write all stages in order, those that one loop finds together at the first of them."""
        block, row, done = self.block, self.team.row, set[Stage]()
        if row is not None:
            row.start(block, self.kernel)
        for place, stage in enumerate(self.stages):
            assert not isinstance(stage, Scan)
            if stage in done:
                continue
            if isinstance(stage, Reduce):
                block.blank()
                found = self._reduce(stage, self.stages[place + 1 :])
                self.known |= {one.local for one in found}
                done.update(found)
            elif stage.axes:
                block.blank()
                block.hoist(stage.value, self.fixed, self.known)
                if row is not None and row.holds(stage):
                    row.write_stores(block, stage)
                else:
                    with _loops(block, stage.axes, self.team):
                        write_store(block, stage)
            else:
                stores = [stage, *takewhile(_is_single, self.stages[place + 1 :])]
                later = self.stages[place + len(stores) :]
                self._store_once(stores, {node for one in later for node in one.value.walk()})
                done.update(stores)

    def _reduce(self, stage: Reduce, rest: Sequence[Stage]) -> list[Reduce]:
        """A reduction, and those after it that are found with it; all that are done then."""
        following = rest[0] if rest else None
        if is_extreme(stage, following):
            assert isinstance(following, Reduce)
            self._reduce_position(following, self.names[following.local], self.names[stage.local])
            self._store_result(stage)
            return [stage, following]
        if stage in self.online:
            below = self.online[stage]
            assert isinstance(below, Reduce)
            (self._reduce_moments if stage.kind == "sum" else self._reduce_online)(stage, below)
            return [stage, below]
        if stage.kind.startswith("arg"):
            self._reduce_position(stage, self.names[stage.local], self.block.fresh("best"))
            return [stage]
        found = self._together(stage, rest)
        self._reduce_together(found)
        return found

    def _together(self, first: Reduce, rest: Sequence[Stage]) -> list[Reduce]:
        """A reduction and those right after it that go along the same axes and do not need its result: they are found
        in one loop."""
        found, paired = [first], (*self.online, *self.online.values())
        for stage in rest:
            if not isinstance(stage, Reduce) or stage in paired or stage.kind not in COLLECTIVE:
                break
            if stage.axes != first.axes or not stage.axes or stage.contraction:
                break
            if stage.value.locals & {one.local for one in found}:
                break
            found.append(stage)
        while len(found) > 1 and is_extreme(found[-1], next(iter(rest[len(found) - 1 :]), None)):
            found.pop()
        return found

    @contextmanager
    def _elements(self, stages: Sequence[Reduce], axes: tuple[Variable, ...]) -> Iterator[None]:
        """The inner loops over what reductions combine: in registers, or from memory."""
        row = self.team.row
        if row is None:
            with _loops(self.block, axes, self.team):
                yield
        else:
            with row.pieces(self.block, *stages) as start, row.elements(self.block, stages, start):
                yield

    def _combined(self, kind: str, dtype: str, *found: Some) -> Apply:
        """The call that combines what the members of a team have found."""
        shared = [_partial(self.kernel, dtype), *(["places"] if kind.startswith("arg") else [])]
        return apply(helper_name(self.team.collective, kind), *found, *(shared if self.team.memory else []))

    def _reduce_together(self, stages: Sequence[Reduce]) -> None:
        """Reductions along the same axes in one loop."""
        block = self.block
        for stage in stages:
            block.hoist(stage.value, self.fixed, self.known)
        if not stages[0].axes and stages[0].kind in COLLECTIVE:  # one element: a team's members must not each count it
            (stage,) = stages
            block.declare(self.names[stage.local], block.value(stage.value), C_TYPES[stage.dtype])
            self._store_result(stage)
            return
        identities = {stage: identity(stage.kind, stage.dtype) for stage in stages}
        axes = _bounded(block, stages[0].axes)
        for stage in stages:
            block.variable(C_TYPES[stage.dtype], self.names[stage.local], identities[stage])
        with self._elements(stages, axes):
            block.name_shared([stage.value for stage in stages])
            for stage in stages:
                with block.element(stage.value, identities[stage]) as element:
                    if stage.kind in ("max", "min"):
                        block.functions[f"{stage.kind}imum", stage.dtype] = None
                    block.add(update(stage.kind, stage.dtype, Name(self.names[stage.local]), element))
        for stage in stages:
            if self.team.collective:
                name = self.names[stage.local]
                block.assign(name, self._combined(stage.kind, stage.dtype, name))
            self._store_result(stage)

    def _reduce_online(self, largest: Reduce, below: Reduce) -> None:
        """Maximum and sum of exponentials in one loop: the sum is scaled whenever the maximum grows."""
        block, row, dtype = self.block, self.team.row, largest.dtype
        kind, top, total = C_TYPES[dtype], Name(self.names[largest.local]), Name(self.names[below.local])
        zero, one, least = number(0, dtype), number(1, dtype), number(-math.inf, dtype)

        def exp(value: Expression) -> Expression:
            return apply("expf" if dtype == "float32" else "exp", value)

        block.hoist(largest.value, self.fixed, self.known)
        block.variable(kind, top.name, least)
        block.variable(kind, total.name, identity("sum", dtype))
        if isinstance(row, HeldRow):
            row.write_exponentials(block, largest, top, total, is_shifted(below))
        else:
            with _loops(block, _bounded(block, largest.axes), self.team):
                current = Name(block.fresh("current"))
                block.declare(current.name, block.value(largest.value), kind)
                with block.when(current > top):
                    block.assign(total, total * exp(top - current) + one)
                    block.assign(top, current)
                with block.otherwise():
                    block.assign(total, Choice(current.equals(top), one, exp(current - top)), "+=")
        if self.team.collective:
            own = Name(block.fresh("own_max"))
            block.declare(own.name, top, kind)
            block.assign(top, self._combined("fast_max", dtype, own))
            scale = exp(own - top)
            if is_shifted(below) and row is None:
                scale = Choice(own.equals(top), one, scale)
            elif is_shifted(below):
                subtracted = block.fresh("subtracted")
                block.declare(subtracted, Choice(apply("isinf", top), zero, top), kind)
                scale = exp(Choice(apply("isinf", own), zero, own) - subtracted)
            block.assign(total, self._combined("sum", dtype, total * scale))
        if is_shifted(below) and row is None:
            scaled = Assign(total, "*=", exp(top))
            note = "nothing is subtracted from infinities"
            block.add(Guard(apply("isinf", top), (scaled,), short=True, note=note))
        for stage in (largest, below):
            self._store_result(stage)

    def _reduce_moments(self, sum_: Reduce, squares: Reduce) -> None:
        """A sum and the squares around the mean in one pass: what each thread found is moved to the mean of all."""
        block = self.block
        assert isinstance(self.team.row, HeldRow)
        block.hoist(sum_.value, self.fixed, self.known)
        total, spread = self.names[sum_.local], self.names[squares.local]
        count, mean, found = (Name(block.fresh(name)) for name in ("own_count", "own_mean", "own_squares"))
        self.team.row.write_moments(block, sum_, count, mean, found)
        block.declare(total, self._combined("sum", sum_.dtype, count * mean), "float")
        length = block.printer.index(product(axis.extent for axis in sum_.axes), UNARY)
        apart = Name(block.fresh("apart"))
        block.declare(apart.name, mean - Name(total) / length, "float")
        moved = found + count * apart * apart
        block.declare(spread, self._combined("sum", sum_.dtype, moved), "float")
        for stage in (sum_, squares):
            self._store_result(stage)

    def _reduce_position(self, stage: Reduce, name: str, best: str) -> None:
        """The first position of the largest or smallest element, and the element, under two names; NaN counts as
        both."""
        block, dtype = self.block, stage.value.dtype
        kind = C_TYPES[dtype]
        block.hoist(stage.value, self.fixed, self.known)
        block.variable(kind, best, identity(stage.kind[3:], dtype))
        block.variable(INDEX, name, -1)
        with self._elements([stage], _bounded(block, stage.axes)), block.element(stage.value, None) as element:
            current = Name(block.fresh("current"))
            block.declare(current.name, element, kind)
            better = Binary(Name(name) < 0, "||", Binary(current, ">" if stage.kind == "argmax" else "<", Name(best)))
            if dtype.startswith("float"):
                is_first = Binary(apply("isnan", current), "&&", Unary("!", apply("isnan", best)))
                better = Binary(better, "||", Group(is_first))
            with block.when(better):
                block.assign(best, current)
                flat: Index = ZERO
                for axis in stage.axes:
                    flat = flat * axis.extent + of(axis)
                block.assign(name, block.index(flat))
        if self.team.collective:
            block.add(Run(self._combined(stage.kind, dtype, best, name)))
        self._store_result(stage)

    def _store_result(self, stage: Reduce) -> None:
        if stage.buffer is not None:
            self._store_once([Store(stage.buffer, (), stage.index, Local(stage.dtype, stage.local))])

    def _store_once(self, stores: Sequence[Stage], later: Collection[Scalar] = ()) -> None:
        """Stores of the leader. What is read `later` is computed by all members, once."""
        for store in stores:
            if isinstance(store.value, Named) and store.value in later:
                self.block.held(store.value)
        with self.block.when(self.team.leader) if self.team.leader else nullcontext():
            for store in stores:
                assert isinstance(store, Store)
                write_store(self.block, store)


def _is_single(stage: Stage) -> bool:
    return isinstance(stage, Store) and not stage.axes


def _register_names(kernel: Kernel, block: Block) -> dict[str, str]:
    """Registers are named after the value that they hold, unless a buffer or a function has that name."""
    buffers = {b.name for b in (*kernel.inputs, *kernel.outputs)}
    names = {r.local: f"{r.local}_result" if r.local in buffers else r.local for r in kernel.reductions}
    names = {local: f"{name}_value" if name in _FUNCTION_NAMES else name for local, name in names.items()}
    block.printer.rename = {**(block.printer.rename or {}), **{local: Name(name) for local, name in names.items()}}
    return names


_FUNCTION_NAMES = frozenset({"sum", "max", "min", "prod", "exp", "sqrt"})


def used_axes(kernel: Kernel) -> frozenset[Variable]:
    found = [stage.value.variables for stage in kernel.stages]
    found += [index.variables for stage in kernel.stages if stage.buffer is not None for index in stage.index]
    found += [axis.extent.variables for stage in kernel.stages for axis in stage.axes]
    return frozenset[Variable]().union(*found)


@contextmanager
def _loops(block: Block, axes: tuple[Variable, ...], team: Team) -> Iterator[None]:
    """The inner loops: nested for one thread; flattened and distributed over the threads of a team."""
    if not axes:
        yield
    elif team.first is None:
        with ExitStack() as loops:
            for axis in axes:
                loops.enter_context(block.loop(axis.name, 0, block.index(axis.extent)))
            yield
    else:
        flat = axes[0].name if len(axes) == 1 else block.fresh("inner")
        with block.loop(flat, team.first, count_of(block, axes), team.step):
            if len(axes) > 1:
                decode(block, flat, axes, frozenset(axes))
            yield


def _bounded(block: Block, axes: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """The axes, with extents in variables that are quotients, or formulas of the position (an adaptive window)."""
    bounded = []
    for axis in axes:
        if axis.extent.variables or isinstance(axis.extent.atom, Operation):
            known = block.printer.positions.get(axis.extent)
            known = known or block.name_formula(axis.extent, f"{axis.name}_count")
            assert isinstance(known, Name)
            axis = Variable(axis.name, of(Size(known.name)))
        bounded.append(axis)
    return tuple(bounded)
