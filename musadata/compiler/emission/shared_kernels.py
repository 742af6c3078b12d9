"""Kernels with the same code become one kernel, which a host function launches with different arguments.

Two kernels share their code if their trees, launches included, are the same but for the names that they declare and for
integers, which are holes. Integers that differ become parameters: of a template where all are small (windows, strides),
since loops over them are unrolled, and of the kernel elsewhere. So a shared kernel does what the kernel of each launch
would do.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations_with_replacement, count
from typing import Any

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import (
    EmittedKernel,
    NumberName,
    allocation,
    mentioned,
    returning,
)
from musadata.compiler.emission.short_names import kernel_buffers, options_of
from musadata.compiler.ir.code import (
    Binary,
    Declare,
    Expression,
    Function,
    Group,
    Launch,
    Method,
    Name,
    Number,
    Parameter,
    Statement,
    Template,
    apply,
    code,
    declared_in,
    names_of,
    of_kind,
    rebuild,
)
from musadata.compiler.ir.code import product as product_of
from musadata.compiler.ir.index_formulas import product
from musadata.compiler.ir.printing import WIDE, filled
from musadata.compiler.ir.scalar import RESERVED_NAMES, Buffer, free_name
from musadata.compiler.lowering.fusion import Kernel

LARGEST_TEMPLATE_VALUE = 11
LEAST_PRODUCT = 256  # an integer of which it is asked whether it is a product

_AXES = {"n": "batch", "b": "batch", "c": "channels", "oc": "channels", "ic": "in_channels", "row": "rows"}
_AXES |= {"h": "height", "oh": "height", "w": "width", "ow": "width", "col": "cols", "kh": "window_height"}
_AXES |= {"kw": "window_width", "d": "depth", "od": "depth", "kd": "window_depth", "k": "length"}
_WINDOW_ROLES = {(axis, "*"): "stride" for axis in ("od", "oh", "ow")}
_WINDOW_ROLES |= {(axis, "-"): "padding" for axis in ("kd", "kh", "kw")}
_BLANK = Name("#")
Structure = tuple[Any, ...]  # trees with holes
Values = tuple[str, ...]  # that stand in one hole, or that a quantity has, in the order of the members
_ROUNDED = (8, 16, 64, 128)  # sides of tiles, of which the host counts those that cover an extent


@dataclass(frozen=True)
class SharedLaunch:
    """One launch of a shared kernel, by a host function that allocates what it fills.

    Attributes:
        function: the host function, with its template's arguments.
        tensors: what it reads.
        values: its other arguments, as the host writes them.
        outputs: what it returns.
    """

    function: str
    tensors: tuple[Buffer, ...]
    values: tuple[Expression, ...]
    outputs: tuple[Buffer, ...]


@dataclass(frozen=True)
class SharedKernels:
    """The kernels of a candidate.

    Attributes:
        kernels: in order, those that share a name being one kernel.
        launches: for each kernel how it is launched, if its host function does that.
        functions: the host functions.
    """

    kernels: tuple[EmittedKernel, ...]
    launches: tuple[SharedLaunch | None, ...]
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class _Hole:
    """What stands where another integer or size may: its text, and what is before it if it is a right operand."""

    text: str
    before: tuple[str, str]  # a name, and the operator's sign


@dataclass(frozen=True)
class _Form:
    """A kernel and its launch as trees with holes.

    Attributes:
        signature: the trees, with the names that the kernel declares numbered, and what may differ blanked out.
        holes: in order.
        kernel: how many holes belong to the kernel.
        allocated: how many belong to it and to the allocations of what it fills.
        written: sizes that the kernel declares, which are no holes in it.
    """

    emitted: EmittedKernel
    signature: Structure
    holes: tuple[_Hole, ...]
    kernel: int
    allocated: int
    written: frozenset[str]


def share_kernels(kernels: Sequence[EmittedKernel], originals: Sequence[Kernel] = ()) -> SharedKernels:
    """Find kernels with the same code.

    With `originals`, the kernels are those under short names, and each that `can_share` gets a host function that
    launches it; the others have to be under their own names.
    """
    groups: dict[Structure, list[int]] = {}
    sizes = kernels[0].kernel.size_names if kernels else ()
    forms = [_read(emitted) for emitted in kernels]
    for place, form in enumerate(forms):
        if can_share(form.emitted):
            groups.setdefault(form.signature, []).append(place)
    named = originals or [emitted.kernel for emitted in kernels]
    taken = {buffer.name for kernel in named for buffer in kernel_buffers(kernel)} | {*sizes}
    taken |= {emitted.kernel.name for emitted in kernels if not (originals and can_share(emitted))}
    changed, functions = list(kernels), []
    launches: list[SharedLaunch | None] = [None] * len(changed)
    for places in groups.values():
        if len(places) > 1 or originals:
            own = () if originals else [kernels[place].kernel.name for place in places]
            shared = _Shared([forms[place] for place in places], sizes, taken, own)
            functions.append(shared.function)
            for member, place in enumerate(places):
                changed[place] = shared.kernel_of(member, named[place])
                launches[place] = shared.launch(member, named[place])
    return SharedKernels(tuple(changed), tuple(launches), tuple(functions))


def can_share(emitted: EmittedKernel) -> bool:
    """Whether a host function can launch a kernel: one that reads nothing, or is a template of how its rows lie, is
    launched where it stands."""
    return bool(emitted.kernel.inputs) and emitted.host.aligned is None


def structure(emitted: EmittedKernel) -> Structure:
    """What a kernel has in common with others that can share its code."""
    return _read(emitted).signature


def _is_hole(node: Any, sizes: Collection[str]) -> bool:
    """Whether another integer or size may stand in place of a leaf."""
    if isinstance(node, Number):
        return node.value is not None or node.whole >= 2
    return isinstance(node, Name) and node.name in sizes


def _read(emitted: EmittedKernel) -> _Form:
    made, host = _allocations(emitted), emitted.host
    buffers = {buffer.name for buffer in kernel_buffers(emitted.kernel)}
    declared = declared_in((emitted.helpers, emitted.function, made, host.setup)) | buffers
    sizes = {name for name in emitted.kernel.size_names if not isinstance(name, NumberName)}
    written = frozenset(declared & sizes)  # parameters of a kernel that keeps its sizes
    holes: list[_Hole] = []
    numbers: dict[str, int] = {}

    def blanked(tree: Any, may_differ: Collection[str] | None) -> Any:
        of_right: dict[int, Binary] = {}  # the operation, by the identity of its right operand

        def change(node: Any) -> Expression | None:
            if isinstance(node, Binary):
                of_right[id(node.right)] = node
            if may_differ is not None and _is_hole(node, may_differ):
                holes.append(_Hole(str(node), _before(of_right.get(id(node)))))
                return _BLANK
            if isinstance(node, Name) and node.name in declared:
                return Name(f"@{numbers.setdefault(node.name, len(numbers))}")
            return None

        return rebuild(tree, change)

    helpers = blanked(emitted.helpers, None)
    function, kernel = blanked(emitted.function, sizes - written), len(holes)
    allocations, allocated = blanked(made, sizes), len(holes)
    launch = blanked((host.setup, host.arguments), sizes)
    return _Form(emitted, (helpers, function, allocations, launch), tuple(holes), kernel, allocated, written)


def _before(operation: Binary | None) -> tuple[str, str]:
    if operation is None:
        return "", ""
    left = operation.left
    while isinstance(left, Binary):
        left = left.right
    return str(left), operation.sign


def _allocations(emitted: EmittedKernel) -> tuple[Statement, ...]:
    """What the host makes before a launch; for all steps at once it does that elsewhere."""
    first = emitted.kernel.inputs[:1]
    if not first or emitted.kernel.steps:
        return ()
    return tuple(allocation(buffer, Name(first[0].name), first[0].dtype) for buffer in emitted.kernel.outputs)


class _Shared:
    """One kernel for several with the same signature. Its names are those of the first, in short."""

    def __init__(self, members: Sequence[_Form], sizes: Sequence[str], taken: set[str], own: Collection[str]):
        self._members, self._first, self._emitted = members, members[0], members[0].emitted
        self._numbers = [name for name in sizes if isinstance(name, NumberName)]
        self._sizes = {name for name in sizes if not isinstance(name, NumberName)}
        tree = (self._emitted.helpers, self._emitted.function, self._emitted.host.setup, self._emitted.host.arguments)
        self._names = {*names_of(tree), *declared_in(tree), *RESERVED_NAMES}
        self._rename = self._shortened(taken, own)
        self._names |= set(self._rename.values())
        known = [_quantities(form.emitted, self._rename, self._first) for form in members]
        shared = (one for one in known[0] if all(one in others for others in known))
        self._quantities = {one: tuple(others[one] for others in known) for one in shared}  # their values
        outputs = [form.emitted.kernel.outputs[0] for form in members]
        self._totals = tuple(str(product(buffer.shape).constant) for buffer in outputs)
        self._parameters: dict[Values, str] = {}  # values for the members, and the name that stands for them
        self._formulas: dict[Values, Expression | None] = {}  # of parameters that have values
        self._defined: dict[str, Expression] = {}  # parameters that the host function reads from a tensor
        self._constants: list[str] = []  # parameters of the template
        self._roles: dict[Values, str] = {}  # what parameters are that are the size of nothing
        self._write()

    def _shortened(self, taken: set[str], own: Collection[str]) -> dict[str, str]:
        """Short names for the kernel and its tensors."""
        rename: dict[str, str] = {}
        kernel = self._emitted.kernel
        for buffer in kernel_buffers(kernel):
            used = {*rename.values(), *(self._names - {buffer.name})}
            options = (one for one in options_of(buffer, buffer in kernel.outputs) if one not in used)
            rename[buffer.name] = next(options, buffer.name)
        base = re.sub(r"\d*_kernel$", "", self._emitted.kernel.name).rstrip("_")
        name = free_name(taken - {*own}, base, "_kernel")
        rename[self._emitted.kernel.name] = name
        taken |= {name, f"launch_{name.removesuffix('_kernel')}"}
        return rename

    def _write(self) -> None:
        first = self._first
        in_kernel: dict[str, None] = {}
        columns = [tuple(hole.text for hole in holes) for holes in zip(*(m.holes for m in self._members), strict=True)]
        in_function = zip(columns[: first.kernel], first.holes, strict=False)
        self._looped = {values for values, hole in in_function if hole.before[1] in tuple("</%")}
        filled: list[Expression | None] = []
        for place, (values, hole) in enumerate(zip(columns, first.holes, strict=True)):
            is_kernel = place < first.kernel
            self._roles.setdefault(values, _WINDOW_ROLES.get(hole.before, "size"))
            is_number = values[0].isdigit() or Number(values[0]).whole
            if len(set(values)) == 1 and is_number and not self._is_product(values):
                filled.append(None)
                continue
            is_float = any(Number(value).whole for value in values)
            values = tuple(str(Number(value).whole or value) for value in values) if is_float else values
            is_total = place >= first.allocated and values == self._totals
            is_total = is_total and values not in self._parameters
            value = self._total() if is_total else self._value_for(values, is_kernel)
            if is_kernel:
                in_kernel |= dict.fromkeys(one.name for one in of_kind(value, Name))
            filled.append(apply("static_cast<float>", _bare(value)) if is_float else value)
        emitted = self._emitted
        function = self._filled(emitted.function, self._sizes - first.written, filled[: first.kernel])
        made = self._filled(_allocations(emitted), self._sizes, filled[first.kernel : first.allocated])
        launch = (emitted.host.setup, emitted.host.arguments)
        setup, arguments = self._filled(launch, self._sizes, filled[first.allocated :])
        self._helpers = tuple(one if isinstance(one, str) else rebuild(one, self._renamed) for one in emitted.helpers)
        added = [name for name in in_kernel if name not in self._constants]
        self._finish(rebuild(function, _without_step), made, setup, arguments, added)

    def _renamed(self, node: Any) -> Name | None:
        return Name(self._rename[node.name]) if isinstance(node, Name) and node.name in self._rename else None

    def _filled(self, tree: Any, sizes: Collection[str], values: Sequence[Expression | None]) -> Any:
        """A tree under short names, with its holes filled; None leaves what is there."""
        following = iter(values)

        def change(node: Any) -> Any:
            if _is_hole(node, sizes):
                return next(following) or node
            return self._renamed(node)

        return rebuild(tree, change)

    def _is_product(self, values: Values) -> bool:
        """Whether an integer is the same in all of several kernels only as a product of what differs between them."""
        number = int(values[0]) if values[0].isdigit() else 0
        return len(values) > 2 and number >= LEAST_PRODUCT and bool(self._formula([number] * len(values), False))

    def _total(self) -> Expression:
        return Method(Name(self._rename[self._emitted.kernel.outputs[0].name]), "numel")

    def _value_for(self, values: Values, is_kernel: bool) -> Expression:
        """What stands for the values: a parameter, a product of two, or how many tiles cover one."""
        if values in self._parameters:
            return Name(self._parameters[values])
        numbers = [int(value) for value in values if value.isdigit()]
        if values in self._looped and len(numbers) == len(values) and max(numbers) <= LARGEST_TEMPLATE_VALUE:
            self._constants.append(self._parameter(values))
            return Name(self._parameter(values))
        if len(numbers) < len(values) or self._quantity(values):
            return Name(self._parameter(values))
        if values not in self._formulas:
            self._formulas[values] = self._formula(numbers, is_kernel)
        return self._formulas[values] or Name(self._parameter(values))

    def _formula(self, numbers: list[int], is_kernel: bool) -> Expression | None:
        """A product of up to three quantities and a number, or how many tiles cover one; None if neither."""
        if not is_kernel:
            covered = {value: list(map(int, values)) for values, value in self._formulas.items() if value}
            varying = self._varying.items() if len(set(numbers)) > 1 else ()
            named: dict[Expression, list[int]] = {Name(self._parameter(values)): ints for values, ints in varying}
            for value, ints in (covered | named).items():
                for side in _ROUNDED:
                    if [-(-number // side) for number in ints] == numbers:
                        return (_bare(value) + (side - 1)) / side
        found: dict[tuple[Values, ...], int] = {}  # what they are multiplied by
        for factors, products in self._products:
            ratio = numbers[0] // products[0]
            if ratio and [ratio * one for one in products] == numbers:
                found[factors] = ratio
        if not found:
            return None
        factors = min(found, key=lambda one: (found[one], -len(set(one))))  # height * width, not 2 * height * height
        many = [found[factors]] if found[factors] > 1 else []
        return Group(product_of(*many, *map(self._parameter, factors)))

    @cached_property
    def _varying(self) -> dict[Values, list[int]]:
        """The values of quantities that differ between the members, and these as integers."""
        numbers = (values for values in self._quantities.values() if all(value.isdigit() for value in values))
        return {values: ints for values in numbers if min(ints := list(map(int, values))) > 1 and len(set(ints)) > 1}

    @cached_property
    def _products(self) -> list[tuple[tuple[Values, ...], list[int]]]:
        """Up to three such quantities, and their product in each member."""
        known = self._varying
        choices = chain.from_iterable(combinations_with_replacement(known, many) for many in (2, 1, 3))
        return [(names, [math.prod(v) for v in zip(*(known[n] for n in names), strict=True)]) for names in choices]

    def _quantity(self, values: Values, kind: type[Expression] = Expression) -> Expression | None:
        """What has these values."""
        return next((one for one, own in self._quantities.items() if own == values and isinstance(one, kind)), None)

    def _parameter(self, values: Values) -> str:
        """The name that stands for values, a new one if there is none yet."""
        if values not in self._parameters:
            plain = self._quantity(values)
            same = set(values)
            size = next(iter(same)) if len(same) == 1 and not values[0].isdigit() else ""
            base = size or self._roles.get(values, "size")
            match plain:
                case Name(name):
                    base = size or name
                case Method(tensor, "size", (dim,)):
                    base = size or f"{tensor}_size{dim}"
            options = chain([base] if base != "size" else [], (f"{base}{number}" for number in count(2 if size else 1)))
            name = (
                base if size and size not in self._rename.values() else next(o for o in options if o not in self._names)
            )
            self._names.add(name)
            self._parameters[values] = name
            if (read := self._quantity(values, Method)) is not None:
                self._defined[name] = read
        return self._parameters[values]

    def _finish(
        self,
        function: Function,
        made: Sequence[Statement],
        setup: Sequence[Statement],
        arguments: Sequence[Expression],
        added: Sequence[str],
    ) -> None:
        """Put the parameters into the kernel's head, its launch and the host function."""
        for constant in self._constants:
            self._defined.pop(constant, None)
        template = tuple(f"int {one}" for one in self._constants)
        given = f"<{', '.join(self._constants)}>" if self._constants else ""
        kind = WIDE if self._emitted.wide else "int"
        parameters = (*function.parameters, *(Parameter(kind, Name(one)) for one in added))
        self._function = replace(function, parameters=parameters, template=template)
        name = function.name.name
        pointers = [rebuild(one, _brief_pointer) for one in (*arguments, *map(Name, added))]
        threads, count = (
            next((one for one in setup if isinstance(one, Declare) and one.name == "threads"), None),
            "threads",
        )
        if threads is not None and isinstance(threads.value, Number):
            count = threads.value.digits
            setup = tuple(_inlined(one, int(count)) for one in setup if one is not threads)
        launched = Launch(tuple(setup), f"{name}{given}", tuple(pointers), threads=count, stream="stream()")
        self._host = replace(launched, has_shared_bytes=self._emitted.host.has_shared_bytes)
        buffers = [(b, self._rename[b.name]) for b in kernel_buffers(self._emitted.kernel)]
        outputs = [self._rename[b.name] for b in self._emitted.kernel.outputs]
        is_step = self._emitted.kernel.steps is not None
        read = [short for _, short in buffers if is_step or short not in outputs]
        self._passed = [n for n in self._parameters.values() if n not in self._defined and n not in self._constants]
        self._passed_numbers = mentioned(self._numbers, (self._host.setup, self._host.arguments))
        typed = {"const Tensor&": read, "int": self._passed, "double": self._passed_numbers}
        listed = tuple(Parameter(kind, Name(one)) for kind, names in typed.items() for one in names)
        kind, result = returning(outputs)
        self._name = f"launch_{name.removesuffix('_kernel')}"
        sizes = [f"{one} = {text}" for one, text in self._defined.items()]
        read_sizes = [Template((f"const int {filled(sizes)};\n",))] if sizes else []
        body = (*read_sizes, *made, self._host, *[result] * (not is_step))
        self.function = Function("void " if is_step else f"{kind} ", Name(self._name), listed, body, template)

    def kernel_of(self, member: int, original: Kernel) -> EmittedKernel:
        """The shared kernel, for what this launch of it computes."""
        emitted = self._members[member].emitted
        return replace(
            emitted,
            kernel=replace(original, name=self._function.name.name),
            helpers=self._helpers,
            function=self._function,
            host=self._host,
            is_shared=True,
        )

    def launch(self, member: int, original: Kernel) -> SharedLaunch:
        values = {name: values[member] for values, name in self._parameters.items()}
        given = f"<{', '.join(values[one] for one in self._constants)}>" if self._constants else ""
        passed = (*(_leaf(values[name]) for name in self._passed), *map(Name, self._passed_numbers))
        outputs = () if original.steps else original.outputs
        tensors = tuple(buffer for buffer in kernel_buffers(original) if buffer not in outputs)
        return SharedLaunch(f"{self._name}{given}", tensors, passed, outputs)


def _leaf(text: str) -> Expression:
    return Number(text) if text.isdigit() else Name(text)


def _bare(value: Expression) -> Expression:
    return value.inner if isinstance(value, Group) else value


def _without_step(node: Any) -> Expression | None:
    """A place that a window of step 1 has, which others that share the kernel would multiply."""
    is_step = isinstance(node, Binary) and node.sign == "*" and node.right == code(1) and isinstance(node.left, Name)
    return node.left if is_step else None


def _brief_pointer(node: Any) -> Expression | None:
    is_pointer = isinstance(node, Method) and node.function == "data_ptr<float>"
    return apply("data", node.value) if is_pointer else None


def _inlined(statement: Statement, threads: int) -> Statement:
    """The number of threads in place of its name; one less as one number."""

    def change(node: Any) -> Expression | None:
        match node:
            case Binary(Binary(left, "+", Name("threads")), "-", Number("1")):
                return Binary(rebuild(left, change), "+", code(threads - 1))
            case Name("threads"):
                return code(threads)
        return None

    return rebuild(statement, change)


def _quantities(emitted: EmittedKernel, rename: Mapping[str, str], first: _Form) -> dict[Expression, str]:
    """What is known to have a size, and that as text: axes by a word, and dimensions of the tensors that are read."""
    printer = Printer()
    found: dict[Expression, str] = {}

    def add(quantity: Expression, size: Expression) -> None:
        text = str(size)
        if text.isalnum() or text.isidentifier():
            found.setdefault(quantity, text)

    stages = [axis for stage in emitted.kernel.stages for axis in stage.axes]
    for axis in (*emitted.kernel.axes, *stages):
        if not axis.extent.variables:
            add(Name(_AXES.get(axis.name, f"{axis.name}_count")), printer.index(axis.extent))
    outputs = emitted.kernel.outputs
    reads = [buffer for buffer in kernel_buffers(emitted.kernel) if buffer not in outputs]
    names = [buffer for buffer in kernel_buffers(first.emitted.kernel) if buffer not in first.emitted.kernel.outputs]
    for buffer, same in zip(reads, names, strict=True):
        for dim, size in enumerate(buffer.shape):
            add(Method(Name(rename[same.name]), "size", (code(dim),)), printer.index(size))
    return found
