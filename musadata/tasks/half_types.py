"""References in half precision: parameters and inputs, by the text."""

import ast
from hashlib import sha256

from musadata.mining.reading.dotted_names import dotted_name
from musadata.tasks.constructor_text import end_constructor_with

DRAWS = ("torch.randn", "torch.rand")
TYPES = ("bfloat16", "float16")


def half_type(reference: str, seed: int, share: float) -> str:
    """The type that a reference is to be recast to, "" for none: a share of all, by a hash of the text and the seed."""
    number = int.from_bytes(sha256(f"half/{seed}/{reference}".encode()).digest()[:8], "big")
    return TYPES[number % len(TYPES)] if number // len(TYPES) < share * (1 << 64) / len(TYPES) else ""


def recast(reference: str, kind: str) -> str:
    """The reference with parameters and drawn inputs of this type; the same text if no input is drawn in single
    precision."""
    tree = ast.parse(reference)
    draws = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs")
    computed = [node for node in ast.walk(draws) if isinstance(node, (ast.Compare, ast.BinOp))]
    compared = {id(part) for node in computed for part in ast.walk(node)}
    places = [
        (node.end_lineno or 0, node.end_col_offset or 0)
        for node in ast.walk(draws)
        if isinstance(node, ast.Call) and dotted_name(node.func) in DRAWS and not node.keywords
        if id(node) not in compared
    ]
    if not places:
        return reference
    lines = [line.encode() for line in reference.splitlines()]
    for number, end in sorted(places, reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[: end - 1].rstrip(b", ") + f", dtype=torch.{kind})".encode() + line[end:]
    text = b"\n".join(lines).decode() + "\n"
    return end_constructor_with(text, f"self.to(torch.{kind})") if _holds_state(tree) else text


def _holds_state(tree: ast.Module) -> bool:
    """Whether layers, parameters or buffers are made somewhere."""
    calls = [dotted_name(node.func) or "" for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(name.removeprefix("torch.").startswith("nn.") or name.endswith("register_buffer") for name in calls)
