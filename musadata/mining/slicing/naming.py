"""Names in a reference: imports in their usual form, and unique top-level names."""

import builtins
import sys
from dataclasses import dataclass, field

from musadata.mining.slicing.definition_index import External

# Modules with customary abbreviations: import statement and bound name.
CUSTOMARY = {
    "torch": ("import torch", "torch"),
    "torch.nn": ("from torch import nn", "nn"),
    "torch.nn.functional": ("import torch.nn.functional as F", "F"),
    "numpy": ("import numpy as np", "np"),
}
# Members of these are written with the module's name before them: nn.Linear, F.relu, torch.Tensor.
QUALIFIED = frozenset(CUSTOMARY)
# Where the things are now that older versions of Python and PyTorch had elsewhere.
ABSTRACT = ("Callable", "Container", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence")
MOVED = {
    "torch._six.container_abcs": ("collections.abc", ""),
    "torch._six.inf": ("math", "inf"),
    "torch._six.nan": ("math", "nan"),
    "torch._six.string_classes": ("builtins", "str"),
    "torch._six.int_classes": ("builtins", "int"),
    "fractions.gcd": ("math", "gcd"),
    **{f"collections.{name}": ("collections.abc", name) for name in ABSTRACT},
}
RESERVED = frozenset({"Model", "get_inputs", "get_init_inputs"})


@dataclass
class Names:
    """The top-level names of one reference. `statements`: the import statement that binds each name."""

    statements: dict[str, str] = field(default_factory=dict)
    _taken: dict[str, object] = field(default_factory=dict)
    _written: dict[str, str] = field(default_factory=dict)

    def external(self, thing: External) -> str:
        """The expression for something external; adds its import statement."""
        thing = External(*MOVED.get(thing.dotted, (thing.module, thing.name)))
        written = self._written.get(thing.dotted)
        if written is None:
            written = self._written[thing.dotted] = self._introduce(thing)
        return written

    def _introduce(self, thing: External) -> str:
        if thing.module == "builtins" and hasattr(builtins, thing.name):
            return thing.name
        if thing.dotted in CUSTOMARY:
            statement, name = CUSTOMARY[thing.dotted]
            return self._bind(name, thing.dotted, statement)
        if thing.name and thing.module in QUALIFIED:
            prefix = self.external(External(thing.module))
            return f"{prefix}.{thing.name}"
        module, _, leaf = thing.dotted.rpartition(".")
        return self._bind(leaf, thing.dotted, f"from {module} import {leaf}" if module else f"import {leaf}")

    def _bind(self, preferred: str, key: str, statement: str) -> str:
        name = self.claim(preferred, key)
        bound = statement.rpartition(" ")[2]
        self.statements[name] = statement if bound == name else f"{statement.split(' as ')[0]} as {name}"
        return name

    def claim(self, preferred: str, key: object, avoid: frozenset[str] = frozenset()) -> str:
        """A unique name for `key`, the preferred one if it is free; the same key always gets the same name.

        `avoid`: names that mean something else where it is used.
        """
        for number in range(1, 1000):
            name = preferred if number == 1 else f"{preferred}{number}"
            if name not in RESERVED and name not in avoid and self._taken.setdefault(name, key) == key:
                return name
        raise AssertionError("a thousand things of one name")


def sort_imports(statements: set[str]) -> str:
    """Import statements in two groups, the standard library first, each sorted; one statement for each module."""
    merged: dict[str, list[str]] = {}
    for statement in sorted(statements):
        head, _, names = statement.partition(" import ") if statement.startswith("from") else (statement, "", "")
        merged.setdefault(head, []).append(names)
    lines = [f"{head} import {', '.join(sorted(names))}" if names[0] else head for head, names in merged.items()]

    def place(line: str) -> tuple[bool, bool, str]:
        return line.split()[1].split(".")[0] not in sys.stdlib_module_names, line.startswith("from"), line.lower()

    ordered = sorted(lines, key=place)
    groups = [[line for line in ordered if place(line)[0] is third_party] for third_party in (False, True)]
    return "\n\n".join("\n".join(group) for group in groups if group)
