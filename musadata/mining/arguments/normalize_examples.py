"""Converting an example from a docstring or a test to an attempt: positional arguments, and inputs as draws."""

import ast
import inspect
from itertools import zip_longest
from typing import Any

import torch

from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.arguments.defaults import PLAIN, default_text

HALF = ("float16", "bfloat16")


def normalize_example(
    runner: AttemptRunner,
    example: dict[str, Any],
    signature: inspect.Signature,
    forward: inspect.Signature,
    *,
    half: bool = False,
) -> Attempt | None:
    """The attempt that an example shows; without draws if it shows no call, None if its arguments do not fit.

    `half`: keep half types; else all floating inputs are in single precision.
    """
    init = _in_position(example["init"], example["init_keywords"], signature)
    if init is None:
        return None
    try:
        stated = [_plain_default(item) for item in signature.parameters.values()]
        init = tuple(_plain_text(runner, text, default) for text, default in zip_longest(init, stated[: len(init)]))
    except Exception:
        return None
    inputs = _in_position(example["inputs"], example["input_keywords"], forward)
    draws: list[Draw] = []
    for draw in (_as_draw(runner, text, half) for text in inputs or ()):
        if draw is None:
            break
        draws.append(draw)
    required = sum(item.default is inspect.Parameter.empty and item.kind <= 1 for item in forward.parameters.values())
    return Attempt(init, tuple(draws) if len(draws) >= max(1, required) else (), example["evidence"])


def _in_position(
    positional: list[str], keywords: list[list[str]], signature: inspect.Signature
) -> tuple[str, ...] | None:
    """All arguments by position, with defaults written out before the last given one; None if that is impossible."""
    if any(text.startswith("*") for text in positional):
        return None
    given = dict(keywords)
    found = list(positional)
    for item in list(signature.parameters.values())[len(found) :]:
        if not given:
            break
        if item.kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            return None
        if item.name in given:
            found.append(given.pop(item.name))
        else:
            text = default_text(item.default)
            if text is None:
                return None
            found.append(text)
    rest = list(signature.parameters.values())[len(found) :]
    missing = any(item.default is inspect.Parameter.empty and item.kind <= 1 for item in rest)
    return None if given or missing else tuple(found)


def _plain_default(parameter: inspect.Parameter) -> str | None:
    """The default of a parameter if it is a number, a string, or several."""
    return default_text(parameter.default) if isinstance(parameter.default, (int, float, str, tuple)) else None


def _plain_text(runner: AttemptRunner, text: str, default: str | None) -> str:
    """The value of an expression as a literal, or the expression itself if its value has no literal.

    A name that nothing binds is a parameter of the function that shows the example: it is the `default` of what it is
    given for.
    """
    try:
        value = runner.value(text)
    except NameError:
        if default is None or not text.isidentifier():
            raise
        text = default
        value = runner.value(text)
    if isinstance(value, torch.Size):
        value = tuple(value)
    try:
        if ast.literal_eval(repr(value)) == value:
            return repr(value)
    except (ValueError, SyntaxError):
        pass
    return text.replace("torch.nn.functional.", "F.").replace("torch.nn.", "nn.")


def _as_draw(runner: AttemptRunner, text: str, half: bool) -> Draw | None:
    """A draw with the same shape and kind as an input's expression; None if there is none."""
    try:
        torch.manual_seed(0)
        value = runner.value(text)
    except Exception:
        return None
    return _draw_like(value, text, half)


def _draw_like(value: Any, text: str, half: bool) -> Draw | None:
    if isinstance(value, PLAIN):
        return Draw("literal", literal=repr(value), dtype="")
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.layout != torch.strided:
        return None
    shape = tuple(value.shape)
    if half and not value.numel():  # a loop whose values are not known
        return None
    if value.dtype == torch.bool:
        return Draw("bool", shape, dtype="bool")
    value = value.detach()
    low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 0.0)
    dtype = str(value.dtype).removeprefix("torch.")
    magnitudes = value.abs()
    if low < 0 and bool((magnitudes == 1).all()):
        return Draw("sign", shape, dtype="int64" if dtype == "int64" else "float32")
    if "torch.ones(" in text and len(shape) == 1:
        return Draw("sign", shape)
    if not value.is_floating_point():
        if "arange" in text and low < 0:
            return Draw("randn", shape)
        return Draw("randint", shape, _bound(text) or int(high) + 1, dtype)
    kept = dtype if half and dtype in HALF else "float32"
    return Draw("rand" if low >= 0 and high <= 1 and value.numel() > 1 else "randn", shape, dtype=kept)


def _bound(text: str) -> int:
    """The upper bound in `randint(5, …)`, `randint(0, 5, …)` or `.random_(5)`, 0 if there is none."""
    for call in [item for item in ast.walk(ast.parse(text, mode="eval")) if isinstance(item, ast.Call)]:
        name = getattr(call.func, "attr", "")
        keywords = {item.arg: item.value for item in call.keywords}
        numbers = [item.value for item in call.args if isinstance(item, ast.Constant) and type(item.value) is int]
        if isinstance(keywords.get("high"), ast.Constant):
            return int(keywords["high"].value)  # type: ignore[attr-defined]
        if name in ("randint", "random_") and numbers:
            return int(numbers[1] if len(numbers) > 1 else numbers[0])  # type: ignore[call-overload]
    return 0
