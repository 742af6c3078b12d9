"""Plain values that a tree sets by name: defaults of command lines, configuration classes, YAML and JSON files.

`Generator(args.z_dim, self.widths)` in a script says what a generator takes once `--z_dim` and `--widths` are known.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from musadata.mining.reading.dotted_names import last_name
from musadata.mining.slicing.definition_index import PackageIndex

# Names of arguments that are configurations.
CONFIGS = re.compile(
    r"^\w*(config|configs|cfgs?|args|opt|opts|hparams?|hps?|params|conf|options|settings|flags|flgs|FLAGS)$"
)
WORDS = r"(?:config|cfg|arg|opt|hparam|hp|param|conf|setting|flag)\w*"
MAX_FILES = 300  # of each kind that are read, in one tree
MAX_TEXT = 1 << 15  # characters of a file of settings
MAX_ITEMS = 16  # of a sequence
SETTING = re.compile(r"add_argument\(|\bDEFINE_\w+\(|^class +\w*(?:" + WORDS + r")\b", re.IGNORECASE | re.MULTILINE)
DATA = re.compile(r"\.(ya?ml|json)$")


class Settings:
    """The settings of one tree, read when the first is asked for; of several with one name the first."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._values: dict[str, str] | None = None

    @property
    def values(self) -> Mapping[str, str]:
        """Names -> expressions."""
        if self._values is None:
            self._values = {}
            for name, value in self._read():
                if _is_plain(value) and value is not None:
                    self._values.setdefault(name, repr(value))
        return self._values

    def _read(self) -> Iterator[tuple[str, Any]]:
        paths = self._index.tree.paths()
        for path in [path for path in paths if path.endswith(".py")][:MAX_FILES]:
            text = self._index.text(path)
            if SETTING.search(text):
                with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                    yield from _in_code(ast.parse(text))
        for path in [path for path in paths if DATA.search(path)][:MAX_FILES]:
            text = self._index.text(path)
            if len(text) <= MAX_TEXT:
                with suppress(yaml.YAMLError, ValueError, RecursionError):
                    yield from _in_data(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def settled(text: str, values: Mapping[str, str]) -> str:
    """An expression with the values of the settings that it reads: `args.width`, `self.width`, `cfg["width"]`.

    What is read and not set becomes a name by itself, for which a value may be guessed.
    """
    if text.startswith("*"):
        return text
    return ast.unparse(_Settler(values).visit(ast.parse(text, mode="eval")))


class _Settler(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, str]):
        self._values = values

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._value(node.attr) if _is_setting(node.value) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, str) and key.isidentifier() and _is_setting(node.value):
            return self._value(key)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if last_name(node.func) == "len" and len(node.args) == 1 and isinstance(node.args[0], ast.Attribute):
            return self.visit_Attribute(node.args[0])  # of a vocabulary or of labels, whose number is all that counts
        self.generic_visit(node)
        return node

    def _value(self, name: str) -> ast.expr:
        return ast.parse(self._values.get(name, name), mode="eval").body


def _is_setting(node: ast.expr) -> bool:
    """Whether something is read from a configuration: a chain of attributes and keys behind one, or behind `self`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and (node.id == "self" or CONFIGS.match(node.id) is not None)


def _in_code(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The defaults of command lines, and the attributes of classes that are called configurations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = last_name(node.func)
            if called == "add_argument" and node.args:
                yield from _of_argument(node)
            elif called.startswith("DEFINE_") and len(node.args) > 1:
                yield str(_constant(node.args[0])), _constant(node.args[1])
        elif isinstance(node, ast.ClassDef) and re.search(WORDS, node.name, re.IGNORECASE):
            for item in ast.walk(node):
                if isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value is not None:
                    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                    yield from ((last_name(target), _constant(item.value)) for target in targets)


def _of_argument(call: ast.Call) -> Iterator[tuple[str, Any]]:
    keywords = {item.arg: item.value for item in call.keywords}
    flags = [str(_constant(item)) for item in call.args]
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    name = str(_constant(keywords["dest"])) if "dest" in keywords else long.lstrip("-").replace("-", "_")
    default = _constant(keywords["default"]) if "default" in keywords else None
    kind = last_name(keywords["type"]) if "type" in keywords else "str"
    if default is None and "choices" in keywords:
        choices = _constant(keywords["choices"])
        default = choices[0] if isinstance(choices, (list, tuple)) and choices else None
    if default is None and "action" in keywords:
        default = {"store_true": False, "store_false": True}.get(str(_constant(keywords["action"])))
    if isinstance(default, str) and kind != "str":  # which the command line converts
        default = _evaluated(default)
    if isinstance(default, int) and kind == "float":
        default = float(default)
    yield name, default


def _in_data(data: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The keys of nested dictionaries that hold plain values."""
    if isinstance(data, dict) and depth < 8:
        for key, value in data.items():
            if isinstance(value, dict):
                yield from _in_data(value, depth + 1)
            elif isinstance(key, str):
                yield key, value


def _constant(node: ast.expr) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None


def _evaluated(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= MAX_ITEMS and all(map(_is_plain, value))
    return isinstance(value, (int, float, str, bool)) or value is None
