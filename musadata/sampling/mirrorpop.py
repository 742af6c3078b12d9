"""MirrorPop (MusaCoder, arXiv 2606.04847): train only on sequences that the sampling policy nearly agrees on.

ρ is the ratio of the trained policy's to the sampling policy's probability of a token. A sequence is kept if the mean
of |log ρ| over its tokens is at most δ. The signed mean would let deviations of one direction hide those of the other.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

MASK = "mirrorpop_keep"
Logprobs = Sequence[float] | np.ndarray


def mean_deviation(trained: Logprobs, sampled: Logprobs) -> float:
    """The mean of |log ρ| over the tokens of one sequence, from natural logarithms of their probabilities.

    NaN where it is not defined: without tokens, and where both policies give a token no probability.

    Raises:
        ValueError: the sequences have different lengths.
    """
    if len(trained) != len(sampled):
        raise ValueError(f"{len(trained)} token log-probabilities of one policy and {len(sampled)} of the other")
    with np.errstate(invalid="ignore"):
        gaps = np.abs(np.asarray(trained, float) - np.asarray(sampled, float))
    return float(gaps.mean()) if len(gaps) else math.nan


def is_kept(trained: Logprobs, sampled: Logprobs, delta: float) -> bool:
    """Whether a sequence passes; one whose deviation is not defined does not."""
    return mean_deviation(trained, sampled) <= delta


def keep_mask(trained: np.ndarray, sampled: np.ndarray, tokens: np.ndarray, delta: float) -> np.ndarray:
    """Which sequences of a padded batch pass.

    Args:
        trained, sampled: log-probabilities [sequences, tokens]; what stands in the padding does not matter.
        tokens: [sequences, tokens], true or 1 where a token is part of the answer.
        delta: the largest mean deviation that passes.

    Returns:
        [sequences] of bool.
    """
    real = np.asarray(tokens, bool)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(np.where(real, trained, 0.0) - np.where(real, sampled, 0.0))
    counts = real.sum(axis=-1)
    return np.asarray((counts > 0) & (gaps.sum(axis=-1) <= delta * counts))


def with_mask(table: pa.Table, trained: str, sampled: str, delta: float) -> pa.Table:
    """A table with the column `mirrorpop_keep`, from two columns of lists of log-probabilities.

    A row that lacks one of them is not kept.

    Raises:
        ValueError: the lists of a row have different lengths.
    """
    kept = [
        one is not None and other is not None and is_kept(one, other, delta)
        for one, other in zip(_lists(table, trained), _lists(table, sampled), strict=True)
    ]
    if MASK in table.column_names:
        table = table.drop_columns([MASK])
    return table.append_column(MASK, pa.array(kept, pa.bool_()))


def _lists(table: pa.Table, name: str) -> Iterable[np.ndarray | None]:
    for row in table[name]:
        yield row.values.to_numpy(zero_copy_only=False) if row.is_valid else None
