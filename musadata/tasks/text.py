"""Reference texts as sets of short token sequences, which do not change under renaming and reformatting."""

import hashlib
import keyword
import re
from collections.abc import Sequence

from rensa import RMinHash

PERMUTATIONS = 128
_SEED = 42
SHINGLE = 5  # tokens

# Docstrings and comments are skipped; a name after a dot belongs to an interface, all others are the author's own.
_TOKEN = re.compile(
    r"""(?P<skip>\#[^\n]*|\s*\n[ \t]*(?:\"{3}.*?\"{3}|'{3}.*?'{3})(?=\s*\n)|\s+)"""
    r"""|(?P<text>[rbfuRBFU]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<number>\d[\w.]*(?:[eE][-+]?\d+)?)|(?P<own>(?:self|cls)\.\w+)|(?P<member>\.[A-Za-z_]\w*)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>[^\s\w])""",
    re.DOTALL,
)
_KEPT_NAMES = {*keyword.kwlist, "forward", "range", "len", "int", "float", "bool", "max", "min", "sum", "abs"}
_IMPORT = re.compile(r"^(?:import|from) [^\n]*\n", re.MULTILINE)
_INPUTS = re.compile(r"^def get_(?:init_)?inputs\b", re.MULTILINE)
# Text that does not change the meaning: annotations of plain types, return annotations, a comma before a bracket.
_ANNOTATION = re.compile(
    r":\s*(?:Optional\[)?(?:torch\.)?(?:Tensor|int|float|bool|str|Any)\]?(?:\s*\|\s*None)?(?=\s*[,)=])"
    r"|\s*->[^:\n]+(?=:)|,(?=\s*[)\]])"
)


def tokens(source: str) -> list[str]:
    """The text's tokens, in which the author's own names, numbers and strings are normalized."""
    found = []
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind == "skip":
            continue
        if kind == "name":
            found.append(text if text in _KEPT_NAMES else "n")
        elif kind in ("member", "sign"):
            found.append(text)
        else:
            found.append({"own": "s", "number": "0", "text": "'"}[str(kind)])
    return found


def body(source: str) -> str:
    """The text without annotations, and without what all tasks share: imports, and everything from `get_inputs`."""
    kept = _ANNOTATION.sub("", _IMPORT.sub("", source))
    return _INPUTS.split(kept, maxsplit=1)[0]


def shingles(source: str, size: int = SHINGLE) -> set[str]:
    """Every run of `size` tokens in the task's own part; the whole text if it is shorter than that."""
    found = tokens(body(source))
    if len(found) <= size:
        return {" ".join(found)}
    return {" ".join(found[start : start + size]) for start in range(len(found) - size + 1)}


def text_signature(source: str) -> tuple[int, ...]:
    """A MinHash of 128 values: the share of equal ones estimates the Jaccard similarity of two shingle sets."""
    minhash = RMinHash(num_perm=PERMUTATIONS, seed=_SEED)
    minhash.update(sorted(shingles(source)))
    return tuple(minhash.digest())


def similarity(left: Sequence[int], right: Sequence[int]) -> float:
    """Estimated Jaccard similarity of two signatures."""
    return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)


def shingle_hashes(source: str, size: int) -> frozenset[str]:
    """Shingles as 12 hex digits each, which can be shipped without the text that they were made from."""
    return frozenset(hashlib.sha256(shingle.encode()).hexdigest()[:12] for shingle in shingles(source, size))
