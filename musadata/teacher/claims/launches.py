"""What a program launches: blocks, threads and shared memory, from its host code and the shapes of a trace.

Programs of any author are read, so what does not follow from literals and shapes stays unknown.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from musadata.records import Trace
from musadata.teacher.claims.evaluation import CannotEvaluate, Evaluation

_KERNEL = re.compile(r"__global__\s+(?:\w+\s+)*?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\(")
_STEP = re.compile(
    r"__shared__\s+(?P<type>[\w: ]+?)\s+\w+\s*(?P<sides>(?:\[[^\]]+\])+)"
    r"|#define\s+(?P<define>\w+)\s+(?P<is>[^\n]+)"
    r"|\b(?:int|int64_t|long|size_t|unsigned|auto)\s+(?P<name>\w+)\s*=\s*(?P<value>[^;{}]+);"
    r"|\bdim3\s+(?P<dim>\w+)\s*(?:=\s*dim3)?\s*\((?P<sizes>[^;{}]+)\);"
    r"|\b(?P<kernel>\w+)\s*(?:<[^<>;{}]*>)?\s*<<<(?P<how>[^;{}]*?)>>>"
)
_SIZE = re.compile(r"\b(\w+)\s*\.\s*size\s*\(\s*(-?\d+)\s*\)")
_COUNT = re.compile(r"\b(\w+)\s*\.\s*numel\s*\(\s*\)")
_CAST = re.compile(r"\bstatic_cast\s*<[^<>]*>|\(\s*(?:int|int64_t|size_t|long|unsigned)\s*\)")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([\w: ]+?)\s*\)")
_CHOICE = re.compile(r"^([^?:]+)\?([^?:]+):([^?:]+)$")
_BYTES = {"double": 8, "float": 4, "float2": 8, "float4": 16, "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4}
_BYTES |= {"int64_t": 8, "long": 8, "long long": 8, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2}
_BYTES |= {"char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "unsigned char": 1}


@dataclass(frozen=True)
class Launch:
    """One launch; sizes along x, y and z as far as they are given. Bytes that do not follow from the code are None."""

    kernel: str
    blocks: tuple[int, ...]
    threads: tuple[int, ...]
    shared_bytes: int | None = 0


def find_kernels(program: str) -> dict[str, str]:
    """The code of each kernel of a program, from its name to the brace that ends it."""
    return {name: program[start:end] for name, start, end in _spans(program)}


def _spans(program: str) -> Iterator[tuple[str, int, int]]:
    for match in _KERNEL.finditer(program):
        depth = 0
        for brace in re.finditer(r"[{};]", program[match.end() :]):
            depth += {"{": 1, "}": -1, ";": 0}[brace[0]]
            if depth == 0:  # the end, or a declaration without a body
                if brace[0] == "}":
                    yield match["name"], match.start("name"), match.end() + brace.end()
                break


def find_launches(program: str, trace: Trace) -> tuple[Launch, ...]:
    """The launches of a program in their order; those whose sizes do not follow from shapes are left out."""
    shapes = {fact.name.replace(".", "_"): fact.shape for fact in trace.tensors}
    known: dict[str, tuple[int, ...]] = {}
    kernels, arrays = list(_spans(program)), dict[str, list[int | None]]()
    found = []
    for step in _STEP.finditer(program):
        if step["type"]:
            owner = next((name for name, start, end in kernels if start <= step.start() < end), "")
            sides = _values(step["sides"].strip("[]").replace("][", ","), known, shapes)
            width = _BYTES.get(step["type"].removeprefix("const ").strip())
            arrays.setdefault(owner, []).append(math.prod(sides) * width if sides and width else None)
        elif name := step["name"] or step["dim"] or step["define"]:
            known.pop(name, None)
            values = _values(step["value"] or step["sizes"] or step["is"], known, shapes)
            if values:
                known[name] = values
        else:
            parts = [*_arguments(step["how"]), "", ""]
            blocks, threads = (_values(part.removeprefix("dim3"), known, shapes) for part in parts[:2])
            if blocks and threads:
                dynamic = _values(parts[2], known, shapes) if parts[2] else (0,)
                shared = [dynamic[0] if dynamic else None, *arrays.get(step["kernel"], ())]
                bytes_known = [size for size in shared if size is not None]
                total = sum(bytes_known) if len(bytes_known) == len(shared) else None
                found.append(Launch(step["kernel"], blocks, threads, total))
    return tuple(found)


def _values(
    text: str, known: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The whole numbers of an expression, of several between commas, or of a name."""
    text = text.strip()
    if text in known:
        return known[text]
    if text.startswith("(") and text.endswith(")") and len(list(_arguments(text[1:-1]))) > 1:
        text = text[1:-1]
    text = re.sub(r"\b(\w+)\.([xyz])\b", lambda match: _side(match, known), text)
    names = {name: values[0] for name, values in known.items() if len(values) == 1}
    numbers = []
    for part in _arguments(text):
        try:
            numbers.append(Evaluation({}).of(_as_python(part, shapes), names))
        except CannotEvaluate:
            return None
    whole = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
    return tuple(whole) if len(whole) == len(numbers) else None


def _side(match: re.Match[str], known: Mapping[str, tuple[int, ...]]) -> str:
    """`threads.x` as a number, if `threads` is known."""
    sides, place = known.get(match[1], ()), "xyz".index(match[2])
    return str(sides[place]) if place < len(sides) else match[0]


def _as_python(text: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """C++ over sizes of tensors as Python: division of whole numbers rounds down."""

    def size(match: re.Match[str]) -> str:
        shape, axis = shapes.get(match[1], shapes.get(match[1].removesuffix("_data"), ())), int(match[2])
        return str(shape[axis]) if -len(shape) <= axis < len(shape) else match[0]

    def count(match: re.Match[str]) -> str:
        return str(math.prod(shapes[match[1]])) if match[1] in shapes else match[0]

    text = _SIZEOF.sub(lambda match: str(_BYTES.get(match[1], match[0])), text)
    text = _CAST.sub("", _COUNT.sub(count, _SIZE.sub(size, text)))
    text = re.sub(r"\b(?:std|at|c10)::(min|max|ceil_div)(?:\s*<[^<>]*>)?", r"\1", text)
    text = re.sub(r"(?<=\d)(?:[uU]?[lL]{0,2})\b", "", text).replace("/", "//")
    return _CHOICE.sub(r"(\2) if (\1) else (\3)", text)


def _arguments(text: str) -> Iterator[str]:
    """What stands between the outer commas."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
