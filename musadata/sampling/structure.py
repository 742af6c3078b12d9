"""What kind of kernel a candidate is, from its CUDA C++ without names, literals, comments, layout and order.

Nothing that its author says about it counts. Two candidates are compared by launch and memory features and by the
statements of their device code.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from musadata.sampling.device_code import Function, cuda_sources, read_device_code
from musadata.sampling.statements import TECHNIQUES, Tokens
from musadata.sampling.value_flow import Flow, follow_values

_BY_TOKEN, _SOFT = frozenset(TECHNIQUES["tokens"]), frozenset(TECHNIQUES["others"])
SAME_STATEMENTS = 0.85  # from this similarity of statements on, kernels of the same features are the same
_SHINGLE = 4  # tokens; long enough that common idioms do not dominate


@dataclass(frozen=True)
class Structure:
    """The structure of a candidate.

    Attributes:
        kernels: how many it has.
        techniques: memory features and launch geometry that it uses.
        shingles: runs of tokens in the statements of its device code.
    """

    kernels: int
    techniques: frozenset[str]
    shingles: frozenset[int]

    @property
    def algorithm(self) -> str:
        """A readable, groupable family: "shared-memory + warp-shuffle"."""
        return " + ".join(sorted(self.decisive)) or ("plain" if self.kernels else "none")

    @property
    def label(self) -> str:
        """All features in one line: "kernels=2 barrier shared-memory"."""
        return " ".join([f"kernels={self.kernels}", *sorted(self.techniques)])

    @cached_property
    def features(self) -> frozenset[str]:
        """All that launch, memory and fusion show."""
        return self.techniques | {f"kernels={self.kernels}"}

    @cached_property
    def decisive(self) -> frozenset[str]:
        """Those techniques in which nearly identical candidates agree."""
        return self.techniques - _SOFT


@lru_cache(maxsize=256)  # several answers to one task hold the same program
def describe_structure(source: str) -> Structure:
    """The structure of a candidate's source: Python with its CUDA C++ in string constants, or bare CUDA C++."""
    sources = cuda_sources(source)
    functions = [function for code in sources for function in read_device_code(code)]
    names = frozenset(function.name for function in functions if function.name)
    flows = [follow_values(function, names & function.tokens) for function in functions]
    return Structure(
        kernels=sum(function.is_kernel for function in functions),
        techniques=frozenset(_techniques(functions, flows, "\n".join(sources))),
        shingles=_shingles(functions, flows),
    )


def _techniques(functions: list[Function], flows: list[Flow], code: str) -> set[str]:
    found = {mark for one in functions for mark in one.marks} & _BY_TOKEN
    uncommented = ""
    for name, texts in TECHNIQUES["texts"].items():
        if any(text in code for text in texts):
            uncommented = uncommented or _COMMENT.sub(" ", code)
            if any(text in uncommented for text in texts):
                found.add(name)
    if any(flow.is_parallel for flow in flows):
        found.add("grid-stride")
    if any("__shared__" in one.tokens and _is_padded(one.tokens) for each in functions for one in each.statements):
        found.add("padded-shared")
    return found


def _is_padded(declaration: Tokens) -> bool:
    """Whether the rows of a shared array are longer than a power of two, so that columns do not share a bank."""
    if declaration.count("[") < 2:
        return False
    last = declaration[len(declaration) - list(reversed(declaration)).index("[") : -1]
    return "+" in last or (len(last) == 1 and last[0].isdigit() and int(last[0]) % 2 == 1)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def _shingles(functions: list[Function], flows: list[Flow]) -> frozenset[int]:
    """Runs of tokens within sorted statements: neither their order nor that of functions matters."""
    lines = {}
    for function, flow in zip(functions, flows, strict=True):
        roles, fixed = flow.roles, flow.fixed
        for statement in function.statements:
            if statement.target not in fixed:
                line = [roles[token] for token in statement.tokens]
                lines[" ".join(line)] = line
    tokens = [token for line in sorted(lines) for token in (*lines[line], ";")][:-1]
    runs = zip(*(tokens[start:] for start in range(_SHINGLE)), strict=False)
    return frozenset(map(hash, runs)) or frozenset(map(hash, tokens))


def similarity(one: Structure, other: Structure) -> float:
    """Jaccard similarity of the statements, 0 to 1."""
    return _jaccard(one.shingles, other.shingles)


def distance(one: Structure, other: Structure) -> float:
    """How far two structures are from each other, 0 to 1.

    Half of it is the statements and half the features, each by Jaccard's distance.
    """
    return 1 - similarity(one, other) / 2 - _jaccard(one.features, other.features) / 2


def is_near_identical(one: Structure, other: Structure) -> bool:
    """Whether two candidates teach the same thing: equal decisive features, and similar statements."""
    return one.kernels == other.kernels and one.decisive == other.decisive and similarity(one, other) >= SAME_STATEMENTS


def _jaccard(one: frozenset[object], other: frozenset[object]) -> float:
    common = len(one & other)
    union = len(one) + len(other) - common
    return common / union if union else 1.0


__all__ = ["Structure", "cuda_sources", "describe_structure", "distance", "is_near_identical", "similarity"]
