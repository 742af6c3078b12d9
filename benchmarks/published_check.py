"""Whether a candidate is right on inputs that its reference declares, without any of the verifier's code.

A task as JSON comes on standard input, and one line of JSON leaves on standard output. The candidate is compiled with
PyTorch's own `load_inline` in the task's folder, where the next one of the same sources finds what was built, and runs
on the device, if there is one. It is right if it agrees with the reference within the tolerances below on all draws but
one in a hundred, where a comparison of nearly equal numbers may turn out differently. `right` is null if it could not
be compiled, and false if it then fails.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch

# relative and absolute; whole numbers and truth values must be equal
TOLERANCES = {torch.float64: (1e-6, 1e-8), torch.float32: (1e-4, 1e-4), torch.float16: (1e-2, 1e-2)}
TOLERANCES[torch.bfloat16] = (3e-2, 3e-2)
_MAY_DIFFER = 0.01  # of the draws


def main() -> int:
    task = json.load(sys.stdin)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # compilers and kernels print, too
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False
    found: dict[str, Any] = {"right": None, "device": torch.cuda.get_device_name() if device == "cuda" else device}
    os.environ["TORCH_EXTENSIONS_DIR"] = task["folder"]
    try:
        reference, candidate = _execute(task["reference"]), _execute(task["candidate"])
        found |= _compare(reference, candidate, device, task["draws"])
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[-3000:]
    said.write(json.dumps(found) + "\n")
    said.flush()
    return 0


def _execute(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "published"}
    exec(compile(text, "<published>", "exec"), names)
    return names


def _compare(reference: dict[str, Any], candidate: dict[str, Any], device: str, draws: int) -> dict[str, Any]:
    expect, model = reference["Model"]().to(device), candidate["ModelNew"]().to(device)
    wrong, first = 0, ""
    for draw in range(draws):
        torch.manual_seed(draw)
        inputs = [value.to(device) for value in reference["get_inputs"]()]
        try:
            with torch.no_grad():
                expected = expect(*(value.clone() for value in inputs))
                different = find_difference(expected, model(*(value.clone() for value in inputs)))
        except Exception as error:
            return {"right": False, "draws": draw + 1, "wrong": wrong + 1, "error": f"draw {draw}: {error!r}"[:2000]}
        wrong += bool(different)
        first = first or (different and f"draw {draw}: {different}")
    return {"right": wrong <= _MAY_DIFFER * draws, "draws": draws, "wrong": wrong, "first": first}


def find_difference(expected: Any, found: Any) -> str:
    """The first difference beyond the tolerance of its dtype; "" if there is none."""
    wanted, given = (value if isinstance(value, Sequence) else [value] for value in (expected, found))
    if len(wanted) != len(given):
        return f"{len(given)} outputs, not {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, given, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"output {number}: {other.dtype} {list(other.shape)}, not {one.dtype} {list(one.shape)}"
        relative, absolute = TOLERANCES.get(one.dtype, (0, 0))
        close = torch.isclose(other, one, rtol=relative, atol=absolute, equal_nan=True)
        if not close.all():
            at = tuple(index.item() for index in (~close).nonzero()[0])
            many = int((~close).sum())
            return f"output {number}: {many} of {close.numel()} differ, {other[at].item()} not {one[at].item()} at {at}"
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
