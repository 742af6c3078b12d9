"""Corrections of what kind of thing an argument is: a layer with the attributes that are read, a dictionary, a list."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from torch import nn

from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.defaults import default_text
from musadata.mining.arguments.guesses import guess_by_name
from musadata.mining.arguments.input_shapes import draw_input
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.reading.dotted_names import is_own
from musadata.mining.slicing.constructors import own_method

LACKING = re.compile(r"'(?:int|float|str|bool|tuple|NoneType|Identity|Linear|ReLU)' object has no attribute '(\w+)'")
# Layers, and a loss, of which modules are made that take one apart.
LAYERS = (
    "nn.Linear(24, 24)",
    "nn.Conv2d(24, 24, 3, padding=1)",
    "nn.BatchNorm2d(24)",
    "nn.LayerNorm(24)",
    "nn.Embedding(50, 24)",
    "nn.LSTM(24, 24)",
    "nn.MultiheadAttention(24, 4)",
    "nn.BCEWithLogitsLoss()",
)
OF_DICTIONARIES = frozenset({"items", "keys", "values", "get"})
LIST_WANTED = re.compile(
    r"can only concatenate list \(not \"tuple\"\)|'tuple' object (does not support item|has no attribute '"
    r"(append|extend|insert|pop|remove|copy|reverse|sort)')"
)
INPUTS_WANTED = re.compile(r"^TypeError: \w+\.forward\(\) missing \d+ required positional arguments?: (.+)")
MAPPING_WANTED = re.compile(r"argument after \*\* must be a mapping")
PARAMETER_WANTED = re.compile(r"cannot assign '[\w.]+Tensor' as parameter")
KEYS = ("first", "second")  # of a dictionary whose keys the code does not name


ABSENT = ("AbsentPackage", "NameError")
NORMS = re.compile(r"norm|bn$|abn|^bn", re.I)


def replace_norms(attempt: Attempt, known: Parameters) -> Iterator[Attempt]:
    """PyTorch's batch norm in place of a default class of normalization that the code cannot run."""
    for place, item in enumerate(known.init[len(attempt.init) :], len(attempt.init)):
        between = [default_text(other.default) for other in known.init[len(attempt.init) : place]]
        is_norm = isinstance(item.default, type) and issubclass(item.default, nn.Module) and NORMS.search(item.name)
        if is_norm and None not in between:
            yield replace(attempt, init=(*attempt.init, *map(str, between), "nn.BatchNorm2d"))


def repair_kinds(attempt: Attempt, error: str, line: str, known: Parameters) -> Iterator[Attempt]:
    """Variants of a failed attempt in which an argument is another kind of thing, or an input is added.

    Args:
        error, line: see `musadata.mining.arguments.repairs.repair.repair`.
    """
    yield from _give_more(attempt, error, known)
    if error.startswith(ABSENT):
        yield from replace_norms(attempt, known)
    lacking = LACKING.search(error)
    for place, (item, text) in enumerate(zip(known.init, attempt.init, strict=False)):
        read = attributes_read(known.source, item.name) if lacking else frozenset()
        if lacking and lacking[1] in read:
            for other in _with_attributes(read, known.facts.keys.get(item.name, ())):
                yield _with_init(attempt, place, other)
        if MAPPING_WANTED.search(error) and (keys := keys_spread(known.source, item.name)) is not None:
            yield _with_init(attempt, place, _dictionary(keys))
        if PARAMETER_WANTED.search(error) and text.startswith("torch."):
            yield _with_init(attempt, place, f"nn.Parameter({text})")
        if LIST_WANTED.search(error) and text.startswith("("):
            yield _with_init(attempt, place, as_list(text))


def _give_more(attempt: Attempt, error: str, known: Parameters) -> Iterator[Attempt]:
    """The inputs that a module needs to which `forward(self, *inputs)` hands all that it gets."""
    wanted = INPUTS_WANTED.search(error)
    if wanted and attempt.draws and any(item.kind is item.VAR_POSITIONAL for item in known.forward):
        names, shape = re.findall(r"'(\w+)'", wanted[1]), attempt.draws[0].shape
        more = tuple(draw_input(name, shape, known.source) for name in names)
        yield replace(attempt, draws=attempt.draws + more)


def _with_attributes(read: frozenset[str], keys: tuple[str, ...]) -> Iterator[str]:
    """Dictionaries and layers that have all attributes which are read."""
    if read <= OF_DICTIONARIES:
        yield _dictionary(keys or KEYS)
    for text in LAYERS:
        if read <= _attributes_of(text):
            yield text.replace(")", ", padding_idx=0)") if "padding_idx" in read else text  # it has to be a number


def _dictionary(keys: Iterable[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {guess_by_name(key)}" for key in keys) + "}"


@lru_cache(maxsize=64)
def keys_spread(source: str, name: str) -> tuple[str, ...] | None:
    """What a function or class of the source needs besides what a call gives it, where `**name` gives the rest.

    None if no call spreads a parameter of this name.
    """
    tree = ast.parse(source)
    constructors = {node.name: own_method(node, "__init__") for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = constructors | {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
        if any(item.arg is None and is_own(item.value, name) for item in call.keywords):
            taken = functions.get(ast.unparse(call.func))
            named = [item.arg for item in taken.args.args] if taken is not None else []
            required = named[: len(named) - len(taken.args.defaults)] if taken is not None else []
            given = len(call.args) + (ast.unparse(call.func) in constructors)
            return tuple(key for key in required[given:] if key not in {item.arg for item in call.keywords})
    return None


@lru_cache(maxsize=16)
def _attributes_of(text: str) -> frozenset[str]:
    """The attributes of a layer."""
    return frozenset(dir(eval(text, {"nn": nn})))


@lru_cache(maxsize=64)
def attributes_read(source: str, name: str) -> frozenset[str]:
    """The attributes that code reads from a constructor's parameter, also in the function that it is handed to."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = set()
    for owner in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        for node in ast.walk(owner):
            if isinstance(node, ast.Attribute) and is_own(node.value, name):
                found.add(node.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                function = functions[node.func.id]
                for given, taken in zip(node.args, function.args.args, strict=False):
                    if is_own(given, name):
                        found |= _read_in(function, taken.arg)
    return frozenset(found)


def _read_in(function: ast.FunctionDef, name: str) -> set[str]:
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == name}


def as_list(text: str) -> str:
    """The expression of a list in place of that of a tuple."""
    return f"[{text[1:-1].strip().removesuffix(',')}]"


def as_tuple(text: str) -> str:
    """The expression of a tuple in place of that of a list."""
    return f"({text[1:-1]},)" if text != "[]" else "()"


def _with_init(attempt: Attempt, place: int, text: str) -> Attempt:
    return replace(attempt, init=(*attempt.init[:place], text, *attempt.init[place + 1 :]))
