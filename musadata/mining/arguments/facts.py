"""What mined code says of its parameters: annotations, options, and the attributes and keys that are read from them."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from musadata.mining.arguments.annotations import Kind, read_annotation
from musadata.mining.reading.options import Values, find_options

REDUCTION = re.compile(r"\b(?:\w*reduction\w*|\w*ratio|r)\s*=\s*(8|16|32)\b")
UNITS = 4  # of a bottleneck: with one alone, half of all of them compute nothing
# Names of arguments that are configurations.
CONFIGS = re.compile(
    r"^\w*(config|configs|cfgs?|args|opt|opts|hparams?|hps?|params|conf|options|settings|flags|flgs|FLAGS)$"
)
CHAINED = (ast.Attribute, ast.Subscript)
ITERATING = ("zip", "enumerate", "reversed", "list", "tuple")
# What has one of these is no configuration.
OF_TENSORS_AND_MODULES = frozenset(
    {"shape", "dtype", "device", "ndim", "weight", "bias", "data", "T", "in_features", "out_features", "training"}
)
LAYERS = {
    "Linear": "nn.Linear(24, 24)",
    "Conv2d": "nn.Conv2d(24, 24, 3, padding=1)",
    "Embedding": "nn.Embedding(24, 24)",
    "LayerNorm": "nn.LayerNorm(24)",
}
LOOKING_UP = frozenset({"get", "getattr", "hasattr"})


@dataclass(frozen=True)
class Facts:
    """Everything that is known of a module's parameters.

    Attributes:
        options: names -> values that the code compares them with.
        attributes: names -> attributes that are read from them and not called.
        keys: names -> string keys that are read from them.
        annotations: constructor's parameters -> their annotations.
        declared: constructor's parameters that are configurations -> their fields' own defaults.
        lengths: constructors' parameters and items of configurations that are used as sequences -> items needed.
        called: constructors' parameters that are called -> the number of arguments.
        parts: names of the parts of configurations of which something is read.
        applied: constructors' parameters that hold modules: another method calls them.
        optional: names that are compared with None.
        convolves: it has more convolutions than linear layers; its normalization is one of images.
        reduction: what widths are divided by, for a bottleneck such as that of squeeze and excitation; 1 if by nothing.
    """

    options: Mapping[str, Values] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, int] = field(default_factory=dict)
    parts: frozenset[str] = frozenset()
    applied: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    convolves: bool = False
    reduction: int = 1

    @property
    def unit(self) -> int:
        """The smallest width that leaves several units of a bottleneck; 1 if there is none."""
        return UNITS * self.reduction if self.reduction > 1 else 1

    def kind(self, parameter: inspect.Parameter) -> Kind:
        """What the parameter's annotation says."""
        text = self.annotations.get(parameter.name, "")
        if not text and parameter.annotation is not inspect.Parameter.empty:
            annotation = parameter.annotation
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        return read_annotation(text) if text else Kind()

    def reads(self, name: str) -> tuple[str, ...]:
        """The attributes of a configuration; () for a name that holds something else."""
        found = self.attributes.get(name, ())
        return () if OF_TENSORS_AND_MODULES.intersection(found) and not CONFIGS.match(name) else found


def find_facts(source: str, hints: Mapping[str, Any], owner: str) -> Facts:
    """The facts in a reference's text and in what slicing knows besides.

    Args:
        hints: classes by their names in the reference -> `annotations` and `declared` of their constructors.
        owner: the class whose constructor is called.
    """
    nodes = list(ast.walk(ast.parse(source)))
    attributes, keys = _reads(nodes)
    parts = set()
    for name, part in _parts_of_configurations(nodes):
        parts.add(part)
        for table in (attributes, keys):
            if name in table:
                table.setdefault(part, {}).update(table[name])
    known = hints.get(owner, {})
    lengths, called_parameters, applied = _uses_of_parameters(nodes)
    options = find_options(source)
    return Facts(
        options,
        {name: tuple(found) for name, found in attributes.items()},
        {name: tuple(found) for name, found in keys.items()},
        known.get("annotations", {}),
        known.get("declared", {}),
        lengths,
        called_parameters,
        frozenset(parts),
        applied,
        _optional(nodes),
        len(re.findall(r"Conv2d\b", source)) > len(re.findall(r"Linear\b", source)),
        max((int(found) for found in REDUCTION.findall(source)), default=1),
    )


Table = dict[str, dict[str, None]]  # names -> what is read from them, in the order of the text


def _reads(nodes: list[ast.AST]) -> tuple[Table, Table]:
    """The attributes and the string keys that the code reads."""
    attributes: Table = {}
    keys: Table = {}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = _last(node.value)
            if name not in ("", "self") and id(node) not in called and not node.attr.startswith("__"):
                attributes.setdefault(name, {})[node.attr] = None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            _add_key(keys, node.value, node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            _add_key(keys, node.func.value, *node.args[:1])
        elif isinstance(node, ast.Call) and _last(node.func) in ("getattr", "hasattr") and _key(node):
            attributes.setdefault(_last(node.args[0]), {})  # an object that may lack it
    return attributes, keys


def _add_key(keys: Table, holder: ast.expr, *key: ast.expr) -> None:
    if key and isinstance(key[0], ast.Constant) and isinstance(key[0].value, str):
        keys.setdefault(_last(holder), {})[key[0].value] = None


def _parts_of_configurations(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Names that hold a configuration or a part of one, and what the part is called where it is read."""
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name, part = _last(node.targets[0]), _last(node.value)
            if name and part and (CONFIGS.match(name) or CONFIGS.match(_root(node.value))):
                yield name, part
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
            node.value, (ast.Attribute, ast.Subscript)
        ):
            part = _last(node.value)
            if part and CONFIGS.match(_root(node.value)):
                yield part, part


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes starts from, behind `self`."""
    while isinstance(node, CHAINED):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr
        node = node.value
    return getattr(node, "id", "")


def _uses_of_parameters(nodes: list[ast.AST]) -> tuple[dict[str, int], dict[str, int], frozenset[str]]:
    """Constructors' parameters, and what is read from a configuration, that are sequences or are called.

    The first dictionary has their lengths, the second the numbers of arguments of those that the constructor calls,
    and the third has those that other methods call, as they call modules. `self.size = size` in a constructor
    makes a use of `self.size` in any method one of the parameter.
    """
    lengths: dict[str, int] = {}
    called: dict[str, int] = {}
    applied: set[str] = set()
    for owner in [node for node in nodes if isinstance(node, ast.ClassDef)]:
        methods = [item for item in owner.body if isinstance(item, ast.FunctionDef)]
        constructor = next((item for item in methods if item.name == "__init__"), None)
        if constructor is None:
            continue
        names = {item.arg: item.arg for item in constructor.args.args[1:]}
        aliases = dict(_aliases(constructor, names))
        local = {**dict(_locals(constructor, names)), **names}
        for method in methods:
            own = local if method is constructor else {}
            for node in ast.walk(method):
                for item, length in _sequences(node):
                    name = _parameter(item, own, aliases)
                    if name:
                        lengths[name] = max(length, lengths.get(name, 0))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and own and node.func.id in names:
                    called[node.func.id] = max(len(node.args), called.get(node.func.id, 0))
                elif isinstance(node, ast.Call) and method is not constructor:
                    applied |= {_parameter(node.func, {}, aliases)} & names.keys()
    return lengths, called, frozenset(applied)


def _optional(nodes: list[ast.AST]) -> frozenset[str]:
    """Names, also of items of configurations, that the code compares with None, but for a method's own defaults."""
    found: set[str] = set()
    own = {id(node): names for function in nodes for node, names in _compared(function)}
    for node in nodes:
        if isinstance(node, ast.Compare) and _is_none(node.comparators[0]):
            name = _key(node.left) or _last(node.left)
            found |= {name} - own.get(id(node), set())
    return frozenset(found)


def _compared(function: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    """The comparisons in a function, with its parameters that are None by default."""
    if isinstance(function, ast.FunctionDef) and function.name != "__init__":
        arguments = function.args
        defaults = [*zip(arguments.args[::-1], arguments.defaults[::-1], strict=False)]
        names = {item.arg for item, default in defaults if _is_none(default)}
        yield from ((node, names) for node in ast.walk(function) if isinstance(node, ast.Compare))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _key(node: ast.expr) -> str:
    """The name of an item that is looked up: `opt.get("x")`, `getattr(opt, "x")`; "" for all else."""
    found = node.args[:2] if isinstance(node, ast.Call) and _last(node.func) in LOOKING_UP else []
    return next((item.value for item in found if isinstance(item, ast.Constant) and isinstance(item.value, str)), "")


def _locals(constructor: ast.FunctionDef, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Local variables that hold what was read from a configuration as it is."""
    for node in ast.walk(constructor):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, CHAINED):
            held = _parameter(node.value, names, {})
            if held:
                yield node.targets[0].id, held


def _aliases(constructor: ast.FunctionDef, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Attributes that hold a parameter as it was given, or what was read from one."""
    for node in ast.walk(constructor):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            held = _parameter(node.value, names, {})
            if held and _last(node.targets[0].value) == "self":
                yield node.targets[0].attr, held


def _parameter(node: ast.expr, names: Mapping[str, str], aliases: Mapping[str, str]) -> str:
    """The parameter that an expression is, or the item of one (of a configuration); "" for anything else.

    `names`: variables -> the parameters that they hold.
    """
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return aliases.get(node.attr, "")
    return _last(node) if isinstance(node, CHAINED) and _root(node) in names else ""


def _sequences(node: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    """Expressions that a piece of code uses as sequences, and the number of items that they need at least."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        yield node.value, len(node.targets[0].elts)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        yield node.value, node.slice.value + 1 if node.slice.value >= 0 else 2
    elif isinstance(node, (ast.For, ast.comprehension)):
        iterated = (
            node.iter.args if isinstance(node.iter, ast.Call) and _last(node.iter.func) in ITERATING else [node.iter]
        )
        yield from ((item, 2) for item in iterated)
    elif isinstance(node, ast.Call) and _last(node.func) in ("len", *ITERATING):
        yield from ((item, 2) for item in node.args[:2])
    elif isinstance(node, ast.Starred):
        yield node.value, 2


def _last(node: ast.expr) -> str:
    """The name of a variable or an attribute, or the string that something is looked up by."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
