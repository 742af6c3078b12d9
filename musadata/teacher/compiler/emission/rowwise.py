"""Kernels with inner loops: each point of the axes is worked on by a thread, a warp or a block."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise, takewhile

from musadata.teacher.compiler.emission.cpp import (
    C_TYPES,
    UNARY,
    combined,
    combined_type,
    helper_name,
    helpers,
    identity,
    is_extreme,
    number_text,
    update,
)
from musadata.teacher.compiler.emission.held_rows import HeldRow, held_row, helpers_of
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish, linear_setup
from musadata.teacher.compiler.emission.pointwise import decode_joined, decoded, names_in, threads_for, write_store
from musadata.teacher.compiler.emission.statements import INDEX, Block, decode, is_shared
from musadata.teacher.compiler.ir.index_formulas import ZERO, Index, Operation, Size, Variable, of, product
from musadata.teacher.compiler.ir.scalar import Call, Choose, Literal, Local, Named, Scalar, plain, same
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce, Scan, Stage, Store

WARP = 32
COLLECTIVE = ("sum", "prod", "max", "min", "fast_max", "any", "all")  # reductions that several threads can share


_SHARED_TYPES = ("float32", "float64", "int64", "int32", "bool")


@dataclass(frozen=True)
class Team:
    """The threads that work on one point together.

    Attributes:
        first: the member's first inner position; "" where one thread does all.
        step: how far a member's next inner position is.
        leader: the condition under which a member stores the result of a point.
        collective: prefix of the functions that combine the members' partial results.
        memory: whether those functions need shared memory, and how many elements.
        online: whether a maximum and the sum of exponentials below it are found in one loop.
        row: how the members hold their row in registers, if they do.
    """

    first: str = ""
    step: str = ""
    leader: str = ""
    collective: str = ""
    memory: int = 0
    online: bool = False
    row: HeldRow | None = None


def emit_thread(
    kernel: Kernel, size_names: Sequence[str], points: int, *, stride: bool = False, online: bool = False
) -> EmittedKernel:
    """One thread per point; with `stride`, a bounded grid of threads that stride over the points."""
    block, point = new_block(kernel, size_names), point_name(kernel)
    block.write_thread_loop(point, stride, lambda: work(kernel, block, Team(online=online), point))
    setup = linear_setup(block, kernel.axes, min(128, threads_for(points)), stride=stride)
    schedule = "one thread per output, grid-stride loop" if stride else "one thread per output"
    return finish(kernel, schedule, block, setup, size_names, counts=("total",))


def emit_warp(kernel: Kernel, size_names: Sequence[str], points: int, *, online: bool, held: int = 0) -> EmittedKernel:
    """One warp per point, partial results combined by shuffles; a lane holds `held` elements of a row in registers."""
    block, point = new_block(kernel, size_names), point_name(kernel)
    row = held_row(kernel, "lane", WARP, held) if held else None
    team = Team("lane", str(WARP), "lane == 0", "warp", online=online, row=row)
    warps = 4 if points >= 4 else 1
    if warps == 1:
        block.write(f"const {INDEX} {point} = blockIdx.x;")
    else:
        block.write(f"const {INDEX} {point} = blockIdx.x * (blockDim.x / {WARP}) + threadIdx.x / {WARP};")
    block.write(f"const int lane = threadIdx.x % {WARP};")
    block.write(f"if ({point} >= total) return;  // the whole warp leaves")
    work(kernel, block, team, point)
    blocks = f"(total + {warps} - 1) / {warps}" if warps > 1 else "total"
    setup = linear_setup(block, kernel.axes, warps * WARP, blocks)
    schedule, functions = "one warp per output, shuffle reduction", helpers(kernel, "warp")
    if row is not None:
        schedule, functions = "one warp per row in registers, shuffle reduction", functions + helpers_of(_text(block))
    return finish(kernel, schedule, block, setup, size_names, counts=("total",), helpers=functions)


def emit_block(
    kernel: Kernel, size_names: Sequence[str], threads: int, *, shuffle: bool, online: bool, held: int = 0
) -> EmittedKernel:
    """One block per point, partial results combined in shared memory, or by shuffles and then in shared memory; a
    thread holds `held` elements of a row in registers."""
    row = held_row(kernel, "threadIdx.x", threads, held) if held else None
    block, point = new_block(kernel, size_names), point_name(kernel)
    memory = threads // WARP if shuffle else threads
    team = Team("threadIdx.x", "blockDim.x", "threadIdx.x == 0", "block", memory, online, row)
    declare_partial(block, kernel, f"[{memory}]")
    if kernel.axes:
        block.write(f"const {INDEX} {point} = blockIdx.x;")
    work(kernel, block, team, point)
    setup = (f"const int blocks = {count_text(block, kernel.axes)};", f"const int threads = {threads};")
    schedule = "one block per output, " + ("warp shuffles and shared memory" if shuffle else "shared-memory reduction")
    functions = helpers(kernel, "warp", "shuffle") if shuffle else helpers(kernel, "tree")
    if row is not None:
        schedule, functions = schedule.replace("output", "row in registers"), functions + helpers_of(_text(block))
    limit = threads if row is not None else 0  # else arrays in registers may take more than a large block has
    return finish(kernel, schedule, block, setup, size_names, helpers=functions, bounds=limit)


def _text(block: Block) -> str:
    return "\n".join(block.lines)


def can_share(kernel: Kernel) -> bool:
    """Whether several threads can work on one point."""
    return all(
        (r.kind in COLLECTIVE or r.kind.startswith("arg")) and combined_type(r) in _SHARED_TYPES
        for r in kernel.reductions
    )


def declare_partial(block: Block, kernel: Kernel, size: str) -> None:
    """The shared memory in which threads combine what they have found, for each type."""
    stages = combined(kernel.reductions)
    for dtype in dict.fromkeys(map(combined_type, stages)):
        block.write(f"__shared__ {C_TYPES[dtype]} {_partial(kernel, dtype)}{size};")
    if any(stage.kind.startswith("arg") for stage in stages):
        block.write(f"__shared__ {INDEX} places{size};")


def _partial(kernel: Kernel, dtype: str) -> str:
    first = combined_type(combined(kernel.reductions)[0])
    return "partial" if dtype == first else f"partial_{dtype}"


def new_block(kernel: Kernel, size_names: Sequence[str]) -> Block:
    inner = [axis.name for stage in kernel.stages for axis in stage.axes]
    registers = [stage.local for stage in kernel.reductions]
    return Block([*names_in(kernel, size_names), *inner, *registers, "total", "lane", "member", "k", "step"])


def point_name(kernel: Kernel) -> str:
    """The variable of the flat point: the axis itself where there is only one."""
    if len(kernel.axes) == 1:
        return kernel.axes[0].name
    return "output" if all(not store.axes for store in kernel.stores) else "point"


def work(kernel: Kernel, block: Block, team: Team, point: str) -> None:
    """All stages at one point."""
    if len(kernel.axes) > 1 and not team.first and not is_shared():
        block.printer.flat = (kernel.axes, point)
        decode_joined(kernel, block, point, kernel.axes, decoded(kernel, block))
    elif len(kernel.axes) > 1:
        decode(block, point, kernel.axes, used_axes(kernel))
    fixed = frozenset(kernel.axes)
    known: set[str] = set()
    names = _register_names(kernel, block)
    if team.row is not None:
        team.row.start(block, kernel)
    online = [is_softmax, *([is_moments] if team.row is not None else [])] if team.online else []
    sums = {one: other for one, other in pairwise(kernel.stages) if any(test(one, other) for test in online)}
    after, known_before = dict(pairwise(kernel.stages)), set[Stage]()
    for stage in kernel.stages:
        assert not isinstance(stage, Scan)
        if stage in known_before:
            continue
        if isinstance(stage, Reduce) and is_extreme(stage, after.get(stage)):
            place = after[stage]
            assert isinstance(place, Reduce)
            block.write()
            pair = names[place.local], names[stage.local]
            _reduce_position(block, place, team, pair, fixed, frozenset(known), kernel)
            _store_result(block, stage, team)
            known |= {stage.local, place.local}
            known_before.add(place)
        elif stage in sums:
            below = sums[stage]
            assert isinstance(stage, Reduce) and isinstance(below, Reduce)
            block.write()
            _reduce_online(block, stage, below, team, fixed, frozenset(known), names, kernel)
            known |= {stage.local, below.local}
        elif stage in sums.values():
            continue
        elif isinstance(stage, Reduce):
            block.write()
            together = _together(kernel, stage, [*sums, *sums.values()])
            if stage.kind.startswith("arg"):
                pair = names[stage.local], block.fresh("best")
                _reduce_position(block, stage, team, pair, fixed, frozenset(known), kernel)
            else:
                _reduce(block, together, team, fixed, frozenset(known), names, kernel)
            known |= {one.local for one in together}
            known_before.update(together)
        elif stage.axes:
            block.write()
            block.hoist(stage.value, fixed, frozenset(known))
            if team.row is not None and team.row.holds(stage):
                team.row.write_stores(block, stage)
            else:
                with _loops(block, stage.axes, team):
                    write_store(block, stage)
        else:
            assert isinstance(stage, Store)
            behind = list(takewhile(_is_single, kernel.stages[kernel.stages.index(stage) + 1 :]))
            stores = [stage, *behind]
            later = kernel.stages[kernel.stages.index(stores[-1]) + 1 :]
            _store_once(block, stores, team, {id(node) for one in later for node in one.value.walk()})
            known_before.update(behind)


def _is_single(stage: Stage) -> bool:
    return isinstance(stage, Store) and not stage.axes


def _together(kernel: Kernel, first: Reduce, paired: Sequence[Stage]) -> list[Reduce]:
    """A reduction and those right after it that go along the same axes and do not need its result: they are found in
    one loop."""
    found = [first]
    for stage in kernel.stages[kernel.stages.index(first) + 1 :]:
        if not isinstance(stage, Reduce) or stage in paired or stage.kind not in COLLECTIVE or stage.axes != first.axes:
            break
        if not stage.axes or stage.contraction or stage.value.locals & {one.local for one in found}:
            break
        found.append(stage)
    while len(found) > 1 and is_extreme(found[-1], _next(kernel, found[-1])):
        found.pop()
    return found


def _next(kernel: Kernel, stage: Stage) -> Stage | None:
    return next((other for one, other in pairwise(kernel.stages) if one is stage), None)


def _register_names(kernel: Kernel, block: Block) -> dict[str, str]:
    """Registers are named after the value that they hold, unless a buffer or a function has that name."""
    buffers = {b.name for b in (*kernel.inputs, *kernel.outputs)}
    names = {r.local: f"{r.local}_result" if r.local in buffers else r.local for r in kernel.reductions}
    names = {local: f"{name}_value" if name in _FUNCTION_NAMES else name for local, name in names.items()}
    block.printer.rename = {**(block.printer.rename or {}), **names}
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
    elif not team.first:
        with ExitStack() as loops:
            for axis in axes:
                limit = block.index(axis.extent)
                head = f"for ({INDEX} {axis.name} = 0; {axis.name} < {limit}; ++{axis.name})"
                loops.enter_context(block.scope(head))
            yield
    else:
        flat = axes[0].name if len(axes) == 1 else block.fresh("inner")
        limit = count_text(block, axes)
        with block.scope(f"for ({INDEX} {flat} = {team.first}; {flat} < {limit}; {flat} += {team.step})"):
            if len(axes) > 1:
                decode(block, flat, axes, frozenset(axes))
            yield


@contextmanager
def _elements(block: Block, stages: Sequence[Reduce], axes: tuple[Variable, ...], team: Team) -> Iterator[None]:
    """The inner loops over what reductions combine: in registers, or from memory."""
    if team.row is None:
        with _loops(block, axes, team):
            yield
    else:
        with team.row.pieces(block, *stages) as start, team.row.elements(block, stages, start):
            yield


def _bounded(block: Block, axes: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """The axes, with extents in variables that are quotients, or formulas of the position (an adaptive window)."""
    bounded = []
    for axis in axes:
        if axis.extent.variables or isinstance(axis.extent.atom, Operation):
            known = block.printer.positions.get(axis.extent)
            axis = Variable(axis.name, of(Size(known or block.name_formula(axis.extent, f"{axis.name}_count"))))
        bounded.append(axis)
    return tuple(bounded)


def _reduce(
    block: Block,
    stages: Sequence[Reduce],
    team: Team,
    fixed: frozenset[Variable],
    known: frozenset[str],
    names: dict[str, str],
    kernel: Kernel,
) -> None:
    """Reductions along the same axes in one loop."""
    for stage in stages:
        block.hoist(stage.value, fixed, known)
    axes = _bounded(block, stages[0].axes)
    if not axes and stages[0].kind in COLLECTIVE:  # one element: the members of a team must not each count it
        (stage,) = stages
        block.write(f"const {C_TYPES[stage.dtype]} {names[stage.local]} = {block.value(stage.value)};")
        _store_result(block, stage, team)
        return
    for stage in stages:
        block.write(f"{C_TYPES[stage.dtype]} {names[stage.local]} = {identity(stage.kind, stage.dtype)};")
    with _elements(block, stages, axes, team):
        block.name_shared([stage.value for stage in stages])
        for stage in stages:
            with block.element(stage.value, identity(stage.kind, stage.dtype)) as text:
                if stage.kind in ("max", "min"):
                    block.functions[f"{stage.kind}imum", stage.dtype] = None
                block.write(update(stage.kind, stage.dtype, names[stage.local], text))
    for stage in stages:
        name = names[stage.local]
        if team.collective:
            memory = f", {_partial(kernel, stage.dtype)}" if team.memory else ""
            block.write(f"{name} = {helper_name(team.collective, stage.kind)}({name}{memory});")
        _store_result(block, stage, team)


def is_softmax(one: Stage, other: Stage) -> bool:
    """Whether a stage finds the maximum of some values, and the next sums up their exponentials below it."""
    if not (isinstance(one, Reduce) and isinstance(other, Reduce)):
        return False
    if (one.kind, other.kind, one.axes) != ("fast_max", "sum", other.axes) or not one.axes:
        return False
    match plain(other.value):
        case Call(operation="exp", arguments=(exponent,)):
            match plain(exponent):
                case Call(operation="sub", arguments=(value, largest)):
                    return _is_local(_unshifted(largest), one.local) and same(value, one.value)
    return False


def _unshifted(largest: Scalar) -> Scalar:
    """The maximum that a logsumexp takes away, unless it is infinite."""
    match plain(largest):
        case Choose(condition=Call(operation="isinf", arguments=(tested,)), yes=Literal(value=0), no=kept):
            return kept if same(tested, kept) else largest
    return largest


def _is_shifted(below: Reduce) -> bool:
    return any(isinstance(node, Call) and node.operation == "isinf" for node in below.value.walk())


def _is_local(value: Scalar, name: str) -> bool:
    value = plain(value)
    return isinstance(value, Local) and value.name == name


def is_moments(one: Stage, other: Stage) -> bool:
    """Whether a stage sums up some values, and the next their squared distances from the mean."""
    if not (isinstance(one, Reduce) and isinstance(other, Reduce)):
        return False
    if (one.kind, other.kind, one.axes) != ("sum", "sum", other.axes) or not one.axes:
        return False
    match plain(other.value):
        case Call(operation="mul", arguments=(distance, again)) if same(distance, again):
            match plain(distance):
                case Call(operation="sub", arguments=(value, mean)):
                    return same(value, one.value) and _is_mean(mean, one.local)
    return False


def _is_mean(value: Scalar, total: str) -> bool:
    match plain(value):
        case Call(operation="div", arguments=(sum_, count)):
            return _is_local(sum_, total) and not count.variables and not count.locals
    return False


def _reduce_online(
    block: Block,
    largest: Reduce,
    below: Reduce,
    team: Team,
    fixed: frozenset[Variable],
    known: frozenset[str],
    names: dict[str, str],
    kernel: Kernel,
) -> None:
    """Maximum and sum of exponentials in one loop: the sum is scaled whenever the maximum grows. Of rows in registers,
    the sum and the squares around the mean as well."""
    if largest.kind == "sum":
        _reduce_moments(block, largest, below, team, fixed, known, names)
        return
    kind, top, total = C_TYPES[largest.dtype], names[largest.local], names[below.local]
    exp = "expf" if largest.dtype == "float32" else "exp"
    block.hoist(largest.value, fixed, known)
    block.write(f"{kind} {top} = -INFINITY;")
    block.write(f"{kind} {total} = {identity('sum', largest.dtype)};")
    unshifted = "isinf({})" if _is_shifted(below) else "{} == -INFINITY"
    if team.row is not None:
        team.row.write_exponentials(block, largest, top, total, unshifted)
    else:
        one = number_text(1, largest.dtype)
        with _loops(block, _bounded(block, largest.axes), team):
            current = block.fresh("current")
            block.write(f"const {kind} {current} = {block.value(largest.value)};")
            with block.scope(f"if ({current} > {top})"):
                block.write(f"{total} = {total} * {exp}({top} - {current}) + {one};")
                block.write(f"{top} = {current};")
            with block.scope("else"):
                block.write(f"{total} += {current} == {top} ? {one} : {exp}({current} - {top});")
    if team.collective:
        memory = f", {_partial(kernel, largest.dtype)}" if team.memory else ""
        own = block.fresh("own_max")
        block.write(f"const {kind} {own} = {top};")
        block.write(f"{top} = {helper_name(team.collective, 'fast_max')}({own}{memory});")
        scale = f"{exp}({own} - {top})"
        if _is_shifted(below):
            scale = f"({own} == {top} ? {number_text(1, largest.dtype)} : {scale})"
            if team.row is not None:
                subtracted = block.fresh("subtracted")
                block.write(f"const {kind} {subtracted} = isinf({top}) ? {number_text(0, largest.dtype)} : {top};")
                scale = f"{exp}((isinf({own}) ? {number_text(0, largest.dtype)} : {own}) - {subtracted})"
        block.write(f"{total} = {helper_name(team.collective, 'sum')}({total} * {scale}{memory});")
    if _is_shifted(below) and team.row is None:
        block.write(f"if (isinf({top})) {total} *= {exp}({top});  // nothing is subtracted from infinities")
    for stage in (largest, below):
        _store_result(block, stage, team)


def _reduce_moments(
    block: Block,
    sum_: Reduce,
    squares: Reduce,
    team: Team,
    fixed: frozenset[Variable],
    known: frozenset[str],
    names: dict[str, str],
) -> None:
    """A sum and the squares around the mean in one pass: what each thread found is moved to the mean of all."""
    assert team.row is not None
    block.hoist(sum_.value, fixed, known)
    total, spread = names[sum_.local], names[squares.local]
    own = [block.fresh(name) for name in ("own_count", "own_mean", "own_squares")]
    team.row.write_moments(block, sum_, *own)
    count, mean, found = own
    memory = ", partial" if team.memory else ""
    function = helper_name(team.collective, "sum")
    block.write(f"const float {total} = {function}({count} * {mean}{memory});")
    length = block.printer.index(product(axis.extent for axis in sum_.axes), UNARY)
    apart = block.fresh("apart")
    block.write(f"const float {apart} = {mean} - {total} / {length};")
    block.write(f"const float {spread} = {function}({found} + {count} * {apart} * {apart}{memory});")
    for stage in (sum_, squares):
        _store_result(block, stage, team)


def _store_result(block: Block, stage: Reduce, team: Team) -> None:
    if stage.buffer is not None:
        _store_once(block, [Store(stage.buffer, (), stage.index, Local(stage.dtype, stage.local))], team)


def _reduce_position(
    block: Block,
    stage: Reduce,
    team: Team,
    names: tuple[str, str],
    fixed: frozenset[Variable],
    known: frozenset[str],
    kernel: Kernel,
) -> None:
    """The first position of the largest or smallest element, and the element, under two names; NaN counts as both."""
    (name, best), kind, dtype = names, C_TYPES[stage.value.dtype], stage.value.dtype
    sign = ">" if stage.kind == "argmax" else "<"
    block.hoist(stage.value, fixed, known)
    block.write(f"{kind} {best} = {identity(stage.kind[3:], dtype)};")
    block.write(f"{INDEX} {name} = -1;")
    with _elements(block, [stage], _bounded(block, stage.axes), team), block.element(stage.value, "") as text:
        current = block.fresh("current")
        block.write(f"const {kind} {current} = {text};")
        better = f"{current} {sign} {best}"
        if dtype.startswith("float"):
            better += f" || (isnan({current}) && !isnan({best}))"
        with block.scope(f"if ({name} < 0 || {better})"):
            block.write(f"{best} = {current};")
            flat: Index = ZERO
            for axis in stage.axes:
                flat = flat * axis.extent + of(axis)
            block.write(f"{name} = {block.index(flat)};")
    if team.collective:
        memory = f", {_partial(kernel, dtype)}, places" if team.memory else ""
        block.write(f"{helper_name(team.collective, stage.kind)}({best}, {name}{memory});")
    _store_result(block, stage, team)


def _store_once(block: Block, stores: Sequence[Stage], team: Team, later: Collection[int] = ()) -> None:
    """Stores of the leader. What is read `later` is computed by all members, once."""
    for store in stores:
        if isinstance(store.value, Named) and id(store.value) in later:
            block.held(store.value)
    with block.scope(f"if ({team.leader})") if team.leader else nullcontext():
        for store in stores:
            assert isinstance(store, Store)
            write_store(block, store)
