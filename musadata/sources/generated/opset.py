"""The frozen set of operators that graphs are drawn from, in a fixed order, and the themes that graphs follow."""

from pathlib import Path
from typing import Any

import yaml

from musadata.records import OperatorFamily
from musadata.sources.generated.contraction_operators import CONTRACTIONS
from musadata.sources.generated.indexing_operators import INDEXINGS
from musadata.sources.generated.layout_operators import LAYOUTS
from musadata.sources.generated.pointwise_operators import BINARY, POINTWISE
from musadata.sources.generated.pooling_operators import POOLINGS
from musadata.sources.generated.reduction_operators import LOSSES, REDUCTIONS
from musadata.sources.generated.spec import Spec

GRAPHS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("graphs.yaml").read_text(encoding="utf-8"))

OPERATORS: tuple[type[Spec], ...] = (
    *POINTWISE, *BINARY, *CONTRACTIONS, *POOLINGS, *REDUCTIONS, *LOSSES, *INDEXINGS, *LAYOUTS
)  # fmt: skip

# How often each family of work dominates a graph, light before heavy.
THEMES: dict[OperatorFamily, float] = {OperatorFamily(name): weight for name, weight in GRAPHS["themes"].items()}
_THEME_SHARE = 0.45  # of an operator in its theme's graph; the rest is lighter work around it


def operator_weights(theme: OperatorFamily) -> list[float]:
    """How often each operator is drawn for a graph of the theme: its own family, and lighter ones around it."""
    order = list(THEMES)
    own = sum(spec.weight for spec in OPERATORS if spec.family is theme)
    lighter = order[: order.index(theme)]
    around = sum(spec.weight for spec in OPERATORS if spec.family in lighter)
    shares = {theme: _THEME_SHARE / own} | dict.fromkeys(lighter, (1 - _THEME_SHARE) / around if around else 0.0)
    return [spec.weight * shares.get(spec.family, 0.0) for spec in OPERATORS]
