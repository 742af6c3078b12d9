"""A subclass that gives the constructor's arguments itself, as modules cannot be passed to another process."""

import ast
import re
from collections.abc import Sequence

from musadata.mining.slicing.renaming import rename_text


def given_in_subclass(definitions: str, init: Sequence[str], name: str) -> str:
    """The definitions with such a subclass as `Model`; what was `Model` is called `name`, or like it."""
    definitions, own = rename_model(definitions, name)
    return (
        f"{definitions.rstrip()}\n\n\nclass Model({own}):\n"
        f"    def __init__(self):\n        super().__init__({', '.join(init)})\n"
    )


def rename_model(definitions: str, name: str) -> tuple[str, str]:
    """The definitions with another name for `Model`, and that name: this one, or one like it that is free."""
    taken = set(re.findall(r"\w+", definitions))
    own = next(item for item in (name, *(f"{name}{number}" for number in range(2, 1000))) if item not in taken)
    return rename_text(definitions, {"Model": own}), own


def names_definitions(source: str, init: Sequence[str]) -> bool:
    """Whether an argument is made by a class or function of the source, which stays on its account."""
    defined = {getattr(node, "name", "") for node in ast.parse(source).body}
    return any(defined.intersection(re.findall(r"[^\W\d]\w*", text)) for text in init)
