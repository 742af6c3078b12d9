"""How a wrong program shows that it is wrong, from its verdict: in words that a reader of the program could foresee."""

import re
from functools import cache
from pathlib import Path

import yaml

from musadata.corpus.views.wording import after_comma
from musadata.records import Candidate, Finding

_KERNEL = re.compile(r"\bkernel (\w+)")
_ACCESS = re.compile(r"\ba (read|write) (?:of|past)\b")
_EXTENT = re.compile(r"wrong in (\d+) of (\d+) elements")
_PATTERNS = (
    "The output is all zeros",
    "Each is ",
)  # what compare.py says of all wrong elements
_SETS = re.compile(r"\((Only (?:with|where)[^()]*)\)")
_LONGEST_QUOTE = 160


def describe_symptom(candidate: Candidate) -> str:
    """One or two sentences; empty where the verdict has no finding."""
    if not candidate.findings:
        return ""
    finding = candidate.findings[0]
    wording = _wordings().get(finding.rule)
    if wording is None:
        said = _first_sentence(finding.message)
        if finding.rule.startswith("interface."):
            return f"It compiles. {said}"
        if candidate.error_class is None or not candidate.error_class.is_illegal:
            return f"It compiles and runs. {said}"
        word = said.split(maxsplit=1)[0]  # "An", but not "PyTorch"
        return f"It breaks the rules: {after_comma(said) if word == word.capitalize() else said}"
    text = wording.format(
        kernel=_name_kernel(finding),
        access=_name_access(candidate),
        quote=quote(finding),
        extent=_describe_extent(finding.message),
        where=_describe_sets(finding.message),
    )
    return " ".join([text, *_describe_pattern(finding.message)])


def quote(finding: Finding) -> str:
    """The tool's own words, on one line, without the place that they begin with and the advice that they end with."""
    line = finding.message.splitlines()[0] if finding.message else ""
    line = re.sub(r"^(?:\w+:(?:\d+:)* )?(?=error|fatal)", "", line)
    line = re.split(r"; did you mean|[ .]+\(cpp_sources must|\. The following argument", line, maxsplit=1)[0]
    return line if len(line) <= _LONGEST_QUOTE else line[:_LONGEST_QUOTE].rsplit(" ", 1)[0] + " …"


def kernel_of(finding: Finding) -> str:
    """The kernel that a finding names; "" for none."""
    found = _KERNEL.search(finding.message)
    return found.group(1) if found else ""


def _name_kernel(finding: Finding) -> str:
    name = kernel_of(finding)
    return f"`{name}`" if name else "a kernel"


def _name_access(candidate: Candidate) -> str:
    for finding in candidate.findings:
        found = _ACCESS.search(finding.message)
        if found:
            return f"a {found.group(1)}"
    return "an access"


def _describe_extent(message: str) -> str:
    found = _EXTENT.search(message)
    if found is None:
        return "the results are"
    wrong, total = map(int, found.groups())
    if total == 1:
        return "the result is"
    share = wrong / total
    words = {1.0: "all", 0.9: "nearly all", 0.5: "most", 0.1: "some"}
    word = next((word for least, word in words.items() if share >= least), "a few")
    return f"{word} elements of the output are"


def _describe_sets(message: str) -> str:
    found = _SETS.search(message)
    if found is None:
        return ""
    which = found.group(1).removeprefix("Only ").rstrip(".")
    numbered = re.fullmatch(r"with set of input shapes (\d+)", which)
    return f", with shapes {numbered.group(1)} only" if numbered else f" {which}"


def _describe_pattern(message: str) -> list[str]:
    for opening in _PATTERNS:
        if opening in message and "Each is 1 times" not in message:
            said = _first_sentence(message[message.index(opening) :])
            return [said if ":" not in said else f"{opening}."]  # without the guesses at why
    return []


def _first_sentence(message: str) -> str:
    text = re.split(r"(?<=[^.\d])\.(?= |$)", message.replace("\n", " "), maxsplit=1)[0].strip()
    return text if text.endswith(".") else f"{text}."


@cache
def _wordings() -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(Path(__file__).with_name("symptoms.yaml").read_text(encoding="utf-8"))
    return found
