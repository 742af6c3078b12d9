"""What follows from the figures of a verdict: the step from what a tool reports to where the cause must lie.

Each reading is a pattern over the feedback and what its figures come to. It is a clause: "The report shows that".
"""

import re
from collections.abc import Callable
from math import isclose

Reading = Callable[[re.Match[str]], str]  # "" where the figures say nothing


def read_evidence(feedback: str) -> str:
    """What the figures of a feedback show, as a clause without a full stop; "" where no reading fits."""
    found = ((re.search(pattern, feedback), read) for pattern, read in _READINGS)
    return next(filter(None, (read(match) for match, read in found if match)), "")


def sentence(clause: str) -> str:
    """A clause with a capital and a full stop."""
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."


def _past_the_end(match: re.Match[str]) -> str:
    """Which element an access is at; which byte, where it may be of several elements at once."""
    size, past, whole = map(int, match.groups())
    if size > 8:
        return f"the access of {size} bytes is at byte {whole + past} of an allocation with {whole}"
    return f"the access is at element {(whole + past) // size} of an allocation with {whole // size}"


def _other_shape(match: re.Match[str]) -> str:
    """Which dimensions of a result are others than they should be."""
    got, right = (text.strip("(),").split(", ") for text in match.groups())
    if len(got) != len(right):
        return f"the result has rank {len(got)} and should have rank {len(right)}"
    differ = [place for place, (one, other) in enumerate(zip(got, right, strict=True)) if one != other]
    if len(differ) == 2 and got[differ[0]] == right[differ[1]] and got[differ[1]] == right[differ[0]]:
        return f"dimensions {differ[0]} and {differ[1]} have changed places"
    return f"dimension {differ[0]} is {got[differ[0]]} and should be {right[differ[0]]}" if differ else ""


def _shifted(match: re.Match[str]) -> str:
    """Whether the first error is the largest one, so that elements may be off by a number that is always the same."""
    count, total, got, right, most = int(match[1]), int(match[2]), *map(float, match.groups()[2:])
    error = got - right
    if total == 1 and got and right and not 0.9 < got / right < 1.1:
        return f"the result is {got / right:.4g} times what it should be"
    if count < total or not isclose(abs(error), most, rel_tol=0.01):
        return ""
    off = f"too {'large' if error > 0 else 'small'} by {abs(error):.4g}"
    return f"the result is {off}" if total == 1 else f"the first of {total} elements is {off}, and none is off by more"


_FIRST = r"\A(?:(?!- )[^\n]*\n)*- [^\n]*"  # of the findings: others may be of other inputs
_VALUES, _NUMBER = r"wrong in (\d+) of (\d+) elements", r"(-?[\d.e+-]*\d)"
_READINGS: tuple[tuple[str, Reading], ...] = (
    (
        r"a (?:read|write) of (\d+) bytes (\d+) bytes past the end of a (\d+)-byte",
        _past_the_end,
    ),
    (r"has shape (\([^)]*\)) instead of (\([^)]*\))", _other_shape),
    (r"Only where inputs are strided", lambda found: "contiguous inputs go well and views do not"),
    (
        rf"{_VALUES}.*Each is ([\d.e+-]+) times",
        lambda found: f"all {found[1]} are {found[3]} times what they should be" if float(found[3]) != 1 else "",
    ),
    (
        r"Everything from flat index (\d+) on is wrong",
        lambda found: f"what lies before flat index {found[1]} is right, and all that follows is wrong",
    ),
    (rf"{_FIRST}All of these are NaN", lambda found: "what is wrong is NaN"),
    (
        rf"{_VALUES}(?:, first at \[[^\]]*\])?: {_NUMBER} instead of {_NUMBER}; largest error {_NUMBER}",
        _shifted,
    ),
    (r"Only with other shapes than the first", lambda found: "the first shapes tried go well and others do not"),
)
