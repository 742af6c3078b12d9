"""What a kernel costs on a device by a schedule: its work at given sizes against what the device does in a second.

Six limits are worked out, each in seconds, and a kernel is taken to need as long as the largest:

- memory: bytes that have to come from or go to memory, at its bandwidth. What is read again does not count where it
  still is in L2; what blocks of tiles read that run one after the other does, where the operand is larger.
- L2: sectors of 32 bytes that multiprocessors fetch, at its bandwidth. What a block reads again, as windows that
  overlap, it finds in L1; small tensors, which all blocks read, stay there.
- L1: cache lines of 128 bytes that the requests of warps touch, one in a cycle of each multiprocessor.
- arithmetic: instructions, those of indices too (`instruction_counts`), one of each lane in a cycle; of tiles FLOPs at
  the rate of the unit, with those beyond the operands, and what they read from shared memory, 32 words in a cycle; of
  attention both.
- atomics: sectors of the sums that they add to in L2, and sums of one place, one in a cycle.
- latency: blocks that do not run at once wait for others; in a block, loads that wait for each other take a latency
  each, that of L1 for the share that it holds; barriers some cycles.

Registers are those that hold sums and rows; how many there are beside them is the compiler's choice.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from musadata.compiler.emission.attention_work import AttentionWork
from musadata.compiler.emission.instruction_counts import instructions
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.tiled import partition
from musadata.compiler.ir.code import Declare, Guard, Loop, of_kind, settle
from musadata.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Opaque,
    Operation,
    Variable,
    as_index,
    divide,
    of,
    without_opaque,
)
from musadata.compiler.ir.program import Indices
from musadata.compiler.ir.scalar import Added, Buffer, Choose, Compare, Load, Scalar
from musadata.compiler.ir.schedule import Bind, Combine, Stage, TensorCore, Tile, Unroll, Vectorise
from musadata.compiler.lowering.fusion import Kernel, Reduce, Scan, Store
from musadata.compiler.lowering.layout import flatten
from musadata.compiler.lowering.shared_axes import dealt
from musadata.tracing.roofline import Device, Unit, itemsize

WARP, _SECTOR, _LINE = 32, 32, 128
_UNROLLED = 4  # loads of a simple loop that nvcc has under way at once; one where it tests before it loads
_BARRIER, _SHUFFLE = 40, 25  # cycles
_NEAR = 20e-9  # seconds of a load from L1
_FROM_CACHE = 150e-9  # seconds of a load from L2
_HELD_NEAR = 64 << 10  # bytes of a tensor that stays in L1, a quarter of it
_KEPT = 0.5  # of L2, in which what is read again soon still is
_LANES = 128  # of a multiprocessor, that issue one instruction in a cycle
_TYPES = {"float": 4, "double": 8, "half": 2, "__half": 2, "__nv_bfloat16": 2, "int": 4, "float4": 16}


@dataclass(frozen=True)
class Cost:
    """A kernel by one schedule, at one set of sizes. Bytes and counts are those of one launch.

    Attributes:
        emitted: the kernel.
        device: what it runs on.
        blocks: how many there are.
        shared: bytes of shared memory of a block.
        held: registers of a thread that hold sums or a row; 0 where there are few.
        rounds: loads of a thread that wait for each other.
        lines: cache lines that one load of a warp touches, the worst of all, and what it is from.
        moved: bytes from and to memory.
        fetched: bytes that multiprocessors ask L2 for.
        limits: seconds, by what limits.
    """

    emitted: EmittedKernel
    device: Device
    blocks: int
    shared: int
    held: int
    rounds: int
    lines: tuple[int, Buffer | None]
    moved: int
    fetched: int
    limits: Mapping[str, float]
    flops: int = 0  # of a product, with those of tiles beyond its sides
    unit: Unit = Unit.FP32

    @property
    def threads(self) -> int:
        """Of a block."""
        return math.prod(self.emitted.threads)

    @property
    def at_once(self) -> int:
        """Blocks that the device runs at once."""
        return _at_once(self.device, self.threads, self.shared, self.held)

    @property
    def seconds(self) -> float:
        return max(self.limits.values())

    @property
    def bound(self) -> str:
        return max(self.limits, key=lambda name: self.limits[name])

    @property
    def rank(self) -> float:
        """Seconds, and of schedules that take as long, a little for how near their other limits are."""
        return self.seconds + 0.02 * sum(self.limits.values())


def _at_once(device: Device, threads: int, shared: int, held: int) -> int:
    fitting = [device.blocks, device.threads // threads, device.registers // (threads * max(32, held + 32))]
    fitting += [device.shared // (shared + 1024)] if shared else []
    return device.multiprocessors * max(1, min(fitting))


def cost_of(emitted: EmittedKernel, sizes: Mapping[str, int], device: Device) -> Cost | None:
    """The cost of a kernel; None where its schedule has no model: triangles."""
    work = _Work(emitted, dict(sizes), device)
    if emitted.kernel.attends:
        return work.of_attention()
    cost = work.of_tiles() if emitted.schedule.find(Tile) else work.of_points()
    if cost is None:
        return None
    fetched = max(cost.fetched, cost.moved)  # all that comes from memory passes through L2
    limits = {**cost.limits, "L2": fetched / device.cache_bytes_per_second, "atomics": work.adding}
    return replace(cost, fetched=fetched, limits=limits)


@dataclass(frozen=True)
class _Work:
    emitted: EmittedKernel
    sizes: dict[str, int]
    device: Device

    @property
    def kernel(self) -> Kernel:
        return self.emitted.kernel

    def extent(self, axes: Sequence[Variable]) -> int:
        return math.prod(axis.extent.evaluate(self.sizes) for axis in axes)

    @cached_property
    def points(self) -> int:
        return self.extent(self.kernel.axes)

    @cached_property
    def threads(self) -> int:
        return math.prod(self.emitted.threads)

    @cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block, as far as they follow from the code."""
        asked = settle(self.emitted.host.setup, {**_TYPES, **self.sizes}).get("shared_bytes", (0,))[0]
        arrays = [one for one in of_kind(self.emitted.function.body, Declare) if one.prefix.startswith("__shared__")]
        sides = [[side for side in one.sizes if isinstance(side, int)] for one in arrays]
        known = zip(arrays, sides, strict=True)
        return asked + sum(
            math.prod(some) * _TYPES.get(one.kind, 4) for one, some in known if len(some) == len(one.sizes)
        )

    def bytes_of(self, buffers: Sequence[Buffer]) -> int:
        return sum(math.prod(s.evaluate(self.sizes) for s in b.shape) * itemsize(b.dtype) for b in buffers)

    @cached_property
    def least(self) -> int:
        """Bytes of all that is read and written, each once."""
        kernel = self.kernel
        loads = [load for stage in kernel.stages for load in _loads(stage) if load.buffer not in kernel.outputs]
        return bytes_read(loads, self.sizes) + self.bytes_of(kernel.outputs)

    @cached_property
    def is_double(self) -> bool:
        return any(buffer.dtype == "float64" for buffer in (*self.kernel.inputs, *self.kernel.outputs))

    @cached_property
    def adding(self) -> float:
        """Seconds of sums by atomics: L2 takes a sector at a time, and one sum of a place in a cycle."""
        seconds = 0.0
        for stage in self.kernel.stages:
            if isinstance(stage, Store) and isinstance(stage.value, Added):
                place = Load(stage.buffer.dtype, stage.buffer, stage.value.index)
                count, whole = self._loads(stage), self.bytes_of([stage.buffer]) / itemsize(stage.buffer.dtype)
                moved = count / WARP * self._touched(stage, place)[0] * _SECTOR
                seconds += max(moved / self.device.cache_bytes_per_second, count / whole / self.device.clock)
        return seconds

    def _loads(self, stage: Reduce | Store | Scan) -> int:
        return self.points * self.extent(stage.axes)

    # Kernels without tiles.

    def of_points(self) -> Cost:
        emitted, schedule, device = self.emitted, self.emitted.schedule, self.device
        team = {"warp": WARP, "block": self.threads}.get(schedule.team, 1)
        if schedule.by_columns:
            team = emitted.threads[1]
        grid = emitted.host.grid(self.sizes)
        blocks, trips = (math.prod(grid), 1) if grid is not None else self._striding()
        row = schedule.find(Stage, "inner")
        held = row.amount if row else 0
        inner = max((self.extent(stage.axes) for stage in self.kernel.stages), default=1)
        passes = self._passes(online=schedule.online, held=bool(row) and inner <= team * held)
        requests, fetched, share, worst = self._requested(passes, max(1, self.threads // team))
        guarded = any(isinstance(one, Guard) for loop in of_kind(emitted.function.body, Loop) for one in loop.body)
        at_a_time = {True: held or (1 if guarded else _UNROLLED), False: 1}
        steps = [self.extent(stage.axes) / team / at_a_time[bool(stage.axes)] for stage, _ in passes]
        rounds = max(1, trips * sum(map(math.ceil, steps)))
        slots = _at_once(device, self.threads, self.shared, held)
        latency = share * device.latency + (1 - share) * _NEAR
        lifetime = self._joining(team) * trips / device.clock + rounds * latency
        moved = self.least + self._read_again(passes, slots, team)
        unit = Unit.FP64 if self.is_double else Unit.FP32
        limits = {
            "memory": moved / device.bytes_per_second,
            "L2": fetched / device.cache_bytes_per_second,
            "L1": requests / (device.multiprocessors * device.clock),
            "arithmetic": self._issuing(blocks * self.threads, trips, math.ceil(inner / team)),
            "latency": math.ceil(blocks / slots) * lifetime,
        }
        made = sum(2 * self._loads(stage) for stage in self.kernel.reductions if stage.contraction)
        return Cost(emitted, device, blocks, self.shared, held, rounds, worst, moved, fetched, limits, made, unit)

    def _issuing(self, threads: int, trips: int, inner: int) -> float:
        """Seconds in which a device issues all instructions; those of doubles take two turns."""
        sides = dict(zip(("blockDim.x", "blockDim.y", "blockDim.z"), self.emitted.threads, strict=False))
        issued = instructions(self.emitted.function, {**self.sizes, **sides}, threads, trips, inner)
        return (1 + self.is_double) * issued / (_LANES * self.device.multiprocessors * self.device.clock)

    def _requested(
        self, passes: Sequence[tuple[Reduce | Store | Scan, list[Load]]], points: int
    ) -> tuple[float, int, float, tuple[int, Buffer | None]]:
        """Cache lines that loads touch, bytes that are fetched from L2 and stored, the share of loads that L1 does not
        hold, and the load that touches most. A block has so many `points`."""
        schedule = self.emitted.schedule
        turned = schedule.find(Stage, "elements") is not None
        wide = schedule.find(Vectorise)
        held = schedule.find(Stage, "inner") if schedule.team != "thread" else None  # a thread alone has no vectors
        vectors, apart = wide or held, wide.amount if wide else 1
        points *= apart
        requests, asked, fetched = 0.0, 0.0, 0.0
        worst: tuple[int, Buffer | None] = (0, None)
        for stage, load in [(stage, load) for stage, loads in passes for load in loads]:
            sectors, lines = (4, 1) if turned else self._touched(stage, load)
            warps = self._reached[stage][load.buffer, load.index] * self._loads(stage) / WARP
            size = itemsize(load.buffer.dtype)
            beside = sectors * _SECTOR == max(_SECTOR, WARP * size)  # moved in vectors, lines are full
            if apart > 1 and not beside:
                sectors, lines = self._touched(stage, load, apart)
            requests += warps * (size * WARP / _LINE if vectors and beside else lines)
            own = warps * (WARP * size if self._stays(stage, load) else sectors * _SECTOR)
            asked += own
            whole = self.bytes_of([load.buffer])
            kept = whole * self.device.multiprocessors if whole <= _HELD_NEAR else math.inf
            fetched += min(own, kept, self.points / points * self._footprint(stage, load, [(self.kernel.axes, points)]))
            worst = max(worst, (lines, load.buffer), key=lambda one: one[0])
        share = fetched / asked if asked else 1.0
        for stage in self.kernel.stages:
            if stage.buffer is not None:
                each = self._loads(stage) if isinstance(stage, Store) else self.points
                fetched += each * itemsize(stage.buffer.dtype)
        return requests, int(fetched), share, worst

    @cached_property
    def _reached(self) -> Mapping[Reduce | Store | Scan, Mapping[tuple[Buffer, Indices], float]]:
        """The share of a stage's steps that load a place: those of a part of what was joined load no other part."""
        return {stage: shares_of_loads(stage.value, self.sizes) for stage in self.kernel.stages}

    def _footprint(
        self, stage: Reduce | Store | Scan, load: Load, block: Sequence[tuple[Sequence[Variable], int]]
    ) -> float:
        """Bytes of the sectors that a load touches in a block of so many points of some axes, in the middle of these;
        infinite where they do not follow from the loops alone."""
        spans: dict[Variable, tuple[int, int]] = {axis: (0, axis.extent.evaluate(self.sizes)) for axis in stage.axes}
        for axes, points in block:
            for axis in reversed(axes):
                extent = axis.extent.evaluate(self.sizes)
                own = min(extent, points)
                spans[axis] = ((extent - own) // 2, own)
                points = math.ceil(points / extent) if extent else 1
        moving = frozenset(axis for axis, (_, count) in spans.items() if count > 1)
        index = self._known_places(load, moving)
        if index is None:
            return math.inf
        if any(isinstance(atom, Operation) for formula in index for atom in formula.atoms()):
            flat = flatten(index, load.buffer.shape)
            index = index if any(isinstance(atom, Operation) for atom in flat.atoms()) else (flat,)
        if any(isinstance(atom, Operation) and atom.kind == "%" for one in index for atom in one.atoms()):
            return math.inf
        counts = [self._span(formula, spans) for formula in index]
        beside = math.ceil(counts[-1] * itemsize(load.buffer.dtype) / _SECTOR) * _SECTOR if counts else _SECTOR
        return math.prod(counts[:-1]) * beside

    def _span(self, formula: Index, spans: Mapping[Variable, tuple[int, int]]) -> int:
        """How many places a formula goes over, each variable from its first value over so many."""
        known = {axis: spans[axis] for axis in formula.variables if axis in spans}
        at = {axis: first for axis, (first, _) in known.items()}
        start = formula.evaluate(self.sizes, at)
        ends = [formula.evaluate(self.sizes, {**at, axis: first + count - 1}) for axis, (first, count) in known.items()]
        return min(1 + sum(abs(end - start) for end in ends), math.prod(count for _, count in known.values()))

    def _striding(self) -> tuple[int, int]:
        """Blocks of a grid that goes on, and how often it does."""
        wide = self.emitted.schedule.find(Vectorise)
        items = math.ceil(self.points / (wide.amount if wide else 1) / self.threads)
        blocks = min(items, self.device.threads // self.threads * self.device.multiprocessors)
        return blocks, math.ceil(items / blocks)

    def _passes(self, *, online: bool, held: bool) -> list[tuple[Reduce | Store | Scan, list[Load]]]:
        """The loops over a point's steps with what each loads; nothing again that registers hold."""
        found: list[tuple[Reduce | Store | Scan, list[Load]]] = []
        seen: set[object] = set()
        beside: set[object] = set()  # what the loop of the last stages loads, in which reductions go along together
        before: set[str] = set()  # and what it finds
        for stage in self.kernel.stages:
            last = found[-1][0] if found else None
            joined = (
                isinstance(stage, Reduce)
                and isinstance(last, Reduce)
                and (online or (stage.axes == last.axes and not stage.value.locals & before))
            )
            before = {*(before if joined else ()), getattr(stage, "local", "")}
            known = seen | beside if joined else seen
            loads = [load for load in _loads(stage) if (load.buffer, load.index) not in known]
            if (held or joined) and loads == []:
                continue
            beside = {*(beside if joined else ()), *((load.buffer, load.index) for load in loads)}
            seen.update((load.buffer, load.index) for load in loads if held or not stage.axes or online)
            found.append((stage, loads))
        return found

    def _known_places(self, load: Load, moving: frozenset[Variable]) -> Sequence[Index] | None:
        """The index of a load without what kernels compute for it: what is the same along axes is 0, and a place that
        follows from one axis, as that of an interpolation, goes over the whole dimension with it. None where an index
        comes from memory."""
        found = []
        for formula, side in zip(load.index, load.buffer.shape, strict=True):
            for atom in {atom for atom in formula.atoms() if isinstance(atom, Opaque)}:
                along, size = atom.variables & moving, side.evaluate(self.sizes)
                if along and (len(along) > 1 or any(node for node in atom.scalar.loads)):
                    return None
                value = ZERO
                for axis in along:
                    value = divide(of(axis) * size, as_index(axis.extent.evaluate(self.sizes)))[0]
                formula = without_opaque(formula, atom, value)
            found.append(formula)
        return found

    def _touched(self, stage: Reduce | Store | Scan, load: Load, step: int = 1) -> tuple[int, int]:
        """Sectors and cache lines that a load of a warp touches, in the middle of all; lanes are `step` apart."""
        axis = self._lanes(stage)
        size = itemsize(load.buffer.dtype)
        index = self._known_places(load, frozenset((axis,)) if axis else frozenset())
        if index is None:
            return WARP, WARP
        if axis is None:
            return 1, 1
        flat, extent = flatten(index, load.buffer.shape), axis.extent.evaluate(self.sizes)
        first = max(0, extent // 2 - WARP * step)
        lanes = (first + lane * step % max(1, extent) for lane in range(WARP))
        places = [flat.evaluate(self.sizes, {axis: lane}) * size for lane in lanes]
        return len({place // _SECTOR for place in places}), len({place // _LINE for place in places})

    def _lanes(self, stage: Reduce | Store | Scan) -> Variable | None:
        """The axis along which the lanes of a warp lie beside each other."""
        axes = stage.axes if self.emitted.schedule.team in ("warp", "block") else self.kernel.axes
        return axes[-1] if axes else None

    def _stays(self, stage: Reduce | Store | Scan, load: Load) -> bool:
        """Whether the rest of a sector is used by the same thread's next steps, from L1."""
        if not stage.axes or self.emitted.schedule.team != "thread":
            return False
        flat = flatten(list(load.index), list(load.buffer.shape))
        return any(monomial == (stage.axes[-1],) and factor == 1 for monomial, factor in flat.terms)

    def _read_again(self, passes: Sequence[tuple[Reduce | Store | Scan, list[Load]]], slots: int, team: int) -> int:
        """Bytes that come from memory once more, as later passes find them in L2 no longer."""
        at_once = min(self.points, slots * max(1, self.threads // team))
        loops = [(stage, load) for stage, loads in passes if stage.axes for load in loads]
        seen: set[Buffer] = set()
        again = 0
        for stage, load in loops:
            size = self.extent(stage.axes) * itemsize(load.buffer.dtype)
            if load.buffer in seen and size * at_once > _KEPT * self.device.cache:
                again += self.points * size
            seen.add(load.buffer)
        return again

    def _joining(self, team: int) -> float:
        """Cycles in which the threads of a point join what they have, for all of its reductions."""
        combine = self.emitted.schedule.find(Combine)
        if combine is None or team == 1:
            return 0.0
        reductions = 1 if combine.online else len(self.kernel.reductions)
        tree = (2 + math.log2(team)) * _BARRIER
        shuffles = 5 * _SHUFFLE
        both = 2 * shuffles + 2 * _BARRIER
        return reductions * {"tree": tree, "shuffle": shuffles, "shuffle and tree": both}.get(combine.by, 2 * _BARRIER)

    # Products in tiles.

    def of_tiles(self) -> Cost | None:
        emitted, schedule, device = self.emitted, self.emitted.schedule, self.device
        kernel = dealt(self.kernel)
        parts, grid = partition(kernel), emitted.host.grid(self.sizes)
        if parts is None or grid is None:
            return None
        stage, tile = kernel.reductions[0], schedule.get(Tile)
        depth, blocks = self.extent(stage.axes), math.prod(grid)
        size = min((itemsize(load.buffer.dtype) for load in _loads(stage)), default=4)
        if lines := schedule.find(Bind):
            return self._of_lines(blocks, depth, WARP if lines.to == "warp" else 1)
        block = list(zip(parts, (1, tile.rows, tile.cols), strict=True))
        moved = [
            min(
                depth * side * max((itemsize(load.buffer.dtype) for load in operand.loads), default=size),
                sum(self._footprint(stage, load, block) for load in operand.loads),
            )
            for operand, side in zip(stage.operands, (tile.rows, tile.cols), strict=True)
        ]
        fetched = int(blocks * sum(moved)) + self.bytes_of(kernel.outputs)
        rounds = math.ceil(depth / max(1, tile.depth))
        flops = 2 * blocks * tile.rows * tile.cols * rounds * tile.depth
        own, cores = schedule.find(Unroll, "sums"), schedule.find(TensorCore)
        split = tile.rows * tile.cols // self.threads
        rows, cols = (own.rows, own.cols) if own else (max(1, split), 1)
        staged = (tile.rows + tile.cols) * tile.depth // self.threads
        held = rows * cols + rows + cols + staged if own else split
        unit = Unit.TENSOR if cores else Unit.FP64 if size == 8 else Unit.FP32
        if cores and cores.axis == "factors":
            held, unit, words = split + 32, Unit.SPLIT, flops / 2 * (1 / cores.rows + 1 / cores.cols)
        elif cores:
            held = split
            words = flops / 2 / 256 * 0.5
        else:
            words = flops / 2 * (1 / rows + 1 / cols / (4 if own else 1))  # lanes beside each other share the left one
        slots = _at_once(device, self.threads, self.shared, held)
        busy = min(1.0, blocks / device.multiprocessors)
        uneven = math.ceil(blocks / slots) * slots / blocks if blocks > slots else 1.0
        read = [bytes_read(operand.loads, self.sizes) for operand in stage.operands]
        streamed = self.least + self._streamed(read if tile.rows_first else read[::-1], slots, *grid)
        limits = {
            "memory": streamed / device.bytes_per_second,
            "L2": fetched / device.cache_bytes_per_second,
            "L1": blocks * depth * (tile.rows + tile.cols) / WARP / (device.multiprocessors * device.clock),
            "arithmetic": flops / device.rate(unit) / busy * uneven,
            "shared memory": words / (WARP * device.multiprocessors * device.clock) / busy * uneven,
            "latency": math.ceil(blocks / slots) * rounds * 2 * _BARRIER / device.clock + device.latency,
        }
        return Cost(
            emitted, device, blocks, self.shared, held, rounds, (1, None), streamed, fetched, limits, flops, unit
        )

    def _streamed(self, read: Sequence[int], slots: int, along: int, down: int = 1, batch: int = 1) -> int:
        """Bytes that come from memory once more, of the operand whose tiles lie along the grid's x and of the other
        one: the blocks that run at once go through a part of a line of the grid, or through some lines."""
        again = along * down / max(along, min(slots, along * down)), max(1.0, along / slots)
        pairs = zip(read, again, strict=True)
        return int(sum(size * (times - 1) for size, times in pairs if size / batch > _KEPT * self.device.cache))

    def _of_lines(self, blocks: int, depth: int, team: int) -> Cost:
        """A product with few rows or columns, which reads the large operand once."""
        rounds, slots = math.ceil(depth / team / _UNROLLED), _at_once(self.device, self.threads, self.shared, 0)
        limits = {
            "memory": self.least / self.device.bytes_per_second,
            "L2": self.least / self.device.cache_bytes_per_second,
            "arithmetic": self._issuing(blocks * self.threads, 1, math.ceil(depth / team)),
            "latency": math.ceil(blocks / slots) * rounds * self.device.latency,
        }
        return Cost(
            self.emitted, self.device, blocks, self.shared, 0, rounds, (1, None), self.least, self.least, limits
        )

    # Attention.

    def of_attention(self) -> Cost:
        emitted, device = self.emitted, self.device
        work = AttentionWork(emitted.kernel, emitted.schedule, self.sizes, bool(emitted.helpers))
        unit = Unit.TENSOR if work.on_cores else Unit.FP64 if self.is_double else Unit.FP32
        fetched = work.fetched + self.bytes_of(emitted.kernel.outputs)
        shared, share = self.shared + work.arrays, min(1.0, self.least / fetched)
        slots = _at_once(device, self.threads, shared, work.held)
        is_crowded = work.pairs * work.counts[3] * min(1.0, slots / work.blocks) > _KEPT * device.cache
        moved, waves = fetched if is_crowded else self.least, max(1.0, work.blocks / slots)
        idle = max(1.0, _LANES * device.multiprocessors / work.blocks / self.threads) * math.ceil(waves) / waves
        issued = (1 + self.is_double) * work.instructions / _LANES
        cycles = {"arithmetic": issued * idle, "shared memory": work.words / WARP * idle}
        limits = {name: some / device.multiprocessors / device.clock for name, some in cycles.items()}
        limits["arithmetic"] += work.flops / device.rate(unit) * idle  # a warp does one after the other
        trip = share * device.latency + (1 - share) * _FROM_CACHE + 2 * _BARRIER / device.clock
        limits |= {
            "memory": moved / device.bytes_per_second,
            "L2": fetched / device.cache_bytes_per_second,
            "latency": max(1.0, math.ceil(waves) * work.evenness) * work.rounds * trip,
        }
        return Cost(emitted, device, work.blocks, shared, work.held, work.rounds, (1, None), moved, fetched, limits)


def bytes_read(loads: Iterable[Load], sizes: Mapping[str, int]) -> int:
    """Bytes that loads have to bring from memory: of each buffer the places that they name, each once, up to all."""
    places: Counter[Buffer] = Counter()
    for buffer, index in {(load.buffer, load.index) for load in loads}:
        axes = frozenset[Variable]().union(*(formula.variables for formula in index))
        places[buffer] += math.prod(axis.extent.evaluate(sizes) for axis in axes)
    whole = {buffer: math.prod(side.evaluate(sizes) for side in buffer.shape) for buffer in places}
    return sum(min(places[buffer], whole[buffer]) * itemsize(buffer.dtype) for buffer in places)


def shares_of_loads(value: Scalar, sizes: Mapping[str, int]) -> Mapping[tuple[Buffer, Indices], float]:
    """For each place that a value loads, the share of all points at which choices by position come to it."""
    found: Counter[tuple[Buffer, Indices]] = Counter()
    ends = dict[Variable, tuple[int, int]]
    waiting: list[tuple[Scalar, ends]] = [(value, {})]
    seen: set[object] = set()
    while waiting:
        node, inside = waiting.pop()
        if (node, key := frozenset(inside.items())) in seen:
            continue
        seen.add((node, key))
        if isinstance(node, Load):
            sides = ((end - start) / axis.extent.evaluate(sizes) for axis, (start, end) in inside.items())
            found[node.buffer, node.index] += math.prod(sides)  # type: ignore[assignment]
        if isinstance(node, Choose) and isinstance(test := node.condition, Compare) and test.relation == "<":
            axis = next(iter(test.left.variables), None)
            shift = test.left - of(axis) if axis else test.left
            if axis and not shift.variables and not test.right.variables and not axis.extent.variables:
                start, end = inside.get(axis, (0, axis.extent.evaluate(sizes)))
                cut = min(max(start, (test.right - shift).evaluate(sizes)), end)
                waiting += [(node.yes, {**inside, axis: (start, cut)}), (node.no, {**inside, axis: (cut, end)})]
                continue
        waiting += [(child, inside) for child in node.children]
    return {place: min(1.0, share) for place, share in found.items()}


def _loads(stage: Reduce | Store | Scan) -> list[Load]:
    """What a stage loads, each place once, constants aside."""
    found = {(load.buffer, load.index): load for load in stage.value.loads if load.buffer.role != "constant"}
    return list(found.values())
