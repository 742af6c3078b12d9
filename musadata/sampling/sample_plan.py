"""How many samples of a task are asked for: fewer where all agree, more where few pass.

The number follows from the verdicts on first answers alone, so every step that knows them comes to the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from musadata.asking_config import TeacherType
from musadata.config import Config
from musadata.sampling.rollout import Attempt
from musadata.sampling.structure import describe_structure, is_near_identical
from musadata.verifier.extract import extract

TELLING = 4  # samples from which on the share that passes says something
_FIXED = (TeacherType.COMPILER, TeacherType.BATCH)  # the one repeats itself, the other takes hours for each round


@dataclass(frozen=True)
class SamplePlan:
    """The numbers of samples after which to look whether to go on.

    Attributes:
        samples: how many a task usually has.
        agree: how many have to agree for no more to be asked for; 0 for no such stop.
        most: how many a task has at the most.
        few: share of accepted ones below which more are asked for.
    """

    samples: int
    agree: int
    most: int
    few: float

    @classmethod
    def of(cls, config: Config) -> "SamplePlan":
        teacher, sampling = config.teacher, config.sampling
        if teacher.kind in _FIXED:
            return cls(teacher.samples, 0, teacher.samples, 0.0)
        agree = sampling.agree if sampling.agree < teacher.samples else 0
        most = max(teacher.samples, sampling.most_samples) if teacher.samples >= TELLING else teacher.samples
        return cls(teacher.samples, agree, most, sampling.few_passed)

    @property
    def rounds(self) -> int:
        """How often samples are asked for at the most."""
        count, rounds = self.samples, 1 + bool(self.agree)
        while count < self.most and self.few:
            count, rounds = min(self.most, 2 * count), rounds + 1
        return rounds

    def wanted(self, firsts: Sequence[Attempt | None]) -> int:
        """How many samples there should be, given the first answers of all so far; None stands for no answer."""
        asked = len(firsts)
        if not asked:
            return self.agree or self.samples
        if asked < self.samples:
            return asked if _agree(firsts) else self.samples
        decided = [one for one in firsts if one and not one.verdict.is_undecided]
        passed = sum(one.verdict.accepted for one in decided)
        if asked < self.most and decided and passed < self.few * len(decided):
            return min(self.most, 2 * asked)
        return asked

    def hold(self, converse: Callable[[int], list[Attempt]]) -> list[list[Attempt]]:
        """The conversations of all samples that are wanted. `converse` holds that of a sample; empty without answer."""
        held: list[list[Attempt]] = []
        firsts: list[Attempt | None] = []
        while len(firsts) < (wanted := self.wanted(firsts)):
            for sample in range(len(firsts), wanted):
                attempts = converse(sample)
                firsts.append(attempts[0] if attempts else None)
                held += [attempts] if attempts else []
        return held


def _agree(firsts: Sequence[Attempt | None]) -> bool:
    """Whether all were accepted, and are nearly identical."""
    accepted = [one.answer.text for one in firsts if one and one.verdict.accepted]
    if len(accepted) < len(firsts):
        return False
    first, *rest = (describe_structure(extract(text).source or text) for text in accepted)
    return all(is_near_identical(first, other) for other in rest)
