"""Inside the sandbox: a reference at its measure size, on the device: its results, their oracle, and a candidate's
outputs compared with them.

No candidate ever runs in this process. Nothing large leaves it: inputs are drawn on the device, outputs of a candidate
arrive through a window, chunk by chunk, and are copied before they are looked at.
"""

import contextlib
import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from musadata.tasks.reference_loading import load_reference
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.protocol.streams import Stream
from musadata.verifier.protocol.tensors import unpack_torch
from musadata.verifier.protocol.tolerance import (
    CONDITION_FACTOR,
    REFERENCE_ERROR_FACTOR,
    Tolerance,
    least_wide_tolerance,
    measure_wide_tolerance,
)
from musadata.verifier.protocol.variants import PLAIN
from musadata.verifier.sandboxed import plain_values
from musadata.verifier.sandboxed.conditioning import measure_conditioning
from musadata.verifier.sandboxed.device_inputs import ROUNDS, draw_on, redraw
from musadata.verifier.sandboxed.device_models import KEPT_SHARE, construct_on, digest_state, free_memory, lacks_memory
from musadata.verifier.sandboxed.double_precision import call_in_double, find_tables, widest
from musadata.verifier.sandboxed.model_state import randomise, tensors_of
from musadata.verifier.sandboxed.rounding_noise import UNIT, typical_units
from musadata.verifier.sandboxed.window import Window, open_window, put_chunk, size_of

_SAMPLE = 1 << 20
_PART = 1 << 24  # elements that are compared at a time: their float64 copies take a gigabyte
_PARTS = 16  # of a batch, where all of it needs too much memory in float64
_SURELY = 0.9  # of what may be: the rest covers rounding in float32
_NEAR, _FAR_SHARE = 1e-4, 1e-3  # of the values' size, and of the elements: rounding in float32 is less


class DeviceOracle:
    """One reference at its measure size.

    Attributes:
        model, arguments: what is timed; `arguments` are drawn anew, in place, by `redraw`.
    """

    def __init__(self, request: measures.PrepareMeasure, device: str):
        self._specs, self._device = request.specs, device
        source = load_reference(request.reference)
        self._init: Any = source.get_init_inputs()
        self.arguments = draw_on(device, self._specs, request.seed)
        with exactly():
            self._initial, self.model = _build(source, self._init, request, (device, self.arguments))
            self._tables = find_tables(self.model, lambda: _construct(source, self._init, request, device))
        self._asked = measures.Expect(request.seed)
        self._leaves: list[torch.Tensor] = []
        self._oracle: list[torch.Tensor] = []  # once it is needed, see `_find_oracle`
        self._conditions: list[torch.Tensor] = []
        self._tolerances: list[Tolerance] = []  # the least ones until there is an oracle
        self._window: Window | None = None
        self._staging = torch.empty(0, dtype=torch.uint8)

    def describe(self) -> measures.MeasureReady:
        """What a candidate's process needs to know: the constructor's arguments and the state."""
        names = tuple(name for name, _ in self.model.named_parameters(remove_duplicate=False))
        inputs = sum(size_of(value) for value in self.arguments if isinstance(value, torch.Tensor))
        state = tuple(describe_tensor(tensor, name) for name, tensor in sorted(tensors_of(self.model).items()))
        return measures.MeasureReady(plain_values.encode(list(self._init)), names, state, inputs, self._initial)

    def carry_out(self, command: object) -> object:
        """The answer to one of the trusted side's commands."""
        match command:
            case measures.Expect():
                return self.expect(command)
            case measures.OpenWindow():
                return self.open_window(command.kind, command.bytes)
            case measures.FillWindow():
                return self.fill_window(command.start)
            case measures.CompareChunk():
                return self.compare_chunk(command.start)
            case measures.MeasureConditions():
                return self.measure_conditions()
            case measures.ForgetExpected():
                self._free()
                return messages.Prepared()
        raise RuntimeError(f"{type(command).__name__} is no command for a reference")

    def redraw(self, seed: int, variant: str = PLAIN, rounds: int = ROUNDS) -> None:
        """Overwrite the inputs."""
        redraw(self._specs, seed, self.arguments, variant, rounds)

    def expect(self, command: measures.Expect) -> measures.Expected:
        """Work out the results."""
        self._free()
        self._asked = command
        with exactly():
            self.redraw(command.seed, command.variant)
            structure, leaves = flatten(self.model(*self.arguments))
            memory = {v.untyped_storage().data_ptr() for v in self.arguments if isinstance(v, torch.Tensor)}
            self._leaves = [_own(leaf.detach(), memory) for leaf in leaves]
        self._tolerances = list(map(least_wide_tolerance, self._leaves))
        telling = all(map(_is_finite, self._leaves)) and any(map(_varies, self._leaves))
        if not telling:
            self._find_oracle()
        constant = "" if telling else _describe_constants([*self._leaves, *self._oracle])
        return measures.Expected(structure, tuple(describe_tensor(leaf) for leaf in self._leaves), telling, constant)

    def _find_oracle(self) -> None:
        """Work out the results in double precision, and what they allow: many times the work of the reference, and
        only needed for outputs that are not next to its own."""
        if self._oracle:
            return
        with exactly():
            self.redraw(self._asked.seed, self._asked.variant)  # the reference may have changed them
            self._oracle = self._run_wide(self.arguments)
        self._tolerances = [
            measure_wide_tolerance(leaf, truth, None) for leaf, truth in zip(self._leaves, self._oracle, strict=True)
        ]

    def _run_wide(self, values: list[Any]) -> list[torch.Tensor]:
        """The results in double precision, in parts of a batch where memory lacks; the reference's own where it does
        not run in double precision.

        Raises:
            torch.OutOfMemoryError: memory lacks, and it is no batch.
        """
        failure: Exception | None = None
        found: list[torch.Tensor] = []
        try:
            found = self._run_double(values)
        except Exception as error:
            failure = error.with_traceback(None) if lacks_memory(error) else None  # its frames hold memory
        if failure is not None:
            free_memory(self._device)
            found = self._run_parts(values, failure)
        if len(found) != len(self._leaves) or any(a.shape != b.shape for a, b in zip(found, self._leaves, strict=True)):
            found = self._leaves
        return [leaf.detach().to(widest(leaf)).contiguous() for leaf in found]

    def _run_double(self, values: list[Any]) -> list[torch.Tensor]:
        return flatten(call_in_double(self.model, values, self._tables))[1]

    def _run_parts(self, values: list[Any], failure: Exception) -> list[torch.Tensor]:
        """The results in double precision, of some rows of the batch at a time: what comes out must be near the
        reference's own results for all of them."""
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        batches = {one.shape[0] if one.dim() else 0 for one in (*tensors, *self._leaves)}
        rows = batches.pop()
        if batches or rows < _PARTS:
            raise failure
        found = [torch.empty(leaf.shape, dtype=widest(leaf), device=leaf.device) for leaf in self._leaves]
        step = -(-rows // _PARTS)
        for start in range(0, rows, step):
            part = [value[start : start + step] if isinstance(value, torch.Tensor) else value for value in values]
            try:
                leaves = self._run_double(part)
            except RuntimeError:  # it is no batch, as for a model that keeps a state of so many rows; or memory lacks
                raise failure from None
            for whole, leaf in zip(found, leaves, strict=True):
                whole[start : start + step].copy_(leaf)
        if not all(map(_are_near, found, self._leaves)):
            raise failure
        return found

    def measure_conditions(self) -> messages.Prepared:
        """How far the results move when their inputs move by rounding: needed only where an element seems wrong."""
        self._find_oracle()

        def run(values: list[Any]) -> list[torch.Tensor]:
            held = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
            return [leaf.detach() for leaf in flatten(self.model(*held))[1]]

        with exactly():
            shaken, conditions = measure_conditioning(
                run, self._run_wide, list(self.arguments), self._oracle, exact=False
            )
        self._conditions = [condition.contiguous() for condition in conditions]
        self._tolerances = [
            measure_wide_tolerance(leaf, truth, moved)
            for leaf, truth, moved in zip(self._leaves, self._oracle, shaken, strict=True)
        ]
        return messages.Prepared()

    def open_window(self, kind: str, size: int) -> measures.WindowOpened:
        """Memory for one candidate alone: what another one left in it might be the expected results."""
        self._close_window()
        self._window = open_window(self._device, kind, size)
        return measures.WindowOpened(self._window.kind, size, self._window.file)

    def fill_window(self, start: int) -> messages.Prepared:
        """Put a chunk of the state into the window."""
        assert self._window is not None
        put_chunk(self._window, [tensor for _, tensor in sorted(tensors_of(self.model).items())], start)
        return messages.Prepared()

    def compare_chunk(self, start: int) -> measures.ChunkCompared:
        """Compare the chunk of a candidate's outputs that lies in the window."""
        assert self._window is not None
        size = self._window.memory.numel()
        if self._staging.numel() != size:
            self._staging = torch.empty(size, dtype=torch.uint8, device=self._device)
        self._staging.copy_(self._window.memory)
        found, off = measures.ChunkCompared(), 0.0
        for number, first, at, count in Stream(list(map(size_of, self._leaves))).pieces(start, size):
            leaf = self._leaves[number]
            got = self._staging[at : at + count].view(leaf.dtype)
            begin = first // leaf.element_size()
            if surely_right(got, leaf.view(-1)[begin : begin + len(got)], self._tolerances[number]):
                continue
            self._find_oracle()
            off = max(off, self._reference_error(number))
            for part in range(0, len(got), _PART):
                wrong = self._compare(number, begin + part, got[part : part + _PART])
                found = _add(found, wrong)
        return replace(found, reference_error=off)

    def _reference_error(self, number: int) -> float:
        """How far the reference typically is from the oracle, as a share, in the first elements of a float32 output."""
        want, truth = (every[number].view(-1)[:_SAMPLE] for every in (self._leaves, self._oracle))
        if want.dtype is not torch.float32:
            return 0.0
        finite = torch.isfinite(want) & torch.isfinite(truth)
        return max(0.0, typical_units((want[finite].double() - truth[finite]).abs(), truth[finite]) * UNIT)

    def _compare(self, number: int, begin: int, got: torch.Tensor) -> measures.ChunkCompared:
        """Compare elements of one output, from the flat index `begin` on."""
        end = begin + len(got)
        want, truth = (every[number].view(-1)[begin:end] for every in (self._leaves, self._oracle))
        condition = self._conditions[number].view(-1)[begin:end] if self._conditions else 0.0
        wrong = find_wrong(got, want, truth, condition, self._tolerances[number])
        count = int(wrong.sum())
        if not count:
            return measures.ChunkCompared()
        first = int(wrong.nonzero()[0])
        errors = (got[wrong].to(truth.dtype) - want[wrong].to(truth.dtype)).abs().double()
        finite = errors[torch.isfinite(errors)]
        return measures.ChunkCompared(
            wrong=count,
            output=number,
            first=begin + first,
            expected=str(want[first].item()),
            got=str(got[first].item()),
            worst=float(finite.max()) if len(finite) else 0.0,
            nonfinite=bool((~torch.isfinite(got[wrong])).any()),
        )

    def release(self) -> None:
        """End what was for one candidate."""
        self._close_window()
        self._free()

    def _close_window(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _free(self) -> None:
        self._leaves, self._oracle, self._conditions, self._tolerances = [], [], [], []
        self._staging = torch.empty(0, dtype=torch.uint8)
        free_memory(self._device, KEPT_SHARE)


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """No gradients, and float32 arithmetic in float32, not in TensorFloat-32."""
    products, convolutions = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, convolutions


def describe_tensor(tensor: torch.Tensor, name: str = "") -> messages.TensorFacts:
    """Name, dtype and shape."""
    return messages.TensorFacts(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def surely_right(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> bool:
    """Whether `find_wrong` can find nothing, by the results alone: it allows 8 times what separates them from the
    oracle, so that what is close enough to them is close enough to it. Much less work than in float64."""
    if not want.is_floating_point() and not want.is_complex():
        return torch.equal(got, want)
    kind = torch.promote_types(want.dtype, torch.float32)
    relative, slack = _SURELY * tolerance.relative, _SURELY * tolerance.slack
    return bool(torch.isclose(got.to(kind), want.to(kind), rtol=relative, atol=slack, equal_nan=True).all())


def find_wrong(
    got: torch.Tensor, want: torch.Tensor, truth: torch.Tensor, condition: torch.Tensor | float, tolerance: Tolerance
) -> torch.Tensor:
    """True where an element is wrong, by the rules of `trusted.compare`; all are flat. `truth` is the oracle."""
    if not want.is_floating_point() and not want.is_complex():
        allowed = (want.double() - truth.double()).abs() + CONDITION_FACTOR * condition
        return (got != want) & (((got.double() - truth.double()).abs() > allowed) | (allowed == 0))
    value, reference = got.to(truth.dtype), want.to(truth.dtype)
    finite = torch.isfinite(reference) & torch.isfinite(truth)
    allowed = tolerance.relative * truth.abs() + tolerance.slack + CONDITION_FACTOR * condition
    allowed += REFERENCE_ERROR_FACTOR * (reference - truth).abs()
    wrong = finite & ~((value - truth).abs() <= allowed)
    settled = ~finite & (reference.isnan() == truth.isnan()) & (reference.isnan() | (reference == truth))
    same = (value.isnan() & reference.isnan()) | (value == reference)
    return wrong | (settled & ~same)


def _build(
    source: Any, init: Any, request: measures.PrepareMeasure, inputs: tuple[str, list[Any]]
) -> tuple[dict[str, str], torch.nn.Module]:
    """How the model's state starts, and the model with the state that it has on the proof sets, or a state of its own
    where it is another model there. `inputs`: the device, and values to try."""
    device, values = inputs
    model = _construct(source, init, request, device)
    if request.state:
        own = tensors_of(model)
        for name, value in unpack_torch(request.state).items():
            own[name].copy_(value)
        return {}, model
    initial = digest_state(model)
    if request.as_constructed:
        return initial, model
    randomise(model, request.seed)
    if not _is_usable(model, values):
        model = _construct(source, init, request, device)
    return initial, model


def _construct(source: Any, init: Any, request: measures.PrepareMeasure, device: str) -> torch.nn.Module:
    return construct_on(device, lambda: source.Model(*copy.deepcopy(init)), request.seed)


def _is_usable(model: torch.nn.Module, values: list[Any]) -> bool:
    """Whether it gives finite results: some buffers hold indices or constants."""
    try:
        leaves = flatten(model(*values))[1]
    except Exception as error:
        if lacks_memory(error):
            raise
        return False
    return all(bool(torch.isfinite(leaf).any()) for leaf in leaves if leaf.is_floating_point() and leaf.numel())


def _is_finite(leaf: torch.Tensor) -> bool:
    """Whether most of it is: of a sample."""
    sample = leaf.view(-1)[:: max(1, leaf.numel() // _SAMPLE) | 1]
    return not leaf.numel() or bool(sample.isfinite().double().mean() > 0.5)


def _varies(leaf: torch.Tensor) -> bool:
    """Whether it has more than one value, or is one that is not 0."""
    return bool((leaf != leaf.view(-1)[0]).any()) or (leaf.numel() == 1 and bool(leaf != 0)) if leaf.numel() else False


def _describe_constants(leaves: list[torch.Tensor]) -> str:
    """The one finite number that each of them is everywhere; "" if there is none."""
    if any((_varies(leaf) and leaf.numel() > 1) or not leaf.numel() for leaf in leaves):
        return ""
    values = [leaf.view(-1)[0].item() for leaf in leaves]
    return repr(values) if all(math.isfinite(abs(value)) for value in values) else ""


def _are_near(found: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Whether two results are the same but for rounding, with few exceptions."""
    far, size = 0, float(leaf.double().square().nanmean().sqrt()) if leaf.numel() else 0.0
    for start in range(0, leaf.numel(), _PART):
        one, other = (every.view(-1)[start : start + _PART].double() for every in (found, leaf))
        near = (one - other).abs() <= _NEAR * (other.abs() + size)
        far += int((~(near | (one == other) | (one.isnan() & other.isnan()))).sum())
    return far <= _FAR_SHARE * leaf.numel()


def _own(leaf: torch.Tensor, memory: set[int]) -> torch.Tensor:
    """The result, dense, in memory that is no input's."""
    dense = leaf.resolve_conj().resolve_neg().contiguous()
    return dense.clone() if dense.untyped_storage().data_ptr() in memory else dense


def _add(found: measures.ChunkCompared, more: measures.ChunkCompared) -> measures.ChunkCompared:
    """Both together; the first wrong element is that of the first."""
    if not found.wrong or not more.wrong:
        return more if more.wrong else found
    return measures.ChunkCompared(
        found.wrong + more.wrong,
        found.output,
        found.first,
        found.expected,
        found.got,
        max(found.worst, more.worst),
        found.nonfinite or more.nonfinite,
    )
