"""The lines of a reference that never run. `count` runs inside the sandbox."""

import sys
from typing import Any

import torch

from musadata.mining.unrun_statements import statement_lines, watch_lines

FILE = "<reference>"


def count(source: str) -> dict[str, int]:
    """Statements of a reference, and those that neither its construction nor one call executes."""
    wanted = statement_lines(source)
    seen: set[int] = set()
    space: dict[str, Any] = {"__name__": "reference"}
    sys.settrace(watch_lines(FILE, seen))
    try:
        exec(compile(source, FILE, "exec"), space)
        torch.manual_seed(0)
        with torch.no_grad():
            space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())
    finally:
        sys.settrace(None)
    return {"statements": len(wanted), "unrun": len(wanted - seen)}
