"""Finding equivalents by name: the same computation as a kernel's wrapper, in plain PyTorch, in the same repository."""

import ast
import copy
import re
from collections import defaultdict
from dataclasses import dataclass

from musadata.mining.kernels.repository import Definition, Repository, folder_distance, wrapper_kind

DEFINED = re.compile(r"^(?:class|def)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
METHOD = re.compile(r"^    def[ \t]+(?!test_)([A-Za-z_]\w*)", re.MULTILINE)
# Words in names of plain versions ("scan_ref", "naive_scan", "ScanTorch"), of their files, and of fast ones.
WORDS = (
    "ref reference torch pytorch pt naive native eager slow py python cpu vanilla golden gold baseline original simple"
)
LOWER, UPPER = WORDS.replace(" ", "|"), "|".join([*map(str.capitalize, WORDS.split()), "PyTorch", "PT"])
PLAIN = re.compile(
    rf"^(?:{LOWER})_(?P<after>\w+)$|^(?P<before>\w+?)_(?:{LOWER})$"
    rf"|^(?:{UPPER})(?P<behind>[A-Z]\w*)$|^(?P<front>[A-Z]\w*?)(?:{UPPER})$"
)
PLAIN_FILE = re.compile(r"(?:^|[/_])(?:ref|reference|torch|pytorch|naive|native|eager|slow|golden)(?:_\w+)?\.py$")
FAST = re.compile(
    r"_?(cuda|gpu|fused|fast|flash|efficient|eff|optimized|kernel|autograd|function|func|fn|ops?|forward|fwd|impl|ext"
    r"|apply)_?",
    re.I,
)
VERSION = re.compile(r"_?[vV]\d+(?=$|_|[A-Z])")
MAX_FOLDERS = 2  # between a wrapper and a plain version whose name does not say that it is one


@dataclass(frozen=True)
class Equivalent:
    """A wrapper and a function or module that computes the same without native code.

    `shared`: arguments of both, by their names in the wrapper; `plain_names`: their names in the plain version, if
    these are others; `plain_text`: the plain version's text, where it has to be added to its file first.
    """

    wrapper: Definition
    wrapper_path: str
    plain: Definition
    plain_path: str
    shared: tuple[str, ...]
    evidence: str
    plain_text: str = ""
    plain_names: tuple[str, ...] = ()

    @property
    def is_module(self) -> bool:
        return wrapper_kind(self.wrapper) == "module"


def find_equivalents(repository: Repository) -> list[Equivalent]:
    """Wrappers with a plain version that matches by name and arguments; for each wrapper those first whose name says
    that they are plain, then the nearest."""
    places, kernels = defined_names(repository), near_kernels(repository)
    for name, paths in _test_methods(repository).items():
        places[name] += paths
    by_stem: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in sorted(places):
        by_stem[_stem(name)] += [(path, name) for path in dict.fromkeys(places[name])]
    found: list[Equivalent] = []
    for stem, items in sorted(by_stem.items()) if by_stem else ():
        wrappers = [item for item in items if not _is_told(item[1]) and not PLAIN_FILE.search(item[0])]
        for wrapper in sorted(wrappers) if stem else ():
            others = [item for item in items if item != wrapper and _may_pair(wrapper, item, kernels)]
            others.sort(key=lambda item: (not _is_told(item[1]), folder_distance(wrapper[0], item[0]), item))
            found += [match for item in others if (match := _match(repository, *wrapper, *item)) is not None]
    return sorted(found, key=lambda item: (item.wrapper_path, item.wrapper.name))


def _may_pair(wrapper: tuple[str, str], plain: tuple[str, str], kernels: frozenset[str]) -> bool:
    """Whether names and places allow that one is a plain version of the other.

    One whose name does not say so is near and differs in a word that marks fast ones, or in a version: "SwishV1" beside
    "SwishV3", of which what it needs decides later which is plain.
    """
    if _is_told(plain[1]):
        return True
    near = folder_distance(wrapper[0], plain[0]) <= MAX_FOLDERS and wrapper[1] != plain[1]
    return wrapper[0] in kernels and (near or PLAIN_FILE.search(plain[0]) is not None)


def _is_told(name: str) -> bool:
    return PLAIN.match(name.strip("_")) is not None


def defined_names(repository: Repository) -> dict[str, list[str]]:
    """Every function and class on top level, by name: the files that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in repository.python_paths:
        for name in dict.fromkeys(DEFINED.findall(repository.text(path))):
            if not name.startswith("test"):
                found[name].append(path)
    return found


def near_kernels(repository: Repository) -> frozenset[str]:
    """The files that name an extension, and those that name one of these files."""
    texts = {path: repository.text(path) for path in repository.python_paths}
    near = {path for path in texts if repository.names.of(path) or "torch.ops." in texts[path]}
    stems = {path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2] for path in near}
    if not stems:
        return frozenset()
    named = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(stems))) + r")\b")
    return frozenset(near) | {path for path in texts if named.search(texts[path])}


def _test_methods(repository: Repository) -> dict[str, list[str]]:
    """Plain versions that are methods of a test's class, by name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in repository.python_paths:
        for name in METHOD.findall(repository.text(path)) if "test" in path.lower() else ():
            if PLAIN.match(name.strip("_")):
                found[name].append(path)
    return found


def _stem(name: str) -> str:
    """A name without the words that mark versions: "FusedScanFn", "scan_ref" and "ScanV2" are all "scan"."""
    told = PLAIN.match(name.strip("_"))
    plain = next(group for group in told.groups() if group) if told else name
    return re.sub(r"_", "", FAST.sub("_", VERSION.sub("", plain))).lower()


def _match(repository: Repository, wrapper_path: str, wrapper: str, path: str, name: str) -> Equivalent | None:
    fast, plain, text = definition(repository, wrapper_path, wrapper), definition(repository, path, name), ""
    if plain is None:
        plain = method(repository.module(path), name)
        text = f"\n\n{ast.unparse(plain)}\n" if plain is not None else ""
    if fast is None or plain is None:
        return None
    if (wrapper_kind(fast) == "module") != (wrapper_kind(plain) == "module"):
        return None
    if isinstance(plain, ast.ClassDef) and wrapper_kind(plain) != "module":
        return None
    shared, theirs = shared_arguments(fast, plain), tuple[str, ...]()
    if shared is None:
        shared, theirs = by_position(fast, plain)
    if not shared or (wrapper_kind(fast) == "autograd" and not _in_order(fast, shared)):
        return None  # `apply` takes no arguments by name
    evidence = f"{name} of {path}, by its name"
    return Equivalent(fast, wrapper_path, plain, path, shared, evidence, text, plain_names=theirs)


def definition(repository: Repository, path: str, name: str) -> Definition | None:
    """A function or class on top level of a file."""
    module = repository.module(path)
    for node in module.body if module else ():
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    return None


def method(module: ast.Module | None, name: str) -> ast.FunctionDef | None:
    """A method that does not need its object, as a function."""
    for owner in module.body if module else ():
        for node in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return as_function(node)
    return None


def as_function(node: ast.FunctionDef) -> ast.FunctionDef | None:
    """A method as a function; None if it needs its object."""
    found = copy.deepcopy(node)
    static = any("staticmethod" in ast.unparse(item) for item in node.decorator_list)
    if not static and found.args.args:
        owner = found.args.args.pop(0).arg
        if any(isinstance(item, ast.Name) and item.id == owner for item in ast.walk(found)):
            return None
    found.decorator_list = []
    return found


def shared_arguments(fast: Definition, plain: Definition) -> tuple[str, ...] | None:
    """Names of the arguments that either requires, in the wrapper's order; None if the other one lacks one of them."""
    ours, theirs = arguments_of(fast), arguments_of(plain)
    if ours is None or theirs is None:
        return None
    needed = {name for name, required in [*ours, *theirs] if required}
    names, others = [name for name, _ in ours], {name for name, _ in theirs}
    if not needed or not needed <= set(names) or not needed <= others:
        return None
    return tuple(name for name in names if name in needed)


def by_position(fast: Definition, plain: Definition) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The required arguments of both, if these are equally many, by their names in both; else nothing."""
    ours, theirs = ([name for name, required in arguments_of(node) or () if required] for node in (fast, plain))
    return (tuple(ours), tuple(theirs)) if len(ours) == len(theirs) else ((), ())


def arguments_of(node: Definition) -> list[tuple[str, bool]] | None:
    """The arguments of a function, of an autograd function, or of a module's `forward`; whether each is required."""
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward"]
    function = node if isinstance(node, ast.FunctionDef) else next(iter(methods), None)
    if function is None or function.args.vararg or any(default is None for default in function.args.kw_defaults):
        return None
    positional = [*function.args.posonlyargs, *function.args.args]
    first = 0 if isinstance(node, ast.FunctionDef) else 1  # self or ctx
    optional = len(positional) - len(function.args.defaults)
    return [(item.arg, place < optional) for place, item in enumerate(positional)][first:]


def write_module(name: str, node: Definition, arguments: tuple[str, ...], parent: str) -> str:
    """The text of a module that calls a function with its inputs, to be appended to the function's file."""
    call = f"{parent}.apply" if isinstance(node, ast.ClassDef) else parent
    positional = _in_order(node, arguments)
    handed = ", ".join(arguments if positional else (f"{item}={item}" for item in arguments))
    return (
        f"\n\nimport torch\n\n\nclass {name}(torch.nn.Module):\n"
        f"    def forward(self, {', '.join(arguments)}):\n        return {call}({handed})\n"
    )


def _in_order(node: Definition, arguments: tuple[str, ...]) -> bool:
    known = [name for name, _ in arguments_of(node) or []]
    return known[: len(arguments)] == list(arguments)
