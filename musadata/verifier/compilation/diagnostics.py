"""A compiler's messages as the author of the sources should see them: their own files and lines, nothing of ours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MOST_ERRORS = 8
_MOST_MESSAGE = 400
_MESSAGE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)?\s+"
    r"(?P<kind>fatal error|error|note|\s*required.*)(?::\s*(?P<text>.*))?$"
)
_UNDEFINED = re.compile(r"(?:undefined reference to [`'](?P<a>.+?)'|hidden symbol [`'](?P<b>.+?)' .*isn't defined)")
_BINDINGS = "bindings"
NO_MESSAGE = "the compiler fails without a message about the sources"


@dataclass(frozen=True)
class Diagnostic:
    """One error. `line` is 1-based in the named source, 0 if unknown."""

    file: str
    line: int
    message: str


def read_diagnostics(stderr: str, sources: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """The errors in a compiler's or linker's output, in order, without repeats.

    An error inside a header of ours is put where the candidate's code led to it.
    """
    found: list[Diagnostic] = []
    origin: Diagnostic | None = None  # the last candidate line that an instantiation came from
    for text in stderr.splitlines():
        match = _MESSAGE.match(text)
        undefined = _UNDEFINED.search(text)
        if undefined:
            found.append(Diagnostic("", 0, f"undefined symbol: {undefined['a'] or undefined['b']}"))
        elif match and match["kind"].endswith("error"):
            message = _plain(match["text"] or "")
            if match["file"] in sources or match["file"] == _BINDINGS:
                found.append(Diagnostic(match["file"], int(match["line"]), message))
            else:
                found.append(Diagnostic(origin.file if origin else "", origin.line if origin else 0, message))
            origin = None
        elif match and match["file"] in sources:
            origin = Diagnostic(match["file"], int(match["line"]), "")
    return tuple(dict.fromkeys(found))[:_MOST_ERRORS]


def render_diagnostics(diagnostics: tuple[Diagnostic, ...], sources: Mapping[str, str]) -> str:
    """Text for a person or a model: each error with its line of source."""
    parts = []
    for item in diagnostics:
        if item.file == _BINDINGS:
            parts.append(f"functions: error: {item.message} (cpp_sources must declare every function that is bound)")
            continue
        place = f"{item.file}:{item.line}: " if item.file else ""
        lines = sources.get(item.file, "").splitlines()
        shown = f"\n    {lines[item.line - 1].strip()[:200]}" if 0 < item.line <= len(lines) else ""
        parts.append(f"{place}error: {item.message}{shown}")
    return "\n".join(parts)


_ERROR = re.compile(r"^(?P<file>[\w.]+)[(:](?P<line>\d+)\)?:(?:\d+:)? *(?P<text>(?:fatal )?error.*)$", re.MULTILINE)


def list_errors(stderr: str) -> str:
    """The first errors that nvcc or mcc reports in the candidate's own files, one a line; no paths of this machine."""
    found = [f"{m['file']}:{m['line']}: {m['text']}" for m in _ERROR.finditer(stderr)]
    return "\n".join(dict.fromkeys(found[:_MOST_ERRORS]))


def _plain(message: str) -> str:
    """Without paths of this machine and without the emulator's own names."""
    message = re.sub(r"(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", message)
    message = message.replace("emulator::", "").replace("musadata_", "")
    return message.replace("‘", "'").replace("’", "'")[:_MOST_MESSAGE]
