"""Guesses at constructor arguments, by the parameter's name, annotation and default."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from musadata.mining.arguments.normalize_examples import default_text

LARGE = 192  # a default width from this on is too large for a task

RULES: dict[str, str | list[str]] = yaml.safe_load(Path(__file__).with_name("guesses.yaml").read_text(encoding="utf-8"))
MODULES = re.compile(
    r"^(module|model|block|layer|fn|net|encoder|decoder|backbone|head|body|func|function|main|inner|m|f)$"
)


def guess_arguments(signature: inspect.Signature, class_name: str) -> Iterator[tuple[str, ...]]:
    """Guesses at the required constructor arguments, likeliest first."""
    required = [item for item in signature.parameters.values() if _is_required(item)]
    modest = _modest_defaults(list(signature.parameters.values()))
    if modest:
        yield modest
    yield tuple(_guess(item, 0) for item in required)
    if required:
        yield tuple(_guess(item, 1) for item in required)
        yield tuple(_guess(item, 2) for item in required)


def _modest_defaults(parameters: list[inspect.Parameter]) -> tuple[str, ...]:
    """Arguments in which each large default width is divided by sixteen; () if no default is large."""
    named = [item for item in parameters if item.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    large = [place for place, item in enumerate(named) if type(item.default) is int and item.default >= LARGE]
    if not large:
        return ()
    texts: list[str] = []
    for place, item in enumerate(named[: large[-1] + 1]):
        text = _guess(item, 0) if _is_required(item) else default_text(item.default)
        if text is None:
            return ()
        texts.append(str(max(32, item.default // 16)) if place in large else text)
    return tuple(texts)


def _is_required(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return named and parameter.default is inspect.Parameter.empty


def _guess(parameter: inspect.Parameter, variant: int) -> str:
    """An expression. Variant 0: all widths alike; 1: input and output differ; 2: the next best kind of value."""
    name, annotation = parameter.name.lower(), str(parameter.annotation)
    if MODULES.match(name):
        return ("nn.Identity()", "nn.Linear(24, 24)", "nn.ReLU()")[variant]
    for pattern, value in RULES.items():
        if re.search(pattern, name):
            return _by_rule(value, name, annotation, variant)
    if "bool" in annotation:
        return "False"
    if "float" in annotation:
        return "0.5"
    if "str" in annotation and "int" not in annotation:
        return "'relu'"
    if (
        "ist" in annotation
        or "uple" in annotation
        or (re.search(r"channels_list|dims$|widths|sizes|channels$|planes$", name) and variant == 2)
    ):
        return "(24, 24)"
    return "24" if variant != 1 else str(_distinct(name))


def _by_rule(value: str | list[str], name: str, annotation: str, variant: int) -> str:
    if value == "size":
        return ("24", "(16, 16)", "(24,)")[variant] if "uple" not in annotation else "(16, 16)"
    if value == "wide":
        return "24" if variant == 0 else str(_distinct(name))
    if value == "text":
        return "'relu'" if "act" in name else "'mean'"
    return value if isinstance(value, str) else value[variant]


def _distinct(name: str) -> int:
    """A width by the parameter's name, so that input and output widths differ."""
    return 24 if re.search(r"^in|input|^dim$|_in$|embed|d_model|hidden_dim|n_embd|channels$", name) else 36


def guess_config(attributes: dict[str, None]) -> str:
    """A `SimpleNamespace` with the attributes that the code reads from its configuration object."""
    items = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in attributes]
    return f"SimpleNamespace({', '.join(f'{item.name}={_guess(item, 0)}' for item in items)})"
