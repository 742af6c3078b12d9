"""The frozen set of operators that graphs are drawn from, in a fixed order, and the themes that graphs follow."""

from musadata.records import OperatorFamily
from musadata.sources.generated.contraction_operators import CONTRACTIONS
from musadata.sources.generated.indexing_operators import INDEXINGS
from musadata.sources.generated.layout_operators import LAYOUTS
from musadata.sources.generated.pointwise_operators import BINARY, POINTWISE
from musadata.sources.generated.pooling_operators import POOLINGS
from musadata.sources.generated.reduction_operators import LOSSES, REDUCTIONS
from musadata.sources.generated.spec import Spec

OPERATORS: tuple[type[Spec], ...] = (
    *POINTWISE,
    *BINARY,
    *CONTRACTIONS,
    *POOLINGS,
    *REDUCTIONS,
    *LOSSES,
    *INDEXINGS,
    *LAYOUTS,
)

# How often each family of work dominates a graph. The paper asks for more convolution, reduction, normalisation,
# softmax, broadcast and indexing, and for less plain elementwise work. Light before heavy.
THEMES: dict[OperatorFamily, float] = {
    OperatorFamily.LAYOUT: 0.8,
    OperatorFamily.ELEMENTWISE: 0.7,
    OperatorFamily.BROADCAST: 1.0,
    OperatorFamily.INDEXING: 1.0,
    OperatorFamily.REDUCTION: 1.2,
    OperatorFamily.POOLING: 1.0,
    OperatorFamily.NORMALIZATION: 1.2,
    OperatorFamily.SOFTMAX: 1.0,
    OperatorFamily.LOSS: 0.9,
    OperatorFamily.MATMUL: 1.3,
    OperatorFamily.CONVOLUTION: 1.3,
    OperatorFamily.ATTENTION: 1.2,
}
_THEME_SHARE = 0.45  # of an operator in its theme's graph; the rest is lighter work around it


def operator_weights(theme: OperatorFamily) -> list[float]:
    """How often each operator is drawn for a graph of the theme: its own family, and lighter ones around it."""
    order = list(THEMES)
    own = sum(spec.weight for spec in OPERATORS if spec.family is theme)
    lighter = order[: order.index(theme)]
    around = sum(spec.weight for spec in OPERATORS if spec.family in lighter)
    shares = {theme: _THEME_SHARE / own} | dict.fromkeys(lighter, (1 - _THEME_SHARE) / around if around else 0.0)
    return [spec.weight * shares.get(spec.family, 0.0) for spec in OPERATORS]
