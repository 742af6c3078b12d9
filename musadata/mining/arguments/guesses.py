"""Guesses at constructor arguments: by what the code says of a parameter, its annotation, its name and its default."""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from musadata.mining.arguments.annotations import Kind
from musadata.mining.arguments.attempts import integers, with_integers
from musadata.mining.arguments.defaults import default_text
from musadata.mining.arguments.facts import CONFIGS, Facts

WIDTH = "24"  # what most parameters are guessed to be
LARGE = 192  # a default width from this on is too large for a task
DEPTHS = re.compile(r"depth$|layers$|blocks$")
SHALLOW = 2
MAX_DEPTH = 3  # of configurations inside each other
RULES: dict[str, str | list[str]] = yaml.safe_load(Path(__file__).with_name("guesses.yaml").read_text(encoding="utf-8"))
MODULES = re.compile(
    r"^(module|model|block|layer|fn|net|encoder|decoder|backbone|head|body|func|function|main|inner|m|f)$"
)
MODULE_TEXTS = ("nn.Identity()", "nn.Linear(24, 24)", "nn.ReLU()")
ACTIVATIONS = ("nn.GELU", "nn.ReLU")


def guess_arguments(signature: inspect.Signature, facts: Facts) -> Iterator[tuple[str, ...]]:
    """Guesses at the required constructor arguments, likeliest first."""
    required = [item for item in signature.parameters.values() if _is_required(item)]
    modest = _modest_defaults(list(signature.parameters.values()), facts)
    if modest:
        yield modest
    yield tuple(guess_value(item, 0, facts) for item in required)
    if required:
        yield tuple(guess_value(item, 1, facts) for item in required)
        yield tuple(guess_value(item, 2, facts) for item in required)


def _modest_defaults(parameters: list[inspect.Parameter], facts: Facts) -> tuple[str, ...]:
    """Arguments in which each large default width is divided by sixteen; () if no default is large."""
    named = [item for item in parameters if item.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    large = [place for place, item in enumerate(named) if type(item.default) is int and item.default >= LARGE]
    sides = [place for place, item in enumerate(named) if _is_large_image(item)]
    large = sorted([*large, *sides])
    if not large:
        return ()
    texts: list[str] = []
    for place, item in enumerate(named[: large[-1] + 1]):
        text = guess_value(item, 0, facts) if _is_required(item) else default_text(item.default)
        if text is None:
            return ()
        if place in sides:
            text = repr(tuple(max(32, side // 4) for side in item.default))
        elif place in large:
            text = str(max(32, item.default // 16))
        texts.append(text)
    return tuple(texts)


def modest(init: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Constructor arguments of an example with smaller widths, images and depths, in proportion to each other."""

    def smaller(value: int) -> int:
        return value if value < LARGE else value // 7 if value % 7 == 0 else value // 8  # 224 is 7 times 32

    made = []
    for place, text in enumerate(init):
        is_depth = place < len(names) and text.isdigit() and DEPTHS.search(names[place])
        scaled = with_integers(text, [smaller(value) for value in integers(text)])
        made.append(str(min(int(text), SHALLOW)) if is_depth else scaled)
    return tuple(made)


def _is_large_image(parameter: inspect.Parameter) -> bool:
    """Whether a default is the two sides of an image which is larger than a task needs."""
    value = parameter.default
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(type(side) is int for side in value)
    return is_pair and min(value) >= LARGE and re.search("size|shape|resolution", parameter.name) is not None


def _is_required(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return named and parameter.default is inspect.Parameter.empty


def guess_value(parameter: inspect.Parameter, variant: int, facts: Facts, depth: int = 0) -> str:
    """An expression. Variant 0: all widths alike; 1: input and output differ; 2: the next best kind of value."""
    text = _guess_value(parameter, variant, facts, depth)
    return str(facts.unit) if text == WIDTH and facts.unit > 1 else text


def _guess_value(parameter: inspect.Parameter, variant: int, facts: Facts, depth: int) -> str:
    name, kind = parameter.name, facts.kind(parameter)
    by_name = guess_by_name(name, variant)
    if by_name == "nn.LayerNorm" and facts.convolves:
        by_name = "nn.BatchNorm2d"
    options = [item for item in (*kind.values, *facts.options.get(name, ())) if _fits(item, kind)]
    if options and by_name not in map(repr, options):
        ordered = sorted(options, key=lambda item: str(item).lower() == "none")
        return repr(ordered[min(variant, len(ordered) - 1)])
    if not kind.scalars and not kind.length:
        config = guess_config(name, facts, depth, variant=variant)
        if config:
            return config
    if name in facts.applied and not kind.is_known and name not in facts.called:
        return _module(by_name, variant)
    plain = depth and by_name in (WIDTH, str(_distinct(name)))  # of a configuration
    if name in facts.optional and (plain or (kind.is_tensor and not kind.scalars)):
        return "None"
    if name in facts.called and (kind.is_function or not kind.is_known):
        made = by_name.partition("(")[0]
        norm = "nn.BatchNorm2d" if facts.convolves else "nn.LayerNorm"
        return made if made.startswith("nn.") else ("nn.ReLU", norm, "nn.Linear")[min(2, facts.called[name])]
    if name in facts.lengths and not kind.is_known and _literal(by_name) is not None:
        kind = Kind(length=min(8, max(2, facts.lengths[name])))
    return _fitted(by_name, kind, variant, name)


def _module(text: str, variant: int) -> str:
    """A module in place of its class, or of what is none."""
    if not text.startswith("nn.") or text.endswith("Norm"):
        return MODULE_TEXTS[variant]
    return text if text.endswith(")") else f"{text}()"


def _fits(value: str | int, kind: Kind) -> bool:
    return value in kind.values or not kind.scalars or type(value).__name__ in kind.scalars


def guess_config(name: str, facts: Facts, depth: int, *, variant: int = 0) -> str:
    """An object or a dictionary with everything that the code reads from a configuration; "" for any other name.

    Args:
        variant: which of the options that the code knows for an item is chosen.
    """
    reads = facts.reads(name)
    is_config = (
        CONFIGS.match(name)
        or name in facts.parts
        or ((len(reads) > 1 or (reads and reads[0] in facts.attributes)) and not MODULES.match(name))
    )
    if depth < MAX_DEPTH and reads and is_config and name not in facts.applied:
        declared = facts.declared.get(name, {})
        items = [f"{item}={_field(declared.get(item, ''), item, facts, depth, variant)}" for item in reads]
        return f"SimpleNamespace({', '.join(items)})"
    keys = facts.keys.get(name, ())
    if depth < MAX_DEPTH and keys and (len(keys) > 1 or CONFIGS.match(name) or name in facts.parts):
        items = [f"{item!r}: {_inner(item, facts, depth, variant)}" for item in keys]
        return "{" + ", ".join(items) + "}"
    return "SimpleNamespace()" if CONFIGS.match(name) and name in facts.attributes and not reads else ""


def _field(declared: str, name: str, facts: Facts, depth: int, variant: int) -> str:
    """The value of an attribute of a configuration whose class may declare a default; variant 0 takes sizes from it."""
    if not declared or (variant and integers(declared)):
        return _inner(name, facts, depth, variant)
    return modest((declared,), (name,))[0]


def _inner(name: str, facts: Facts, depth: int, variant: int) -> str:
    """The value of an attribute or key of a configuration."""
    parameter = inspect.Parameter("_", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not name.isidentifier():
        return "24"
    try:
        parameter = parameter.replace(name=name)
    except ValueError:  # a keyword of Python
        return "24"
    if name == "block_size":  # of a language model: how many tokens it takes
        return "18"
    chosen = variant if facts.options.get(name) or name in facts.parts else 0
    text = guess_value(parameter, chosen, facts, depth + 1)
    return "'gelu'" if text.startswith("nn.") and "act" in name else text  # configurations hold names


def guess_by_name(name: str, variant: int = 0) -> str:
    """An expression for a parameter of this name."""
    name = name.lower()
    if MODULES.match(name):
        return MODULE_TEXTS[variant]
    for pattern, value in RULES.items():
        if re.search(pattern, name):
            return _by_rule(value, name, variant)
    if variant == 2 and re.search(r"channels_list|dims$|widths|sizes|channels$|planes$", name):
        return "(24, 24)"
    return "24" if variant != 1 else str(_distinct(name))


def _by_rule(value: str | list[str], name: str, variant: int) -> str:
    if value == "size":
        return ("24", "(16, 16)", "(24,)")[variant]
    if value == "wide":
        return "24" if variant == 0 else str(_distinct(name))
    if value == "text":
        return "'relu'" if "act" in name else "'mean'"
    return value if isinstance(value, str) else value[variant]


def _fitted(text: str, kind: Kind, variant: int, name: str) -> str:
    """A guess by name, changed to what the annotation asks for."""
    value = _literal(text)
    if kind.length and (variant == 2 or not kind.scalars):
        if isinstance(value, tuple):
            text = text.strip("()").split(",")[0]
        item = text if isinstance(value, (int, float, tuple)) or kind.item == "" else "24"
        item = "0.5" if kind.item == "float" and "." not in item else item
        item = "'relu'" if kind.item == "str" else item
        return "(" + f"{item}, " * (max(1, kind.length) if kind.length > 0 else 2) + ")"
    if kind.is_class:
        return text.partition("(")[0] if text.startswith("nn.") else ("nn.ReLU", "nn.GELU", "nn.Identity")[variant]
    if kind.is_module and not kind.scalars:
        text += "()" * (text in ACTIVATIONS)
        return text if text.startswith("nn.") and text.endswith(")") else MODULE_TEXTS[variant]
    if kind.is_function and not text.startswith("nn.") and not kind.scalars:
        return ("F.relu", "F.gelu", "nn.ReLU")[variant]
    if kind.is_tensor and not kind.scalars:
        return "torch.rand(24)"
    if not kind.scalars or type(value).__name__ in kind.scalars or ("float" in kind.scalars and type(value) is int):
        return text
    if kind.scalars[0] == "int":
        return "2" if isinstance(value, float) else "24" if variant != 1 else str(_distinct(name))
    return {"float": "0.5", "bool": "False", "str": "'relu'" if "act" in name else "'mean'"}[kind.scalars[0]]


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return None


def _distinct(name: str) -> int:
    """A width by the parameter's name, so that input and output widths differ."""
    return 24 if re.search(r"^in|input|^dim$|_in$|embed|d_model|hidden_dim|n_embd|channels$", name) else 36
