"""Kernels with the same code become one kernel, which a host function launches with different arguments.

Two kernels share their code if their texts, launches included, are the same but for the names that they declare and for
integers. Integers that differ become parameters: of a template where all are small (windows, strides), since loops over
them are unrolled, and of the kernel elsewhere. So a shared kernel does what the kernel of each launch would do.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations_with_replacement, count

from musadata.compiler.emission.cpp import C_TYPES, Printer
from musadata.compiler.emission.launch import EmittedKernel, NumberName, allocation, filled, results_text
from musadata.compiler.emission.short_names import kernel_buffers
from musadata.compiler.emission.statements import ONE_STEP
from musadata.compiler.ir.index_formulas import product
from musadata.compiler.ir.scalar import RESERVED_NAMES, Buffer, free_name
from musadata.compiler.lowering.fusion import Kernel

LARGEST_TEMPLATE_VALUE = 11
LEAST_PRODUCT = 256  # an integer of which it is asked whether it is a product

_TOKEN = re.compile(r"//[^\n]*|\d+\.\d*(?:e[+-]?\d+)?f?|\d+e[+-]?\d+f?|0x\w+|\d+|[A-Za-z_]\w*|\s+|.", re.DOTALL)
_WITHOUT_STRIDE = re.compile(rf"(?<=\w){re.escape(ONE_STEP)}\b")
_TYPES = "|".join(dict.fromkeys(("void", "auto", "dim3", "float4", "size_t", *C_TYPES.values())))
_DECLARED = re.compile(rf"\b(?:{_TYPES})\b[\s*&]*(?:__restrict__\s+)?([A-Za-z_]\w*)")
# Integers there shape the code.
_FIXED_LINE = re.compile(r"__shared__|#pragma|load_row<|__launch_bounds__|^\s*\w+ \w+\[")
_AXES = {"n": "batch", "b": "batch", "c": "channels", "oc": "channels", "ic": "in_channels", "row": "rows"}
_AXES |= {"h": "height", "oh": "height", "w": "width", "ow": "width", "col": "cols", "kh": "window_height"}
_AXES |= {"kw": "window_width", "d": "depth", "od": "depth", "kd": "window_depth", "k": "length"}
_WINDOW_ROLES = {(axis, "*"): "stride" for axis in ("od", "oh", "ow")}
_WINDOW_ROLES |= {(axis, "-"): "padding" for axis in ("kd", "kh", "kw")}
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
    values: tuple[str, ...]
    outputs: tuple[Buffer, ...]


@dataclass(frozen=True)
class SharedKernels:
    """The kernels of a candidate.

    Attributes:
        kernels: in order, those that share a name being one kernel.
        launches: for each kernel how it is launched, if its host function does that.
        functions: the texts of the host functions.
    """

    kernels: tuple[EmittedKernel, ...]
    launches: tuple[SharedLaunch | None, ...]
    functions: tuple[str, ...]


@dataclass(frozen=True)
class _Text:
    """A kernel's source and its launch as tokens.

    Attributes:
        places: of the tokens that are more than blanks.
        signature: these tokens, with the names that the text declares numbered, and what may differ blanked out.
        holes: the places where another integer or size may stand.
        kernel: how many tokens belong to the kernel's source.
        allocated: how many belong to it and to the allocations of what it fills.
    """

    emitted: EmittedKernel
    tokens: tuple[str, ...]
    places: tuple[int, ...]
    signature: tuple[str, ...]
    holes: tuple[int, ...]
    kernel: int
    allocated: int

    def at(self, place: int) -> str:
        return self.tokens[self.places[place]]


def share_kernels(kernels: Sequence[EmittedKernel], originals: Sequence[Kernel] = ()) -> SharedKernels:
    """Find kernels with the same code.

    With `originals`, the kernels are those under short names, and each gets a host function that launches it.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    sizes = kernels[0].kernel.size_names if kernels else ()
    texts = [_read(emitted) for emitted in kernels]
    for place, text in enumerate(texts):
        if text.emitted.kernel.inputs and "template <bool aligned>" not in text.emitted.source:
            groups.setdefault(text.signature, []).append(place)
    named = originals or [emitted.kernel for emitted in kernels]
    taken = {buffer.name for kernel in named for buffer in kernel_buffers(kernel)} | {*sizes}
    taken |= {emitted.kernel.name for emitted in kernels} if not originals else set()
    changed, functions = list(kernels), []
    launches: list[SharedLaunch | None] = [None] * len(changed)
    for places in groups.values():
        if len(places) > 1 or originals:
            own = () if originals else [kernels[place].kernel.name for place in places]
            shared = _Shared([texts[place] for place in places], sizes, taken, own)
            functions.append(shared.function)
            for member, place in enumerate(places):
                changed[place] = shared.kernel_of(member, named[place])
                launches[place] = shared.launch(member, named[place])
    return SharedKernels(tuple(changed), tuple(launches), tuple(functions))


def structure(emitted: EmittedKernel) -> tuple[str, ...]:
    """What a kernel's text has in common with that of others that can share its code."""
    return _read(emitted).signature


def _read(emitted: EmittedKernel) -> _Text:
    sizes = frozenset(emitted.kernel.size_names)
    first = emitted.kernel.inputs[:1]
    is_allocated = bool(first) and not emitted.kernel.steps  # the host allocates once for all steps
    made = [allocation(b, first[0].name, first[0].dtype) for b in emitted.kernel.outputs] if is_allocated else []
    launch = "\n".join([*made, *emitted.launch])
    source_tokens = _TOKEN.findall(emitted.source)
    tokens = (*source_tokens, *_TOKEN.findall(launch))
    allocated = len(source_tokens) + len(_TOKEN.findall("\n".join(made)))
    declared = {*_DECLARED.findall(emitted.source), *_DECLARED.findall(launch), emitted.kernel.name}
    declared |= {buffer.name for buffer in kernel_buffers(emitted.kernel)}
    written = {token for token in declared if token in sizes}  # parameters of a kernel that keeps its sizes
    fixed = _fixed_places(emitted.source, source_tokens)
    numbers: dict[str, int] = {}
    signature: list[str] = []
    places: list[int] = []
    holes: list[int] = []
    for place, token in enumerate(tokens):
        if token.isspace():
            continue
        is_free = place >= len(source_tokens) or token not in written
        is_size = token in sizes and not isinstance(token, NumberName) and is_free
        is_whole = token.isdigit() or (place < len(source_tokens) and _whole(token) >= 2)
        if (is_whole and place not in fixed) or is_size:
            holes.append(len(places))
            signature.append("#")
        elif token in declared and tokens[place - 1] != ".":
            signature.append(f"@{numbers.setdefault(token, len(numbers))}")
        else:
            signature.append(token)
        places.append(place)
    kernel = sum(place < len(source_tokens) for place in places)
    allocated = sum(place < allocated for place in places)
    return _Text(emitted, tokens, tuple(places), tuple(signature), tuple(holes), kernel, allocated)


def _fixed_places(source: str, tokens: Sequence[str]) -> set[int]:
    """Places of integers that shape a kernel: sides of tiles, all in helper functions."""
    lines = source.splitlines()
    start = next(number for number, line in enumerate(lines) if "__global__" in line)
    shaping = {number for number, line in enumerate(lines) if number < start or _FIXED_LINE.search(line)}
    fixed, number = set(), 0
    for place, token in enumerate(tokens):
        if token.isdigit() and number in shaping:
            fixed.add(place)
        number += token.count("\n")
    return fixed


def _whole(token: str) -> int:
    """The integer that a literal of type float is, as far as floats are exact; else 0."""
    match = re.fullmatch(r"(\d+)\.0f", token)
    return int(match[1]) if match and int(match[1]) < 1 << 24 else 0


class _Shared:
    """One kernel for several texts with the same signature. Its names are those of the first, in short."""

    def __init__(self, members: Sequence[_Text], sizes: Sequence[str], taken: set[str], own: Collection[str]):
        self._members, self._first = members, members[0]
        self._numbers = [name for name in sizes if isinstance(name, NumberName)]
        self._names = {*filter(str.isidentifier, self._first.tokens), *RESERVED_NAMES}
        self._rename = self._shortened(taken, own)
        self._names |= set(self._rename.values())
        self._known = [_quantities(text.emitted, self._rename, self._first) for text in members]
        outputs = [text.emitted.kernel.outputs[0] for text in members]
        self._totals = tuple(str(product(buffer.shape).constant) for buffer in outputs)
        self._parameters: dict[tuple[str, ...], str] = {}  # values for the members, and the name that stands for them
        self._formulas: dict[tuple[str, ...], str] = {}  # of parameters that have values
        self._defined: dict[str, str] = {}  # parameters that the host function reads from a tensor
        self._constants: list[str] = []  # parameters of the template
        self._roles: dict[tuple[str, ...], str] = {}  # what parameters are that are the size of nothing
        self._write()

    def _shortened(self, taken: set[str], own: Collection[str]) -> dict[str, str]:
        """Short names for the kernel and its tensors."""
        rename: dict[str, str] = {}
        emitted = self._first.emitted
        for buffer in kernel_buffers(emitted.kernel):
            parts = buffer.name.split("_")
            options = ["_".join(parts[-count:]) for count in range(_least_parts(buffer), len(parts) + 1)]
            plain = re.sub(r"_?\d+$", "", buffer.name)
            options = options if buffer.role == "state" else [plain]
            used = {*rename.values(), *(self._names - {buffer.name})}
            rename[buffer.name] = next((o for o in options if o.isidentifier() and o not in used), buffer.name)
        base = re.sub(r"\d*_kernel$", "", emitted.kernel.name).rstrip("_")
        name = free_name(taken - {*own}, base, "_kernel")
        rename[emitted.kernel.name] = name
        taken |= {name, f"launch_{name.removesuffix('_kernel')}"}
        return rename

    def _write(self) -> None:
        first = self._first
        tokens = [
            self._rename.get(token, token) if not place or first.tokens[place - 1] != "." else token
            for place, token in enumerate(first.tokens)
        ]
        in_kernel: dict[str, None] = {}
        self._looped = {
            tuple(text.at(hole) for text in self._members)
            for hole in first.holes
            if hole < first.kernel and first.at(hole - 1) in ("<", "/", "%")
        }
        for hole in first.holes:
            values = tuple(text.at(hole) for text in self._members)
            self._roles.setdefault(values, _WINDOW_ROLES.get((first.at(hole - 2), first.at(hole - 1)), "size"))
            is_kernel = hole < first.kernel
            if len(set(values)) == 1 and (values[0].isdigit() or _whole(values[0])) and not self._is_product(values):
                continue
            is_float = any(map(_whole, values))
            values = tuple(str(_whole(value) or value) for value in values) if is_float else values
            is_total = hole >= first.allocated and values == self._totals
            text = self._total() if is_total and values not in self._parameters else self._text_for(values, is_kernel)
            if is_kernel:
                in_kernel |= dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text))
            bare = text.removeprefix("(").removesuffix(")")
            tokens[first.places[hole]] = f"static_cast<float>({bare})" if is_float else text
        split = first.places[first.kernel] if first.kernel < len(first.places) else len(tokens)
        source, launch = _WITHOUT_STRIDE.sub("", "".join(tokens[:split])), "".join(tokens[split:])
        self._finish(source.rstrip() + "\n", launch, [name for name in in_kernel if name not in self._constants])

    def _is_product(self, values: tuple[str, ...]) -> bool:
        """Whether an integer is the same in all of several kernels only as a product of what differs between them."""
        number = int(values[0]) if values[0].isdigit() else 0
        return len(values) > 2 and number >= LEAST_PRODUCT and bool(self._formula([number] * len(values), False))

    def _total(self) -> str:
        return f"{self._rename[self._first.emitted.kernel.outputs[0].name]}.numel()"

    def _text_for(self, values: tuple[str, ...], is_kernel: bool) -> str:
        """What stands for the values: a parameter, a product of two, or how many tiles cover one."""
        if values in self._parameters:
            return self._parameters[values]
        numbers = [int(value) for value in values if value.isdigit()]
        if values in self._looped and len(numbers) == len(values) and max(numbers) <= LARGEST_TEMPLATE_VALUE:
            self._constants.append(self._parameter(values))
            return self._parameter(values)
        if len(numbers) < len(values) or self._quantity(values):
            return self._parameter(values)
        if values not in self._formulas:
            self._formulas[values] = self._formula(numbers, is_kernel)
        return self._formulas[values] or self._parameter(values)

    def _formula(self, numbers: list[int], is_kernel: bool) -> str:
        """A product of up to three quantities and a number, or how many tiles cover one; "" if neither."""
        if not is_kernel:
            covered = {text: list(map(int, values)) for values, text in self._formulas.items() if text}
            varying = self._varying.items() if len(set(numbers)) > 1 else ()
            named = {self._named(name): ints for name, ints in varying}
            for text, ints in (covered | named).items():
                for side in _ROUNDED:
                    if [-(-number // side) for number in ints] == numbers:
                        return f"({text.removeprefix('(').removesuffix(')')} + {side - 1}) / {side}"
        found: dict[tuple[str, ...], int] = {}  # what they are multiplied by
        for factors, products in self._products:
            ratio = numbers[0] // products[0]
            if ratio and [ratio * one for one in products] == numbers:
                found[factors] = ratio
        if not found:
            return ""
        factors = min(found, key=lambda one: (found[one], -len(set(one))))  # height * width, not 2 * height * height
        names = [str(found[factors])] * (found[factors] > 1) + [self._named(name) for name in factors]
        return f"({' * '.join(names)})"

    @cached_property
    def _varying(self) -> dict[str, list[int]]:
        """Quantities that differ between the members."""
        known = {name: ints for name in self._quantity_names() if (ints := self._numbers_of(name)) and min(ints) > 1}
        return {name: ints for name, ints in known.items() if len(set(ints)) > 1}

    @cached_property
    def _products(self) -> list[tuple[tuple[str, ...], list[int]]]:
        """Up to three such quantities, and their product in each member."""
        known = self._varying
        choices = chain.from_iterable(combinations_with_replacement(known, many) for many in (2, 1, 3))
        return [(names, [math.prod(v) for v in zip(*(known[n] for n in names), strict=True)]) for names in choices]

    def _quantity_names(self) -> list[str]:
        return [name for name in self._known[0] if all(name in known for known in self._known)]

    def _numbers_of(self, name: str) -> list[int]:
        values = [known[name] for known in self._known]
        return [int(value) for value in values] if all(value.isdigit() for value in values) else []

    def _quantity(self, values: tuple[str, ...]) -> str:
        names = (name for name in self._quantity_names() if tuple(known[name] for known in self._known) == values)
        return next(names, "")

    def _named(self, quantity: str) -> str:
        return self._parameter(tuple(known[quantity] for known in self._known))

    def _parameter(self, values: tuple[str, ...]) -> str:
        """The name that stands for values, a new one if there is none yet."""
        if values not in self._parameters:
            plain = self._quantity(values)
            same = set(values)
            size = next(iter(same)) if len(same) == 1 and not values[0].isdigit() else ""
            base = size or (plain if plain.isidentifier() else re.sub(r"\.size\((\d)\)", r"_size\1", plain))
            base = base or self._roles.get(values, "size")
            options = chain([base] if base != "size" else [], (f"{base}{number}" for number in count(2 if size else 1)))
            name = (
                base if size and size not in self._rename.values() else next(o for o in options if o not in self._names)
            )
            self._names.add(name)
            self._parameters[values] = name
            tensor = next((q for q in self._quantity_names() if ".size(" in q and self._values(q) == values), "")
            if tensor:
                self._defined[name] = tensor
        return self._parameters[values]

    def _values(self, quantity: str) -> tuple[str, ...]:
        return tuple(known[quantity] for known in self._known)

    def _finish(self, source: str, launch: str, added: Sequence[str]) -> None:
        """Put the parameters into the kernel's head, its launch and the host function."""
        name = self._rename[self._first.emitted.kernel.name]
        for constant in self._constants:
            self._defined.pop(constant, None)
        template = f"template <{', '.join(f'int {one}' for one in self._constants)}>\n" if self._constants else ""
        given = f"<{', '.join(self._constants)}>" if self._constants else ""
        start = source.index("__global__")
        head = _inserted(source[start:], ") {", [f"int {one}" for one in added])
        launch = re.sub(r"(\w+)\.data_ptr<float>\(\)", r"data(\1)", launch).replace(", stream>>>", ", stream()>>>")
        launch = re.sub(r",\n\s+(?=data|\w+[,)])", ", ", launch)
        if threads := re.search(r"const int threads = (\d+);\n", launch):
            number = int(threads[1])
            launch = launch.replace(threads[0], "").replace("threads - 1)", f"{number - 1})")
            launch = re.sub(r"\bthreads\b", threads[1], launch)
        launch = _inserted(launch.replace(f"{name}<<<", f"{name}{given}<<<"), ");", added, launch.index(">>>("))
        self._source = source[:start] + template + head
        self._launch = tuple(line for text in launch.splitlines() for line in _wrapped(text))
        buffers = [(b, self._rename[b.name]) for b in kernel_buffers(self._first.emitted.kernel)]
        outputs = [self._rename[b.name] for b in self._first.emitted.kernel.outputs]
        is_step = self._first.emitted.kernel.steps is not None
        read = [short for _, short in buffers if is_step or short not in outputs]
        numbers = [one for one in self._numbers if re.search(rf"\b{one}\b", launch)]
        self._passed = [n for n in self._parameters.values() if n not in self._defined and n not in self._constants]
        self._passed_numbers = numbers
        listed = [f"const Tensor& {short}" for short in read]
        listed += [*(f"int {one}" for one in self._passed), *(f"double {one}" for one in numbers)]
        kind, result = results_text(outputs)
        kind = "void" if is_step else kind
        self._name = f"launch_{name.removesuffix('_kernel')}"
        opening = f"{kind} {self._name}("
        joined = ", ".join(listed)
        opening += joined if len(opening + joined) < 110 else "\n    " + filled(listed)
        sizes = [f"{one} = {text}" for one, text in self._defined.items()]
        lines = [f"const int {filled(sizes)};"] if sizes else []
        lines += [*self._launch, *[f"return {result};"] * (not is_step)]
        body = "".join(f"    {line}\n" for line in lines)
        self.function = f"{template}{opening}) {{\n{body}}}\n"

    def kernel_of(self, member: int, original: Kernel) -> EmittedKernel:
        """The shared kernel, for what this launch of it computes."""
        name = self._rename[self._first.emitted.kernel.name]
        emitted = self._members[member].emitted
        return replace(emitted, kernel=replace(original, name=name), source=self._source, launch=self._launch)

    def launch(self, member: int, original: Kernel) -> SharedLaunch:
        values = {name: values[member] for values, name in self._parameters.items()}
        given = f"<{', '.join(values[one] for one in self._constants)}>" if self._constants else ""
        passed = (*(values[name] for name in self._passed), *self._passed_numbers)
        outputs = () if original.steps else original.outputs
        tensors = tuple(buffer for buffer in kernel_buffers(original) if buffer not in outputs)
        return SharedLaunch(f"{self._name}{given}", tensors, passed, outputs)


def _wrapped(line: str) -> list[str]:
    """A call on lines of at most about 110 characters."""
    if len(line) <= 106 or "(" not in line:
        return [line]
    margin, words, lines = " " * (len(line) - len(line.lstrip())), line.split(", "), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > 104:
            lines.append(margin + "    ")
        lines[-1] += word if not lines[-1].strip() else f", {word}"
    return [text + "," * (number < len(lines) - 1) for number, text in enumerate(lines)]


def _least_parts(buffer: Buffer) -> int:
    return 2 if re.search(r"_(mean|var|ih|hh)$|_\d+$", buffer.name) else 1


def _inserted(text: str, before: str, items: Sequence[str], start: int = 0) -> str:
    """The text with items added at the end of its first list that is followed by `before`."""
    if not items:
        return text
    place = text.index(before, start)
    line = len(text[:place].rpartition("\n")[2])
    added = ", ".join(items)
    gap = " " if line + len(added) < 108 else "\n    "
    return f"{text[:place]},{gap}{added}{text[place:]}"


def _quantities(emitted: EmittedKernel, rename: Mapping[str, str], first: _Text) -> dict[str, str]:
    """What is known to have a size, as text: axes by a word, and dimensions of the tensors that are read."""
    printer = Printer({}, {})
    found: dict[str, str] = {}

    def add(name: str, text: str) -> None:
        if text.isalnum() or text.isidentifier():
            found.setdefault(name, text)

    stages = [axis for stage in emitted.kernel.stages for axis in stage.axes]
    for axis in (*emitted.kernel.axes, *stages):
        if not axis.extent.variables:
            add(_AXES.get(axis.name, f"{axis.name}_count"), printer.index(axis.extent))
    outputs = emitted.kernel.outputs
    reads = [buffer for buffer in kernel_buffers(emitted.kernel) if buffer not in outputs]
    names = [buffer for buffer in kernel_buffers(first.emitted.kernel) if buffer not in first.emitted.kernel.outputs]
    for buffer, same in zip(reads, names, strict=True):
        for dim, size in enumerate(buffer.shape):
            add(f"{rename[same.name]}.size({dim})", printer.index(size))
    return found
