"""What many verdicts come to: right, accepted under each policy, faster, undecided, and why."""

from collections import Counter
from collections.abc import Sequence

from musadata.records import Verdict
from musadata.verifier.policies import NAMES, decide, load_policy

FASTER = 1.1  # times as fast as eager, as in the MusaCoder paper
_MOST_CAUSES = 12


def summarise(verdicts: Sequence[Verdict]) -> list[tuple[str, int]]:
    """Counts in the order in which to show them. `verdicts` name the policy under which causes are counted."""
    facts = [verdict.facts for verdict in verdicts]
    timed = [verdict.speedup for verdict in verdicts if verdict.facts.right and verdict.speedup is not None]
    rows = [
        ("candidates", len(facts)),
        ("right on the declared inputs", sum(one.right is True for one in facts)),
        ("wrong on the declared inputs", sum(one.right is False for one in facts)),
        ("not compiled", sum(one.compiles is False for one in facts)),
        ("undecided, or not run", sum(one.right is None and one.compiles is not False for one in facts)),
    ]
    for name in NAMES:
        policy = load_policy(name)
        rows.append((f"accepted under {name}", sum(decide(one, policy).accepted for one in facts)))
    if timed:
        rows.append((f"right and at least {FASTER} times as fast as eager", sum(one >= FASTER for one in timed)))
    causes = Counter(f"{verdict.error_class}: {verdict.findings[0].rule}" for verdict in verdicts if verdict.findings)
    return [*rows, *causes.most_common(_MOST_CAUSES)]


def render(verdicts: Sequence[Verdict]) -> str:
    """The same as lines of text."""
    rows = summarise(verdicts)
    width = max(len(name) for name, _ in rows)
    total = max(len(verdicts), 1)
    return "\n".join(f"{name:{width}}  {count:6d}  {count / total:6.1%}" for name, count in rows)
