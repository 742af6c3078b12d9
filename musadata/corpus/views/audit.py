"""What makes a program right, kernel by kernel: its own lines against the mistakes that such programs have."""

import re
from collections.abc import Callable, Iterator

from musadata.corpus.views.wording import choose

_KERNEL = re.compile(
    r"^__global__ void (?:__launch_bounds__\(\d+\)\s+)?(\w+)\(([^{;]*)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
_OUTPUT = re.compile(r"(?<!const )\b\w+\*\s+(?:__restrict__\s+)?(\w+)")
_RETURN = re.compile(r"^    if \(([^{};]*>=[^{};]*)\) return;", re.MULTILINE)
_GRID_LOOP = re.compile(r"for \(int (\w+) = [^;]*blockIdx[^;]*; \1 < [^;]*; \1 \+= [^)]*\)")
_STORED = r"^( +)if \(([^{{}}\n]*<[^{{}}\n]*)\) \{{\n(?:\1    [^\n]*\n)*?\1    (?:{outputs})\[[^;\n]*\] ="
_FOURS = re.compile(r"if \(([^{}\n]*\bfirst \+ 3 < \w+)\)")
_ZERO = re.compile(r"\(([^();?]*(?:\([^()]*\)[^();?]*)*<[^;?]*)\)\s*\? [^;]*\[[^;]*\] : (0\.0f|-INFINITY);")
_START = re.compile(r"^ +(?:float|double) (\w+) = (-?INFINITY|0\.0f?|1\.0f?);", re.MULTILINE)
_SLICES = re.compile(r"for \(int start = [^;]*; [^)]*\)")
_JOINED = {"-INFINITY": "max", "INFINITY": "min", "1.0f": "prod", "1.0": "prod", "0.0f": "sum", "0.0": "sum"}
_CONTIGUOUS = re.compile(r"\b(\w+) = \1\.contiguous\(\);")
_CHECK = re.compile(r"TORCH_CHECK\((\w+\.size\(\d+\) == \d+)")
_MOST_KERNELS, _MOST_CLAUSES, _MOST_NAMES = 4, 3, 6


def list_reasons(source: str, key: str, said: str) -> list[str]:
    """Why each kernel of a right program is right, and what its host function sees to. Lines in `said` were told."""
    kernels = _KERNEL.findall(source)
    found: dict[str, str] = {}  # of kernels of which the same is said, the first
    for name, head, body in kernels:
        clauses = [text for write in _CLAUSES for text in write(name, head, body, source) if not _quotes(text, said)]
        text = "; ".join(clauses[:_MOST_CLAUSES])
        if clauses:
            found.setdefault(re.sub(r"`[^`]*`", "", text), f"- `{name}`: {text}.")
    return [*list(found.values())[:_MOST_KERNELS], *_host(source, key)] if kernels else []


def _quotes(text: str, said: str) -> bool:
    """Whether a text quotes a line that was quoted before."""
    return any(line in said for line in re.findall(r"`([^`]{12,})`", text))


def _bounds(name: str, head: str, body: str, source: str) -> Iterator[str]:
    """What keeps threads from elements that are not there, and covers those that are."""
    launch = source.partition(f"{name}<")[0][-600:] if f"{name}<" in source else ""
    grid = re.findall(r"const (?:int|dim3) (blocks\b[^;]*);", launch)
    rounded = f"`{grid[-1]}` rounds up, and " if grid and re.search(r"(?:- 1|\+ \d+)\) / ", grid[-1]) else ""
    if loop := _GRID_LOOP.search(body):
        yield f"`{loop[0]}` reaches every place with any number of blocks, and none past the end"
    elif guard := _RETURN.search(body):
        unit = "whole warps" if "// the whole warp leaves" in body else "threads"
        yield f"{rounded}`if ({guard[1]}) return;` sends {unit} past the end away before they read or store"
    elif fours := _FOURS.search(body):
        yield f"{rounded}only where `{fours[1]}` holds are four elements moved at once; the others go one by one"
    elif stored := re.search(_STORED.format(outputs="|".join(_OUTPUT.findall(head)) or "^"), body, re.MULTILINE):
        yield f"{rounded}only where `{stored[2]}` holds is a result stored"


def _zeros(name: str, head: str, body: str, source: str) -> Iterator[str]:
    """What sticks out of a tile or a window."""
    if _SLICES.search(body) and (zero := _ZERO.search(body)):
        yield f"where `{zero[1]}` fails, `{zero[2]}` is loaded, which adds nothing to the sums"
    elif rest := re.search(r"const int (rest = [^;]* \? [^;]* : 0);", body):
        yield f"`{rest[1]}` tells the loads how many elements are left, and zeros stand for the others"
    elif window := re.search(r"if \((in_\w+ >= 0 && [^{}\n]*)\)", body):
        yield f"`{window[1]}` tests both ends of each axis, so no tap reads a neighbouring row or past the tensor"


def _barriers(name: str, head: str, body: str, source: str) -> Iterator[str]:
    """Whether writing and reading shared memory are kept apart."""
    waits = body.count("__syncthreads();")
    if not (loop := _SLICES.search(body)) or not waits:
        return
    if "current ^ 1" in body:
        yield "the next slice goes to the other half of the tiles (`current ^ 1`), so one barrier for each is enough"
    elif waits == 2 and "__pipeline" not in body:
        yield f"in `{loop[0]}` one barrier stands before a slice is multiplied and one before it is overwritten"


def _reductions(name: str, head: str, body: str, source: str) -> Iterator[str]:
    """Where sums and the like start, and how threads join them."""
    for local, value in _START.findall(body):
        joined = re.search(rf"\b{local} = (\w*(sum|max|min|prod)\w*\({local}(?:, \w+)?\));", body)
        if joined and joined[2] == _JOINED[value]:
            yield (
                f"`{local}` starts from `{value}`, so a thread without a step changes nothing, and `{joined[1]}` joins "
                "what all of them have"
            )
            return
        if value == "-INFINITY":
            yield f"`{local}` starts from `{value}`: from 0 it would be wrong where all values are negative"
            return


def _numbers(name: str, head: str, body: str, source: str) -> Iterator[str]:
    """Overflow and rounding."""
    if shifted := re.search(r"expf\(([^;()]* - \w*(?:max|top|largest|below)\w*)\)", body):
        yield f"the exponent `{shifted[1]}` is 0 or less, so nothing overflows"
    if count := re.search(r"/ (static_cast<(?:float|double)>\((?!\d+\)|\w+_value\))[^;]*?\))[;)]", body):
        yield f"`{count[1]}` divides as a floating-point number"


_CLAUSES: tuple[Callable[[str, str, str, str], Iterator[str]], ...] = (
    _bounds,
    _barriers,
    _reductions,
    _zeros,
    _numbers,
)


def _host(source: str, key: str) -> list[str]:
    """What the host function makes sure of for all kernels."""
    names, checks = list(dict.fromkeys(_CONTIGUOUS.findall(source))), _CHECK.findall(source)
    parts = []
    if names:
        shown = [f"`{name}`" for name in names[:_MOST_NAMES]]
        listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        parts.append(choose("audit_strides", key, names=listed, are="is" if len(names) == 1 else "are"))
    if checks:
        parts.append(choose("audit_sizes", key, check=f"`TORCH_CHECK({checks[0]}, …)`"))
    return [f"- {' '.join(parts)}"] if parts else []
