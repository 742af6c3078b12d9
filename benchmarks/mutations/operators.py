"""Single faults: each operator looks at one place of a kernel and says how it could be wrong.

The kinds are those of the claim: operators, bounds, strides, barriers, constants, types, precision, launch.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.mutations.syntax import Place, cuda_texts, is_float, places, text_of

KINDS = ("operators", "bounds", "strides", "barriers", "constants", "types", "precision", "launch")
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", ">>": "<<"}
_RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_ASSIGNMENTS = {"+=": ("=", "-="), "*=": ("=",), "/=": ("*=",), "-=": ("+=",), ">>=": (), "<<=": ()}
_FUNCTIONS = {
    "fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max", "expf": "exp2f", "__expf": "exp2f",
    "sqrtf": "fabsf", "rsqrtf": "sqrtf", "logf": "log2f", "tanhf": "sinf", "erff": "tanhf", "warp_max": "warp_sum",
    "__shfl_xor_sync": "__shfl_down_sync", "__shfl_down_sync": "__shfl_up_sync", "__hmul2": "__hadd2",
}  # fmt: skip
_PAIRS = (
    ("rows", "cols"), ("M", "N"), ("N", "K"), ("m", "n"), ("n", "k"), ("H", "W"), ("P", "Q"), ("h", "w"),
    ("lq", "lk"), ("in", "out"), ("channels", "area"), ("taps", "pixels"), ("length", "d"), ("R", "S"), ("C", "K"),
)  # fmt: skip
_BARRIERS = ("__syncthreads();", "__syncwarp();", "block.sync();", "__threadfence();")
_ROUNDINGS = ("to_half", "to_bf16", "to_tf32")
_HELPERS = """#include <cuda_fp16.h>
__device__ inline float to_half(float v) { return __half2float(__float2half(v)); }
__device__ inline float to_bf16(float v) { return __int_as_float((__float_as_int(v) + 0x8000) & 0xffff0000); }
__device__ inline float to_tf32(float v) { return __int_as_float((__float_as_int(v) + 0x1000) & 0xffffe000); }
__device__ inline double to_float(double v) { return static_cast<double>(static_cast<float>(v)); }
"""


@dataclass(frozen=True)
class Mutant:
    """An honest candidate with one fault. `key` is stable as long as the candidate is; `line` is in its CUDA source."""

    program: str
    kind: str
    line: int
    before: str
    after: str
    key: str
    source: str


def mutate(program: str, task: str, candidate: str) -> Iterator[Mutant]:
    """Every single fault that the operators know for a candidate, without repeats."""
    seen = set()
    for text in cuda_texts(candidate):
        data = text.encode()
        for place in places(text):
            for kind, after in _faults(place, task):
                node = place.node
                mutated = (data[: node.start_byte] + after.encode() + data[node.end_byte :]).decode()
                if kind == "precision":
                    mutated = _with_helpers(mutated)
                if mutated in seen:
                    continue
                seen.add(mutated)
                key = hashlib.sha256(f"{program}/{mutated}".encode()).hexdigest()[:12]
                line = node.start_point[0] + 1
                yield Mutant(program, kind, line, place.text, after, key, candidate.replace(text, mutated))


def _with_helpers(text: str) -> str:
    lines = text.split("\n")
    last = max(number for number, line in enumerate(lines) if line.startswith("#include"))
    return "\n".join([*lines[: last + 1], _HELPERS.rstrip(), *lines[last + 1 :]])


def _faults(place: Place, task: str) -> Iterator[tuple[str, str]]:
    kind = place.node.type
    if kind == "binary_expression":
        yield from _binary(place)
    elif kind == "assignment_expression":
        yield from _assignment(place)
    elif kind == "number_literal":
        yield from _literal(place)
    elif kind == "call_expression":
        yield from _call(place)
    elif kind == "expression_statement":
        yield from _statement(place)
    elif kind in ("condition_clause", "conditional_expression", "for_statement", "if_statement"):
        yield from _condition(place)
    elif kind in ("field_identifier", "identifier"):
        yield from _name(place)
    elif kind == "unary_expression" and place.text.startswith("-") and place.device:
        yield "constants", place.text[1:]
    elif kind == "primitive_type":
        yield from _type(place)
    if place.device and task not in ("half_axpy", "half_matmul", "bf16_rmsnorm", "int_mix"):
        yield from _precision(place, task)


def _role(place: Place) -> str:
    """Which kind of fault a wrong number or operator at this place is."""
    if place.inside("kernel_call_syntax") or (not place.device and re.search(r"grid|block|thread|warps", _home(place))):
        return "launch"
    if place.inside("subscript_expression") or _home_type(place) in ("int", "size_t", "int64_t", "unsigned int"):
        return "strides"
    return "operators"


def _home(place: Place) -> str:
    """The text on the left of the declaration that the place stands in."""
    declaration = place.inside("declaration")
    return text_of(declaration).split("=")[0] if declaration else ""


def _home_type(place: Place) -> str:
    declaration = place.inside("declaration")
    return text_of(declaration.child_by_field_name("type")) if declaration else ""


def _binary(place: Place) -> Iterator[tuple[str, str]]:
    node = place.node
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = text_of(node.child_by_field_name("operator"))
    if sign in _ARITHMETIC and "reinterpret_cast" not in place.text:
        yield _role(place), f"{text_of(left)} {_ARITHMETIC[sign]} {text_of(right)}"
    elif sign in _RELATIONS:
        yield "bounds", f"{text_of(left)} {_RELATIONS[sign]} {text_of(right)}"
    elif sign in ("&&", "||"):
        yield "bounds", text_of(left)
        yield "bounds", text_of(right)


def _assignment(place: Place) -> Iterator[tuple[str, str]]:
    node = place.node
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    for other in _ASSIGNMENTS.get(text_of(node.child_by_field_name("operator")), ()):
        if place.device:
            yield "operators", f"{text_of(left)} {other} {text_of(right)}"


def _literal(place: Place) -> Iterator[tuple[str, str]]:
    text = place.text
    if re.fullmatch(r"\d+", text):
        role = _role(place)
        number = int(text)
        kind = "launch" if role == "launch" else "constants"
        yield kind, str(number + 1)
        if number > 1:
            yield kind, str(number // 2)
    elif text.startswith("0x"):
        yield "constants", "0x0000ffff"
    elif re.fullmatch(r"[\d.]+(e-?\d+)?f?", text):
        value = float(text.removesuffix("f"))
        suffix = "f" if text.endswith("f") else ""
        yield "constants", f"{value * 2 if value else 1.0!r}{suffix}"
        if len(text) > 7:
            yield "precision", f"{value:.3f}{suffix}"


def _call(place: Place) -> Iterator[tuple[str, str]]:
    function = text_of(place.node.child_by_field_name("function"))
    arguments = text_of(place.node.child_by_field_name("arguments"))
    if function in _FUNCTIONS and place.device:
        yield "operators", _FUNCTIONS[function] + arguments
    elif function == "isnan":
        yield "bounds", "false"
    elif function.endswith(".size") and not place.device:
        number = arguments.strip("()")
        if number.isdigit():
            yield "strides", f"{function}({1 - int(number) if int(number) < 2 else int(number) - 1})"


def _statement(place: Place) -> Iterator[tuple[str, str]]:
    if not place.device:
        return
    text = place.text
    if text in _BARRIERS:
        yield "barriers", ";"
    elif text.startswith("atomicAdd("):
        pointer, _, value = text.removeprefix("atomicAdd(").removesuffix(");").partition(", ")
        yield "barriers", f"*({pointer}) += {value};"
    elif place.node.named_children and place.node.named_children[0].type == "assignment_expression":
        yield "operators", ";"


def _condition(place: Place) -> Iterator[tuple[str, str]]:
    node = place.node
    if node.type == "condition_clause" and place.device and node.parent is not None:
        yield "bounds", "(true)" if "return" not in text_of(node.parent) else "(false)"
    elif node.type == "conditional_expression" and place.device:
        yield "bounds", f"({text_of(node.child_by_field_name('consequence'))})"
        yield "bounds", f"({text_of(node.child_by_field_name('alternative'))})"


def _name(place: Place) -> Iterator[tuple[str, str]]:
    text, parent = place.text, place.node.parent
    if place.node.type == "field_identifier":
        owner = text_of(parent).split(".")[0] if parent is not None else ""
        if text in ("x", "y") and owner in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            yield "strides", "y" if text == "x" else "x"
        return
    if parent is None or parent.type.endswith("declarator") or parent.type == "parameter_declaration":
        return
    for pair in _PAIRS:
        if text in pair and all(name in place.types for name in pair):
            yield "strides", pair[1 - pair.index(text)]


def _type(place: Place) -> Iterator[tuple[str, str]]:
    """Locals that are too narrow. An index is narrowed only where the declaration shows that it grows."""
    parent = place.node.parent
    declaration = text_of(parent) if parent is not None and parent.type == "declaration" else ""
    if not declaration or "shared" in declaration or "*" in declaration.split("=")[0]:
        return
    grows = re.search(r"blockIdx\.x \*|\* blockIdx\.x|\.numel\(\)", declaration)
    if place.device and place.text == "float":
        yield "types", "int"
        yield "types", "signed char"
    elif place.text == "int" and grows:
        yield "types", "signed char"
        yield "types", "float"
    elif place.text == "double" and place.device:
        yield "precision", "float"


def _precision(place: Place, task: str) -> Iterator[tuple[str, str]]:
    """Values rounded to a shorter type: what is stored, added up, loaded or kept."""
    node = place.node
    rounding = "to_float" if task == "double_poly" else _ROUNDINGS[node.start_byte % len(_ROUNDINGS)]
    if node.type == "assignment_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = text_of(node.child_by_field_name("operator"))
        if not is_float(place, left):
            return
        if sign == "=":
            yield "precision", f"{text_of(left)} = {rounding}({text_of(right)})"
        elif sign == "+=":
            yield "precision", f"{text_of(left)} = {rounding}({text_of(left)} + ({text_of(right)}))"
    elif node.type == "init_declarator" and _home_type(place) in ("float", "double"):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        plain = name is not None and name.type == "identifier"
        if plain and value is not None and value.type not in ("number_literal", "initializer_list"):
            yield "precision", f"{text_of(name)} = {rounding}({text_of(value)})"
    elif node.type == "subscript_expression" and is_float(place, node) and not _is_written(place):
        yield "precision", f"{rounding}({place.text})"


def _is_written(place: Place) -> bool:
    parent = place.node.parent
    if parent is None or parent.type in ("unary_expression", "pointer_expression"):
        return True
    if parent.type == "subscript_expression":
        return True
    return parent.type == "assignment_expression" and parent.child_by_field_name("left") == place.node
