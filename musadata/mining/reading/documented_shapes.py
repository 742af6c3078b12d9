"""The shapes of inputs that a method's docstring and comments state.

Read are `x: [batch, length, dim]`, `:param x: of shape (B, C, H, W)`, `x (Tensor): NxCxHxW`, `x: batch * len * dim`,
`x shape is [B, C]`, and names such as `depth_b1hw`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from musadata.mining.reading.viewed_inputs import first_binding

MAX_RANK = 6
# Words between a name and its shape that say how an input is drawn.
WHOLE = re.compile(r"long ?tensor|\bint(eger)?s?\b|int(32|64)", re.IGNORECASE)
INDEX = re.compile(r"\btokens?\b|indices|indexes|\bindex\b|\bids\b|\bidx", re.IGNORECASE)  # but for their features
FLAGS = re.compile(r"bool|byte ?tensor", re.IGNORECASE)
NUMBER = re.compile(r"\s*[:(]+\s*(int|integer|float|bool)\b(?!.*(?:[Tt]ensor|list|array))")
TYPES = re.compile(
    r"[(\[`]*\b(?:torch\.|th\.)?(?:autograd\.)?(?:Variable|(?:\w*Tensor|tensor)s?)\b(?:, optional)?[)\]`]*"
    r"(?:\[[\w, .*]+\])?"
)
BRACKETS = re.compile(r"[\[({]((?:[^\[\](){}]|(?<=[x*×] )\([\w +-]+\))+)[\])}]")
# `NxCxHxW`, `B × T`, `batch * len * dim`; one that is no more than a number times another is none.
CROSSED = re.compile(
    r"(?<![\w.])([A-Za-z]\w*|\d+)((?:\s+[xX*×]\s+|[xX×*](?=[A-Z\d(]))(?:\([\w, /+-]+\)|[A-Za-z]\w*|\d+))+"
)
COMPACT = re.compile(r"(?<!\w)[A-Z][a-z]?\d?(?:[x×*](?:\([\w,]+\)|[A-Za-wyz][a-z]?\d?|\d+))+(?!\w)")
SEPARATOR = re.compile(r"\s+[xX*×]\s+|[x×*]")
SUFFIX = re.compile(r"_(b[bcdhklmnstw\d]{1,5})$")  # of a name: `depth_b1hw`
SYMBOL = re.compile(r"[A-Za-z_]\w*$")
TERMS = re.compile(r"[\w\s+*/()-]+$")
COUNTING = re.compile(
    r"batch|size|len|length|num|number|dim|dims|dimension|seq|sequence|hidden|channels?|height|width|features?|heads?"
    r"|nodes|points|samples|frames|steps?|words|tokens|classes|vocab|of|n|max|time|embedding|embed|input|output|src|tgt"
    r"|target|source|model|patches|layers|in|out",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Stated:
    """What is stated of an input.

    `sizes`: numbers, names, and sums or products of both; () for a number. `kind`: "int", "float", "bool" or "".
    """

    sizes: tuple[str, ...]
    kind: str = ""


def documented_shapes(method: ast.FunctionDef, lines: Sequence[str], names: Sequence[str]) -> dict[str, Stated]:
    """Names of a method's parameters -> what its docstring, or else its comments, say of them.

    Args:
        lines: those of the file that holds the method.
    """
    documented = [(0, line) for line in _whole_lines((ast.get_docstring(method) or "").splitlines())]
    own = enumerate(lines[method.lineno - 1 : method.end_lineno], method.lineno)
    comments = [(place, line.partition("#")[2]) for place, line in own if "#" in line]
    rebound = {name: first_binding(method, name) for name in names}
    found: dict[str, Stated] = {}
    for place, text in (*documented, *comments):
        for name in [name for name in names if name not in found and place < rebound[name]]:
            stated = _stated(text, name)
            if stated is not None:
                found[name] = stated
    for name in names:
        suffix = SUFFIX.search(name)
        if suffix:
            found.setdefault(name, Stated(tuple(suffix[1])))
    return found


def _whole_lines(lines: Sequence[str]) -> Iterator[str]:
    """Each line, with the next where it states no shape: descriptions are broken into lines."""
    for place, line in enumerate(lines):
        following = lines[place + 1].strip() if place + 1 < len(lines) else ""
        is_open = re.match(r"\s*[\w.:*()\[\], -]*:", following) is None and next(_shapes(line), None) is None
        yield f"{line} {following}" if is_open else line


def _stated(line: str, name: str) -> Stated | None:
    """What a line says of a name, if it begins with it or with another whose shape stands before."""
    begin = re.compile(rf"^\s*(?:[-*•]\s*)?(?::param\s+(?:[\w.]+\s+)?|@param\s+|:)?[`*]*{name}[`*]*\s*(?=[:(\[\s=,-])")
    found = (
        begin.match(line)
        or re.search(rf"[\])}}][,;]?\s+{name}\s*[:=]\s*(?=[\[(])", line)
        or re.search(rf"(?<![\w.]){name}(?:\.|'s)?\s*(?:shape|size)(?:\(\))?\s*(?:is|[:=])?\s*(?=[\[(])", line)
    )
    if found is None:
        return None
    rest = line[found.end() :]
    if not re.match(r"\s*[:(\[=-]|\s*(?:is|of|are)\b|\s+[A-Z]x", rest):
        return None
    plain = TYPES.sub(" ", rest)
    shape = next(_shapes(plain), None)
    if shape is None:
        number = NUMBER.match(rest)
        return Stated((), number[1].replace("integer", "int")) if number else None
    start, sizes = shape
    words = rest[: start + len(rest) - len(plain)]
    is_whole = WHOLE.search(words) or (INDEX.search(words) and len(sizes) < 3)
    return Stated(sizes, "int" if is_whole else "bool" if FLAGS.search(words) else "")


def _shapes(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The shapes in a text, and where they begin."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for match in BRACKETS.finditer(text):
        inside = match[1].strip()
        crossed = COMPACT.fullmatch(inside) or CROSSED.fullmatch(inside)  # which would be one product else
        sizes = _sizes(SEPARATOR.split(inside) if crossed else inside.split(","))
        found += [(match.start(), sizes)] if sizes else []
    for match in (*CROSSED.finditer(text), *COMPACT.finditer(text)):
        sizes = _sizes(SEPARATOR.split(match[0]))
        found += [(match.start(), sizes)] if sizes and len(sizes) > 1 else []
    yield from sorted(found, key=lambda item: (item[0], -len(item[1])))


def _sizes(parts: Sequence[str]) -> tuple[str, ...] | None:
    """The sizes that the parts of a text are; None if one is something else, as in prose."""
    texts = [part.strip().strip("`'\"$") for part in parts]
    texts = texts[:-1] if len(texts) > 1 and not texts[-1] else texts
    sizes = [_size(text) for text in texts]
    if not 1 <= len(sizes) <= MAX_RANK or any(size is None for size in sizes):
        return None
    if len(sizes) == 1 and not re.match(r"[A-Z]$|batch|bs$|n$", texts[0]):
        return None
    return tuple(size for size in sizes if size is not None)


def _size(text: str) -> str | None:
    if text.isdigit() or SYMBOL.match(text):
        return text
    choice = re.fullmatch(r"\(?(\w+)[,/|]\s*\w+\)?", text)
    if choice and (text.startswith("(") or not choice[1].isidentifier()):
        return choice[1]
    words = text.replace("-", " ").split()
    if all(SYMBOL.match(word) for word in words) and any(COUNTING.fullmatch(word) for word in words):
        return next((word for word in words if "_" in word), "_".join(words))
    if re.search(r"[+*/-]", text) and TERMS.match(text):
        try:
            ast.parse(text, mode="eval")
        except SyntaxError:
            return None
        return text
    return None
