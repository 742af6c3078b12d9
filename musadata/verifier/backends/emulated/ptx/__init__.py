"""Translating inline PTX into calls of the C++ functions of emulator/ptx.h, which do what the instructions do."""

import re
from dataclasses import dataclass, field

from musadata.cpp import Code
from musadata.verifier.backends.emulated.ptx.instructions import statement
from musadata.verifier.backends.emulated.ptx.operands import SPECIAL, TYPES, Operand
from musadata.verifier.compilation.compile_errors import Unsupported

_CONSTRAINTS = {"h": "uint16_t", "r": "uint32_t", "l": "uint64_t", "f": "float", "d": "double"}
_WHOLE_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)[uU]?")
_DECIMAL = re.compile(r"-?\d+\.\d*([eE][+-]?\d+)?")
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.+)", re.DOTALL)
_OFFSET = re.compile(r"(.+?)\s*\+\s*(-?\s*(?:0[xX][0-9a-fA-F]+|\d+))$")
_LITERALS = re.compile(r'\s*(?:"_*"\s*)*')
_CONSTRAINT = re.compile(r'"[=+&]*(\w?)')
_RAW = re.compile(r'R"([^(]*)\((.*)\)\1"', re.DOTALL)


@dataclass
class _Scope:
    """What the names in a template stand for, as C++."""

    line: int
    operands: list[str]
    named: dict[str, str]
    registers: dict[str, str] = field(default_factory=dict)


def translate(statement: Code, line: int) -> str:
    """C++ for the inside of the brackets of an `asm` statement, without its semicolon.

    Raises:
        Unsupported: an instruction, or how one is written, is not known.
    """
    template, scope = _parse(statement, line)
    texts = []
    for piece in template.split(";"):
        text = piece.strip()
        while text[:1] in ("{", "}"):
            texts.append(text[0])
            text = text[1:].strip()
        if text:
            texts.append(_instruction(text, scope) + ";")
    return "do { " + " ".join(texts) + " } while (0)"


def _parse(inside: Code, line: int) -> tuple[str, _Scope]:
    sections, start = list[Code](), 0
    while not sections or start <= len(inside.mask):
        end = inside.outside(":", start)
        sections.append(inside[start:end])
        start = end + 1
    if not _LITERALS.fullmatch(sections[0].mask):
        raise Unsupported(f"inline PTX that a macro puts together (line {line})")
    scope = _Scope(line, [], {})
    for section, is_output in zip(sections[1:3], (True, False), strict=False):
        for part in section.split_commas():
            _add_operand(part, is_output, scope)
    return _plain_text(sections[0]), scope


def _plain_text(literals: Code) -> str:
    template = ""
    for found in literals.find(r'"_*"'):
        literal = str(literals[found.start() : found.end()])
        raw = _RAW.fullmatch(literal)
        text = literal[1:-1].replace("\\\n", "").replace("\\n", "\n").replace("\\t", " ").replace("\\r", " ")
        template += raw[2] if raw else text.replace('\\"', '"')
    template = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.DOTALL)
    return template.replace("%%", "%")


def _add_operand(part: Code, is_output: bool, scope: _Scope) -> None:
    """`[name] "=r"(lane)`: an output is the variable itself, an input the bits of its value."""
    constraint, opening = _CONSTRAINT.search(str(part)), part.mask.find("(")
    if opening < 0:
        return
    text = str(part[opening : part.closing(opening) + 1])
    letter = constraint[1] if constraint else ""
    if not is_output and letter in _CONSTRAINTS:
        text = f"emulator::ptx::as<{_CONSTRAINTS[letter]}>({text})"
    label = str(part[:opening]).strip()
    if label.startswith("["):
        scope.named[label[1:].split("]")[0].strip()] = text
    scope.operands.append(text)


def _instruction(text: str, scope: _Scope) -> str:
    declared = _REGISTERS.fullmatch(text)
    if declared:
        return _declare(declared[1], declared[2], scope)
    if text.startswith(".pragma"):
        return "(void)0"
    guard = _GUARD.match(text)
    condition = ""
    if guard:
        condition = f"if ({guard[1]}({_value(guard[2], scope)})) "
        text = text[guard.end() :]
    opcode, _, rest = " ".join(text.split()).partition(" ")
    operands = [_operand(part, scope) for part in _split(rest)]
    if any(operand is None for operand in operands):
        unknown = _split(rest)[operands.index(None)]
        raise Unsupported(f"{unknown} in inline PTX (line {scope.line})")
    made = statement(opcode, [operand for operand in operands if operand is not None])
    if not made:
        raise Unsupported(f"inline PTX {opcode} (line {scope.line})")
    return f"{condition}{{ {made}; }}" if condition else made


def _declare(kind: str, names: str, scope: _Scope) -> str:
    """`.reg .pred p, q`: variables of C++, whose names may be its keywords."""
    cpp = "bool" if kind == "pred" else TYPES.get(kind, "")
    listed = [name.strip() for name in names.split(",")]
    if not cpp or not all(re.fullmatch(r"[\w$%]+", name) for name in listed):
        raise Unsupported(f"inline PTX .reg .{kind} {names} (line {scope.line})")
    for name in listed:
        scope.registers[name] = "emulator_ptx_" + re.sub(r"\W", "_", name)
    return f"{cpp} " + ", ".join(f"{scope.registers[name]}{{}}" for name in listed)


def _split(text: str) -> list[str]:
    """At the commas outside of braces and brackets, and between a register and its predicate."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character in ",|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text.strip() else []


def _operand(text: str, scope: _Scope) -> Operand | None:
    if text.startswith("{") and text.endswith("}"):
        values = [_value(part.strip(), scope) for part in text[1:-1].split(",")]
        return None if None in values else Operand(tuple(value for value in values if value is not None))
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        offset = _OFFSET.fullmatch(inner)
        base = _value(offset[1] if offset else inner, scope)
        if base is None:
            return None
        shift = f" + ({offset[2]})" if offset else ""
        return Operand((f"emulator::ptx::as<uint64_t>({base}){shift}",), is_address=True)
    negated = text.startswith("!")
    value = _value(text.lstrip("!"), scope)
    return None if value is None else Operand((f"!({value})" if negated else value,))


def _value(text: str, scope: _Scope) -> str | None:
    """C++ for a register, an operand by its number or name, or a number; None for anything else."""
    if text in scope.registers:
        return scope.registers[text]
    if text == "_":  # a result that is not used
        return text
    if text in SPECIAL:
        return SPECIAL[text]
    numbered = re.fullmatch(r"%(\d+)", text)
    if numbered:
        number = int(numbered[1])
        return scope.operands[number] if number < len(scope.operands) else None
    named = re.fullmatch(r"%\[(\w+)\]", text)
    if named:
        return scope.named.get(named[1])
    bits = re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text)
    if bits:
        return f"__uint_as_float(0x{bits[1]}u)"
    double = re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text)
    if double:
        return f"__longlong_as_double(0x{double[1]}ll)"
    if _WHOLE_NUMBER.fullmatch(text):
        return text
    return text if _DECIMAL.fullmatch(text) else None
