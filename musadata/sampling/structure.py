"""What kind of kernel a candidate is, read from its CUDA C++ with names, comments and layout abstracted."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

import tree_sitter_cuda
import yaml
from tree_sitter import Language, Node, Parser

from musadata.syntax import parse

_TECHNIQUES: dict[str, str] = yaml.safe_load(Path(__file__).with_name("techniques.yaml").read_text(encoding="utf-8"))
SHINGLE = 5  # tokens; as in MOSS-style plagiarism detection, long enough that common idioms do not dominate


@dataclass(frozen=True)
class Structure:
    """The shape of a candidate's device code.

    `sources` are its pieces of CUDA C++; `features` names the techniques that were found in them.
    """

    sources: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def label(self) -> str:
        """A readable, groupable name: "kernels=2 block-reduction shared-memory"."""
        return " ".join(self.features)

    @cached_property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        """Token n-grams in which every identifier that the author chose, every literal and every comment is abstracted,
        so renaming changes nothing. Most candidates are compared with no other, so they are found when needed."""
        tokens = [
            _abstract(node) for code in self.sources for node in _leaves(_parser().parse(code.encode()).root_node)
        ]
        return frozenset(zip(*(tokens[start:] for start in range(SHINGLE)), strict=False)) or frozenset([tuple(tokens)])


@lru_cache(maxsize=256)  # several answers to one task hold the same program
def describe_structure(source: str) -> Structure:
    """The structure of a candidate's source: Python with its CUDA C++ in string constants, or bare CUDA C++."""
    sources = cuda_sources(source)
    codes = [_without_comments(code) for code in sources]
    kernels = sum(len(re.findall(r"\b__global__\b", code)) for code in codes)
    features = {name for name, pattern in _TECHNIQUES.items() if any(re.search(pattern, code) for code in codes)}
    return Structure(tuple(sources), (f"kernels={kernels}", *sorted(features)))


def cuda_sources(source: str) -> list[str]:
    """The pieces of CUDA C++ in a candidate, in order; the source itself where it is not Python."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return [source]
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in strings if "__global__" in text]


def similarity(one: Structure, other: Structure) -> float:
    """Jaccard similarity of the shingles, 0 to 1."""
    union = len(one.shingles | other.shingles)
    return len(one.shingles & other.shingles) / union if union else 1.0


def _without_comments(code: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.S)


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def _leaves(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "comment":
            continue
        if node.child_count == 0 or node.type in ("string_literal", "char_literal"):
            yield node
        else:
            stack.extend(reversed(node.children))


def _abstract(node: Node) -> str:
    """A token with its author's choices taken out; CUDA's own names stay, since they are the structure."""
    text = (node.text or b"").decode(errors="replace")
    if node.type in ("identifier", "field_identifier", "type_identifier", "namespace_identifier"):
        return text if text.startswith(("__", "atomic")) or text in _CUDA_NAMES else "name"
    if node.type == "number_literal":
        return "number"
    return "text" if node.type in ("string_literal", "char_literal") else text


_CUDA_NAMES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z", "float4", "half2", "wmma"})
