"""What error messages of Python and torch say: the one table of patterns on them, which everything else in mining asks.

Each row is tested against the installed torch's own message. The type of an exception is no message: `type_of`.
"""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache


class Said(Enum):
    """One thing that a message may say, and the pattern by which it is told. Groups name sizes, ranks and names."""

    # Two sizes that disagree: the one that there is, and the one that is wanted.
    EXPECTED = r"(?P<want>\d+)(?P<channels> channels)?,? (?:but )?got (?:size )?(?P<got>\d+)\b(?!-?D)"
    SHAPE = r"(?:size \(|\[\*, |to be: \[)(?P<wanted>[\d, ]+)[)\]].* got:? (?:input of size ?)?\[(?P<shape>[\d, ]+)\]"
    SHAPES = r"\(\[(?P<shape>[\d, ]+)\]\).*\[(?P<wanted>[\d, ]+)\]"
    GROUPS = r"to be divisible .* shape \[\d+, (?P<got>\d+)[\d, ]*\] and num_groups=(?P<want>\d+)"
    PRODUCT = r"\(\d+x(?P<got>\d+) and (?P<want>\d+)x\d+\)"
    STATISTICS = r"should contain (?P<got>\d+) elements not (?P<want>\d+)"
    SUM = r"\((?P<got>\d+)\) must match the .*?\((?P<want>\d+)\) at \D*(?P<dim>\d+)"
    JOIN = r"except in dimension \d+\. Expected size (?P<want>\d+) but got size (?P<got>\d+)"
    SPLIT = r"sum exactly to (\d+) \(input tensor's size at dimension (-?\d+)\), but got split_sizes=\[([\d, ]+)\]"
    VIEW = r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)"
    POOLED = r"input size: \(\d+x(?P<side>\d+)x\d+\)\. Calculated output size: \(\d+x(?P<result>-?\d+)x"
    SMALL = (
        r"greater than actual input|ize should be less|utput size is too small|more than 1 (?:spatial|value)"
        r"|maximum size for tensor|at least one|no tensor comes out"
    )
    LARGE = r"can't allocate memory"
    DIVIDES = r"divisible|invalid for input of size|don't multiply up"

    # Numbers of dimensions.
    RANK = r"(?P<got>got |received )?(?P<rank>\d)-?D\b|(?P<word>[Dd]imension|\bdims\b)"
    AXIS = r"Dimension out of range .* got (-?\d)"
    RANKS = r"number of dimensions: got (?P<got>\d) and (?P<want>\d)"
    UNPACK = r"values to unpack \(expected (?P<want>\d+)(?:, got (?P<got>\d+))?"

    # Kinds of values.
    INTEGERS = r"\blong\b(?! (?:int\) and|and float))|LongTensor|int64"
    FLOATS = r"not implemented for 'Long'|floating point|Long and Float|\(long int\) and"
    SHARES = r"between 0 and 1|>= 0|< 0|out of range in self"
    SCALAR = r"Boolean value of Tensor|of a single element|one element tensors|not Tensor|got \(Tensor\)"
    SEQUENCE = r"iterable|not subscriptable|has no len"
    NONE = r"'NoneType'"
    REQUIRED = r"missing \d+ required positional arguments?: '.*"
    ATTRIBUTE = r"'(?P<holder>\w+)' object (?:has no attribute '(?P<name>\w+)'|to (?P<place>buffer))"

    # What no arguments mend.
    DEVICE = r"NVIDIA driver|process group"
    OUTDATED = r"^AttributeError: module '[\w.]+' has no attribute|Legacy autograd function|deprecated since"
    BROKEN = r"super\(type, obj\)|got multiple values for|(?P<abstract>abstract class)"

    def read(self, error: str) -> re.Match[str] | None:
        return _read(self, error)

    def all(self, error: str) -> Iterator[re.Match[str]]:
        return re.finditer(self.value, error, re.DOTALL)


@lru_cache(maxsize=4096)
def _read(said: Said, error: str) -> re.Match[str] | None:
    flags = re.IGNORECASE if said is Said.INTEGERS else 0
    return re.search(said.value, error, re.DOTALL | flags)


NO_TENSOR = "no tensor comes out"  # our own words for a call without a result
ROWS = "rows of one input"  # for a tensor that is unpacked
NO_INPUTS, ANY_INPUTS = "forward takes no inputs", "forward takes inputs of any name"


def type_of(error: str) -> str:
    """The name of the exception's type, which begins an error."""
    return error.partition(":")[0]
