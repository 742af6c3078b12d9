"""Mixing by weakness: how often a trainer should see a row, by what a model was measured to be weak in.

MusaCoder (arXiv 2606.04847) measures a model on each operator family, shows it more of what it fails in (convolution,
reduction, normalisation, softmax, broadcast, indexing) and less plain elementwise work, and gives no formula. Here a
family's weight is the ratio of its share of failures to that of all answers, to the power of `strength` and within
bounds; targets of the config come before it. No row is repeated: weights are for a sampler.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from musadata.errors import MusadataError
from musadata.training_config import MixingConfig

PRIOR = 8  # answers like the average one that each family counts as having: few measurements say little
_ROUNDS = 20  # of fitting both kinds of targets, which may contradict each other
_LEAST_SHARE = 1e-6  # for a target of 0: the bounds say what it comes to
_FAILED_AT_LEAST = 0.02  # share that counts as failed where nothing fails, so that ratios stay finite


@dataclass(frozen=True)
class Measured:
    """How a model did on an operator family: its first answers that were judged, and those of them that passed."""

    operator_family: str
    judged: int
    passed: int


@dataclass(frozen=True)
class Cell:
    """The rows of a dataset of one family and operator family, and how often each is drawn, 1 on average."""

    family: str
    operator_family: str
    rows: int
    weight: float = 1.0

    @property
    def mass(self) -> float:
        return self.rows * self.weight


def weakness(measured: Sequence[Measured], config: MixingConfig) -> dict[str, float]:
    """A weight for each operator family that was measured: above 1 where a model fails more often than on average."""
    judged, passed = sum(one.judged for one in measured), sum(one.passed for one in measured)
    if not judged:
        return {}
    average = 1 - passed / judged
    weights = {}
    for one in measured:
        failed = (one.judged - one.passed + PRIOR * average) / (one.judged + PRIOR)
        ratio = max(failed, _FAILED_AT_LEAST) / max(average, _FAILED_AT_LEAST)
        weights[one.operator_family] = min(config.most, max(config.least, ratio**config.strength))
    return weights


def mix(cells: Sequence[Cell], weights: Mapping[str, float], config: MixingConfig) -> list[Cell]:
    """The cells of one dataset with weights that follow weakness and meet the targets as far as bounds and rows allow.

    Families without a target keep their proportions to each other.
    """
    rows = sum(cell.rows for cell in cells)
    if not rows:
        return []
    found = {(cell.family, cell.operator_family): cell.mass * weights.get(cell.operator_family, 1.0) for cell in cells}
    for _ in range(_ROUNDS if config.families and config.operator_families else 1):
        found = _fit(found, 0, config.families)
        found = _fit(found, 1, config.operator_families)
    scale = rows / sum(found.values())
    bounded = [
        min(config.most, max(config.least, found[cell.family, cell.operator_family] * scale / cell.rows))
        for cell in cells
    ]
    mean = sum(weight * cell.rows for weight, cell in zip(bounded, cells, strict=True)) / rows
    return [
        Cell(cell.family, cell.operator_family, cell.rows, weight / mean)
        for weight, cell in zip(bounded, cells, strict=True)
    ]


def _fit(masses: dict[tuple[str, str], float], axis: int, targets: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """The masses, with the targets met along one axis by what is there; the others share the rest."""
    there: dict[str, float] = {}
    for key, mass in masses.items():
        there[key[axis]] = there.get(key[axis], 0.0) + mass
    wanted = {name: max(share, _LEAST_SHARE) for name, share in targets.items() if name in there}
    total = sum(there.values())
    left = max(_LEAST_SHARE, 1 - sum(wanted.values()))
    others = sum(mass for name, mass in there.items() if name not in wanted)
    factors = {name: wanted[name] * total / mass if name in wanted else 1.0 for name, mass in there.items()}
    if wanted and others:
        factors |= {name: left * total / others for name in there if name not in wanted}
    return {key: mass * factors[key[axis]] for key, mass in masses.items()}


def shares(cells: Sequence[Cell], targets: Mapping[str, float], axis: str) -> list[dict[str, object]]:
    """What was achieved along one axis: rows, their share, the target, and the share with weights."""
    rows, mass = sum(cell.rows for cell in cells), sum(cell.mass for cell in cells)
    names = sorted({getattr(cell, axis) for cell in cells} | set(targets))
    chosen = {name: [cell for cell in cells if getattr(cell, axis) == name] for name in names}
    return [
        {
            axis: name,
            "rows": sum(cell.rows for cell in chosen[name]),
            "share": round(sum(cell.rows for cell in chosen[name]) / rows, 4) if rows else 0.0,
            "target": targets.get(name),
            "achieved": round(sum(cell.mass for cell in chosen[name]) / mass, 4) if mass else 0.0,
        }
        for name in names
    ]


def check_targets(targets: Mapping[str, float], key: str, known: Iterable[str] = ()) -> None:
    """Nothing if these are shares.

    Raises:
        MusadataError: a target names nothing that is known, or the targets are not shares of one whole.
    """
    names = list(known)
    for name, share in targets.items():
        if names and name not in names:
            raise MusadataError("is not known", where=f"{key}.{name}", remedy=f"known: {', '.join(names)}")
        if not 0.0 <= share <= 1.0:
            raise MusadataError("must be a share, 0 to 1", where=f"{key}.{name}", remedy="change it")
    if sum(targets.values()) > 1 + 1e-9:
        raise MusadataError(f"add up to {sum(targets.values()):g}", where=key, remedy="let them add up to 1 at most")
