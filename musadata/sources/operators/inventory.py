"""The operators, read from `inventory.txt`, whose lines are a family's name or one operator each."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path

from musadata.records import OperatorFamily

TABLE = Path(__file__).with_name("inventory.txt")


@dataclass(frozen=True)
class Operator:
    """One operator. `inputs`: "name kind sizes" of each argument of `forward`; sizes are names or numbers.

    `layer`: the constructor call of its module, "" for a function; `expression`: what `forward` returns; `returns`: its
    annotation.
    """

    name: str
    family: OperatorFamily
    inputs: tuple[str, ...]
    expression: str
    layer: str = ""
    returns: str = "torch.Tensor"


@cache
def inventory() -> tuple[Operator, ...]:
    """All operators, one of each family in turn, in the order of the table within a family."""
    families: dict[OperatorFamily, list[Operator]] = defaultdict(list)
    family = OperatorFamily.OTHER
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            family = OperatorFamily(line.strip("[]"))
        elif line.strip() and not line.startswith("#"):
            families[family].append(_read(line, family))
    turns = zip_longest(*families.values())
    return tuple(operator for turn in turns for operator in turn if operator is not None)


def _read(line: str, family: OperatorFamily) -> Operator:
    """ "x normal batch features | F.relu(x)", or with a layer "x normal … | self.conv(x) | nn.Conv2d(…)"."""
    inputs, stated, *layer = (part.strip() for part in line.split(" | "))
    expression = stated.removesuffix(" -> tuple")
    returns = "torch.Tensor" if expression == stated else "tuple[torch.Tensor, ...]"
    named = layer[0] if layer else expression
    name = named.partition("(")[0].removeprefix("nn.").removeprefix("F.").removeprefix("torch.")
    arguments = tuple(part.strip() for part in inputs.split(","))
    return Operator(name, family, arguments, expression, layer[0] if layer else "", returns)
