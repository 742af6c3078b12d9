"""Preload of the sandbox: captures a small reference once in the process that captures are forked from.

This saves every child the lazy imports inside torch (sympy, the decompositions, fake tensors), about a second.
"""

from pathlib import Path

from musadata.compiler.capturing.capture import capture

_SMALL = Path(__file__).with_name("preload_reference.txt").read_text(encoding="utf-8")
_SHAPES = [
    [{"name": "x", "kind": "normal", "dtype": "float32", "shape": [batch, 2, 8, 5], "low": 0, "high": 0, "literal": ""}]
    for batch in (2, 3)
]
capture(_SMALL, _SHAPES, 0)
