"""Balance over operator families: the paper up-samples what models are weak in and down-samples plain elementwise work.

Targets are shares of the corpus (`tasks.families` in the config). A family above its target is cut to it; one below
stays whole and gets a weight above 1, which a trainer may sample by: the manifest's `balance` holds, for each family,
how many tasks were kept, their share, the target and the weight. Families without a target are left alone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256

from musadata.errors import MusadataError
from musadata.records import OperatorFamily

MAX_WEIGHT = 4.0  # more would show the same few tasks over and over


def drop_surplus(tasks: Iterable[tuple[str, str]], targets: Mapping[str, float]) -> list[str]:
    """The ids to drop, of (task id, operator family) pairs; which ones does not depend on their order.

    Raises:
        MusadataError: a target names no family, or the targets are not shares.
    """
    check_targets(targets)
    ordered = sorted(tasks, key=lambda task: sha256(f"balance/{task[0]}".encode()).digest())
    allowed = {family: math.ceil(share * len(ordered)) for family, share in targets.items()}
    seen: Counter[str] = Counter()
    surplus = []
    for task_id, family in ordered:
        seen[family] += 1
        if family in allowed and seen[family] > allowed[family]:
            surplus.append(task_id)
    return surplus


def sampling_weights(counts: Mapping[str, int], targets: Mapping[str, float]) -> dict[str, float]:
    """How often to show a task of each family, relative to 1, so that the shares approach the targets."""
    total = sum(counts.values())
    weights = {}
    for family, count in sorted(counts.items()):
        wanted = targets.get(family, count / total if total else 0.0) * total
        weights[family] = min(MAX_WEIGHT, max(1.0, wanted / count)) if count else 1.0
    return weights


def check_targets(targets: Mapping[str, float]) -> None:
    known = [family.value for family in OperatorFamily]
    for family, share in targets.items():
        if family not in known:
            raise MusadataError(
                "is no operator family", where=f"tasks.families.{family}", remedy=f"known: {', '.join(known)}"
            )
        if not 0.0 <= share <= 1.0:
            raise MusadataError("must be a share, 0 to 1", where=f"tasks.families.{family}", remedy="change it")
