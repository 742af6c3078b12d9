"""Finding equivalents by name: the same computation as a kernel's wrapper, in plain PyTorch, in the same repository."""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass

from musadata.mining.kernels.repository import Definition, Repository, folder_distance, wrapper_kind

DEFINED = re.compile(r"^(?:class|def)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
# Names of plain versions ("scan_ref", "naive_scan", "ScanTorch"), and words in names of fast ones.
PLAIN = re.compile(
    r"^(?:ref|reference|torch|pytorch|naive|native|eager|slow|py|python|cpu|vanilla)_(?P<after>\w+)$"
    r"|^(?P<before>\w+?)_(?:ref|reference|torch|pytorch|naive|native|eager|slow|py|python|cpu|vanilla|golden|gold)$"
    r"|^(?:Ref|Reference|Torch|PyTorch|Pytorch|Naive|Native|Eager|Slow|Python|Vanilla)(?P<behind>[A-Z]\w*)$"
    r"|^(?P<front>[A-Z]\w*?)(?:Ref|Reference|Torch|PyTorch|Pytorch|Naive|Native|Eager|Slow|Python|Vanilla)$"
)
FAST = re.compile(r"_?(cuda|gpu|fused|fast|kernel|autograd|func|function|fn|ops?|forward|fwd|impl|ext|apply)_?", re.I)


@dataclass(frozen=True)
class Equivalent:
    """A wrapper and a function or module that computes the same without native code.

    `shared`: arguments of both. `plain_text`: the function's text, where it has to be added to its file first.
    """

    wrapper: Definition
    wrapper_path: str
    plain: Definition
    plain_path: str
    shared: tuple[str, ...]
    evidence: str
    plain_text: str = ""

    @property
    def is_module(self) -> bool:
        return wrapper_kind(self.wrapper) == "module"


def find_equivalents(repository: Repository) -> list[Equivalent]:
    """Wrappers with a plain version that matches by name and arguments; the nearest one for each wrapper."""
    places = defined_names(repository)
    by_stem: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in sorted(places):
        if not PLAIN.match(name):
            by_stem[_stem(name)] += [(path, name) for path in places[name]]
    found: dict[tuple[str, str], Equivalent] = {}
    for name in sorted(places):
        told = PLAIN.match(name)
        for path in places[name] if told else ():
            stem = _stem(next(group for group in told.groups() if group)) if told else ""
            near = sorted(by_stem.get(stem, ()), key=lambda item: (folder_distance(path, item[0]), item))
            for wrapper_path, wrapper in near:
                match = _match(repository, wrapper_path, wrapper, path, name)
                if match is not None:
                    found.setdefault((wrapper_path, wrapper), match)
    return [found[key] for key in sorted(found)]


def defined_names(repository: Repository) -> dict[str, list[str]]:
    """Every function and class on top level, by name: the files that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in repository.python_paths:
        for name in dict.fromkeys(DEFINED.findall(repository.text(path))):
            found[name].append(path)
    return found


def _stem(name: str) -> str:
    """A name without the words that mark a fast version: "FusedScanFn" and "scan_cuda" are both "scan"."""
    return re.sub(r"_", "", FAST.sub("_", name)).lower()


def _match(repository: Repository, wrapper_path: str, wrapper: str, path: str, name: str) -> Equivalent | None:
    fast, plain = definition(repository, wrapper_path, wrapper), definition(repository, path, name)
    if fast is None or plain is None:
        return None
    if (wrapper_kind(fast) == "module") != (wrapper_kind(plain) == "module"):
        return None
    if isinstance(plain, ast.ClassDef) and wrapper_kind(plain) != "module":
        return None
    shared = shared_arguments(fast, plain)
    if shared is None or (wrapper_kind(fast) == "autograd" and not _in_order(fast, shared)):
        return None  # `apply` takes no arguments by name
    evidence = f"{name} of {path}, by its name"
    return Equivalent(fast, wrapper_path, plain, path, shared, evidence)


def definition(repository: Repository, path: str, name: str) -> Definition | None:
    """A function or class on top level of a file."""
    module = repository.module(path)
    for node in module.body if module else ():
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    return None


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
