"""From an address in a candidate's code to the line of its source: a table beside the library, made by objdump.

The table is made where compilers may run, so that the sandboxed child only reads a file.
"""

import bisect
import re
import shutil
from functools import cache
from pathlib import Path

from musadata.verifier.compilation.contained_run import CompileLimits, run_contained

_TABLE = "lines.txt"
_INLINED_ROWS = 40
_ROW = re.compile(r"^(?P<file>\S+)\s+(?P<line>\d+)\s+(?P<address>0x[0-9a-f]+)")


def write_lines(work: Path, library: Path, folder: Path, limits: CompileLimits) -> None:
    """Write the line table of `library` into `folder`; without binutils' objdump there is none."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return
    run_contained([objdump, "--dwarf=decodedline", str(library)], work, limits, stdout="decoded.txt")
    rows = []
    for text in (work / "decoded.txt").read_text(encoding="utf-8", errors="replace").splitlines():
        match = _ROW.match(text)
        if match:
            rows.append((int(match["address"], 16), match["file"], match["line"]))
    table = "".join(f"{address} {file} {line}\n" for address, file, line in sorted(set(rows)))
    (folder / _TABLE).write_text(table, encoding="utf-8")


def find_line(library: str, offset: int) -> tuple[str, int]:
    """Source name and 1-based line of the instruction before `offset`; ("", 0) if unknown or not the candidate's."""
    addresses, places = _read(library)
    index = bisect.bisect_left(addresses, offset) - 1
    # Code of a header of ours stands inlined behind the candidate's line that led to it.
    for place in reversed(places[max(0, index - _INLINED_ROWS) : index + 1]):
        if place[0].startswith(("cuda_source", "cpp_source")):
            return place
    return "", 0


@cache
def _read(library: str) -> tuple[list[int], list[tuple[str, int]]]:
    table = Path(library).with_name(_TABLE)
    if not table.exists():
        return [], []
    rows = [text.split() for text in table.read_text(encoding="utf-8").splitlines()]
    return [int(row[0]) for row in rows], [(row[1], int(row[2])) for row in rows]
