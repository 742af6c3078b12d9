"""Which methods of a reference's classes may be entered, given where the classes are named."""

import ast
from collections.abc import Iterator

from musadata.mining.pruning.constant_conditions import Observations
from musadata.mining.pruning.mentions import References
from musadata.mining.pruning.survey import FUNCTIONS, Function, defined_names

SELF_MADE = ("Function", "Enum", "Flag")  # bases whose subclasses' methods are entered though nothing makes instances

# Special methods that computing a result calls for no inputs.
OF_COPIES = frozenset({"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__repr__", "__str__"})

OF_TRAINING = frozenset({"backward", "vjp", "jvp", "symbolic"})  # of what autograd or an export calls


class ClassUse:
    """`names`: of the classes on top level."""

    def __init__(self, seen: Observations):
        self._seen = seen
        self._classes = {node.name: node for node in seen.tree.body if isinstance(node, ast.ClassDef)}
        self.names = frozenset(self._classes)
        self._families = _families(seen.tree)

    def _is_made(self, node: ast.ClassDef, found: References) -> bool:
        """Whether there may be instances of a class or of its subclasses."""
        if found.makes(node.name) or node.name == "Model" or node.keywords or not defined_names(node):
            return True
        if any(ast.unparse(base).endswith(SELF_MADE) for base in node.bases):
            return True
        return any(self._seen.entered(item) for item in _methods(node) if not item.decorator_list)

    def special_methods(self, node: ast.ClassDef, found: References) -> set[int]:
        """Methods that Python itself may call: those of all classes of which there may be instances."""
        made = self._is_made(node, found)
        return {id(item) for item in _methods(node) if made and _is_special(item)}

    def doubtful_methods(self, node: ast.ClassDef, found: References) -> list[Function]:
        """Methods that were never entered, except those that Python calls, or autograd with the inputs."""
        if any(ast.unparse(base).endswith("Function") for base in node.bases):
            return [item for item in _methods(node) if item.name in OF_TRAINING and not self._seen.entered(item)]
        made = self._is_made(node, found)
        methods = [item for item in _methods(node) if not self._seen.entered(item)]
        return [item for item in methods if not made or not _is_special(item)]

    def may_enter(self, method: Function, node: ast.ClassDef, found: References) -> bool:
        """Whether code that never ran, or a class related by inheritance, refers to a method."""
        name = method.name
        if name in OF_COPIES:
            return False
        if (node.name, name) in found.of_name:
            return True
        of_self = any(name in found.of_self.get(relative, ()) for relative in self._families[node.name])
        if not self._is_made(node, found):  # only methods of the class itself can be called
            return bool(method.decorator_list) and (of_self or name in found.unsure)
        if not method.decorator_list and name not in found.of_super and not self._has_heir(node, name, found):
            return False
        return of_self or name in found.unsure

    def _has_heir(self, node: ast.ClassDef, name: str, found: References) -> bool:
        """Whether a class of which there may be instances, `node` itself or below it, has this method from `node`."""
        for relative in self._families[node.name]:
            heir = self._classes.get(relative)
            if heir is None or not (found.makes_itself(relative) or relative == "Model"):
                continue
            order = list(self._resolution(heir))
            if node in order and not any(_defines(item, name) for item in order[: order.index(node)]):
                return True
        return False

    def _resolution(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """A class and those that it inherits from, depth first: close to the order in which Python looks."""
        yield node
        for base in node.bases:
            above = self._classes.get(base.id) if isinstance(base, ast.Name) else None
            if above is not None and above is not node:
                yield from self._resolution(above)


def _is_special(method: Function) -> bool:
    return method.name.startswith("__") and method.name not in OF_COPIES


def _methods(node: ast.ClassDef) -> list[Function]:
    return [item for item in node.body if isinstance(item, FUNCTIONS)]


def _defines(node: ast.ClassDef, name: str) -> bool:
    return any(item.name == name for item in _methods(node))


def _families(tree: ast.Module) -> dict[str, set[str]]:
    """For each class, the classes related to it by inheritance, including itself."""
    families: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = {node.name, *(base.id for base in node.bases if isinstance(base, ast.Name))}
            family = names.union(*(families.get(name, ()) for name in names))
            families.update(dict.fromkeys(family, family))
    return families
