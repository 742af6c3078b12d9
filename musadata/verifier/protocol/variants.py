"""The input sets of a verification by name: of values, and of what they are beyond the plain ones.

How each variant changes the values is a row of `sandboxed.draws`; the reference's process leaves out those that prove
nothing, see `sandboxed.oracle`.
"""

from dataclasses import dataclass

PLAIN, SCALED, SMALL, OFFSET, INFINITE = "plain", "scaled by -3", "scaled by 0.01", "offset", "partly infinite"
# exp() of large values overflows: detects a softmax that does not subtract the maximum. Values far from zero also
# detect a maximum that is rounded or starts with 0. They are only for functions that ignore a shift of all inputs, or
# follow it as a maximum does.
LARGE, FAR = "large", "large and far from zero"
SHIFTED = "shifted by one"  # never judged: shows which functions these are
# Equal values, zeros and halves: detect wrong rounding, comparisons, and choice among equal maxima. The second variant
# is for functions that are not finite at zero.
TIES, NONZERO_TIES = "halves, with ties and zeros", "halves, with ties"
BELOW = "below zero, with extremes last"  # detects a maximum that starts with 0 or leaves out the last value
OPPOSED = "above and below zero by turns"  # of inputs: the same for a maximum of products
# Of the plain values of the same seed, each changed a little more than the one before: detect results that are kept by
# a fingerprint of the inputs. A swap keeps all sums, a permuted row its own; then each element keeps its upper bits.
SWAPPED, ELEMENT = "the same but for two swapped elements", "the same but for these and another element"
PERMUTED, NUDGED = "the same but for these and a permuted row", "the same but for the lower bits of each element"
DRIFTED = "the same but for less than a thousandth of each element"  # what is taken for no change
PERTURBED = (SWAPPED, ELEMENT, PERMUTED, NUDGED, DRIFTED)
# Rows that rise or fall, have their largest values side by side, or values that come in clusters; along the last
# dimension, and along another one: detect a choice among values that only looks at few of a stripe.
ORDERED, ORDERED_ACROSS = "in order or clusters", "in order or clusters across rows"
# The largest values at every so manieth place, in a stripe that is folded by xor, or at a power of two: for references
# that choose among values.
STRIPED, STRIPED_ACROSS = "in stripes", "in stripes across rows"
REDRAWN, NEGATED = "plain, and constants have other values", "plain, and constants are below zero"
# A first step; and what is taken for 1, since it is near.
ZEROED, NEARLY = "plain, and constants are zero", "plain, and constants are slightly larger"
# Of the state: parameters that are small or alike at first, scaled up or turned, as no clamp expects.
RAISED, TURNED = "plain, and lone parameters are large", "plain, and lone parameters have the other sign"
STATES = (RAISED, TURNED)
# What is made of weights before their last change, as an optimiser makes, is of no use.
RELOADED = "plain, with other weights in the same model"
# Of a model that is constructed with other arguments than the declared ones, as far as the reference accepts these.
REBUILT = "of a model with other arguments"
# Results, and with them the buffers that a call of the reference changes, such as running statistics.
UPDATED = "plain, with buffers as the call leaves them"
OWN_MODELS = (*STATES, RELOADED, REBUILT, UPDATED)
SCALED_BY = "scaled by "  # and a number
# Detect what is taken for 0, variances beside which an epsilon of 1e-5 counts, exponentials that overflow, and clamps.
# Larger ones refuse honest kernels: squares overflow where PyTorch adds in float64, and flash attention's fused
# exponent underflows for scores of 1e10.
TINY, NEAR_EPSILON, HUGE = f"{SCALED_BY}1e-05", f"{SCALED_BY}0.003", f"{SCALED_BY}1000"
# Few elements that are by orders of magnitude larger than the others: what does not depend on them stays as exact as
# without them, see `oracle`.
OUTLIERS = "with outliers of "  # and a number
# Values that the declared inputs never have, but that the reference accepts, see `sandboxed.domain`: alone, or added to
# one of the variants above.
WIDE = "beyond the declared range"
# At the declared size, for references that choose among values: where stripes are long enough for more than one winner,
# and where an outlier leaves more values in one bin than small sizes have.
FOR_CHOICES = (STRIPED, ORDERED, f"{OUTLIERS}1000")
_ORDERS = ((PLAIN, SCALED, OFFSET, SMALL), (PLAIN, SMALL, OFFSET, SCALED))
TIMED = frozenset(_ORDERS[0])  # on others a candidate may take another time
# The further input sets of a verification: for the first set of shapes, for each that is drawn in full, and for the
# smallest of these.
FIRST = (
    *(*OWN_MODELS, ORDERED, ORDERED_ACROSS, STRIPED, STRIPED_ACROSS, OPPOSED),
    *(REDRAWN, REDRAWN, NEGATED, ZEROED, NEARLY, WIDE),
)
EACH = (TIES, BELOW)
SMALLEST = (LARGE, TINY, NEAR_EPSILON, HUGE, OUTLIERS)

DECLARED, SHAPES, STRIDED = "declared", "shapes", "strided"  # see `records.ConditionFact`
# Plain, in shapes that nobody has declared, but that the reference accepts; a candidate may refuse them.
DERIVED = "of other shapes"
MAY_BE_REFUSED = (DERIVED, REBUILT, UPDATED)  # with an exception: nobody has declared them
COPIED = "copied state"  # where parameters are copied from the reference by name
SWALLOWED = "swallowed"  # of an error that the candidate caught


@dataclass(frozen=True)
class InputSet:
    """One draw of inputs: which set of shapes, which variant, which seed."""

    shape: int
    variant: str
    seed: int


def condition_of(plan: InputSet) -> str:
    """The condition that an input set shows; see `records.ConditionFact`."""
    if plan.shape and plan.variant not in (DERIVED, *FIRST):
        return SHAPES
    return DECLARED if plan.variant == PLAIN else plan.variant


def plan_variants(shape: int, count: int) -> list[str]:
    """The variants of `count` input sets for the set of shapes with this index; the first is plain."""
    order = _ORDERS[shape % len(_ORDERS)]
    return [order[index % len(order)] for index in range(count)]
