"""What a policy makes of the facts of a verdict: accepted or not, the error class, the reasons and the reward.

Facts are the same under all policies, so that to judge a corpus under another one executes nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from musadata.errors import MusadataError
from musadata.records import ErrorClass, Facts, Finding, Verdict, VerifyStage
from musadata.verifier.feedback import write_feedback
from musadata.verifier.reward import reward
from musadata.verifier.rules.catalogue import CORRECTNESS_HARNESS, CORRECTNESS_VALUES, RULES, Rule

_MOST_CONDITIONS = 3  # that a message names: longer lists hide what they say
_KEYS = {"about", "refuses", "notes"}
_NAMED: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
NAMES = tuple(_NAMED)


@dataclass(frozen=True)
class Policy:
    """Which findings speak against a candidate; see policies.yaml for what patterns match."""

    name: str
    about: str
    refuses: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return _joined(self.refuses), _joined(self.notes)

    @cached_property
    def _known(self) -> dict[tuple[str, str], bool]:
        """What was asked before: a corpus asks the same of many verdicts."""
        return {}

    def is_refused(self, rule: Rule, condition: str = "") -> bool:
        """Whether a finding by this rule, on inputs of this condition, alone is a reason to refuse a candidate."""
        known = self._known.get((rule.id, condition))
        if known is None:
            known = self._known[rule.id, condition] = self._decide(rule, condition)
        return known

    def _decide(self, rule: Rule, condition: str) -> bool:
        if rule.unsafe or rule.error_class.is_undecided:
            return True
        refuses, notes = self._patterns
        text = f"{rule.id}@{condition}"
        return refuses.fullmatch(text) is not None and notes.fullmatch(text) is None


def _joined(patterns: Sequence[str]) -> re.Pattern[str]:
    whole = [pattern if "@" in pattern else f"{pattern}@*" for pattern in patterns]
    return re.compile("|".join(map(translate, whole)) or r"(?!)")


@dataclass(frozen=True)
class Decision:
    """What a policy makes of facts. `findings`: the reasons of the first stage at which there are any."""

    accepted: bool
    stage: VerifyStage
    error_class: ErrorClass | None
    test_share: float
    findings: tuple[Finding, ...]


def decide(facts: Facts, policy: Policy) -> Decision:
    """Judge facts under a policy. Without facts, as in verdicts of older versions, nothing is said."""
    refused = [finding for finding in facts.findings if policy.is_refused(RULES[finding.rule], finding.condition)]
    if not refused:
        accepted = facts.runs is True and facts.right is not None
        return Decision(accepted, facts.stage, None if accepted else ErrorClass.INFRA, float(accepted), ())
    first = RULES[refused[0].rule]
    findings = [finding for finding in refused if RULES[finding.rule].stage is first.stage]
    has_results = first.stage in (VerifyStage.EXECUTE, VerifyStage.COMPARE, VerifyStage.PROFILE)
    share = _test_share(facts, policy) if has_results and first.family != "reference" else 0.0
    return Decision(False, first.stage, first.error_class, share, _merged(findings, facts))


def _test_share(facts: Facts, policy: Policy) -> float:
    """The share of input sets that are right, of those conditions whose results the policy asks for."""
    about_values = CORRECTNESS_VALUES, CORRECTNESS_HARNESS
    asked = [one for one in facts.conditions if any(policy.is_refused(rule, one.condition) for rule in about_values)]
    total = sum(one.total for one in asked)
    return sum(one.passed for one in asked) / total if total else 0.0


def _merged(findings: Sequence[Finding], facts: Facts) -> tuple[Finding, ...]:
    """One finding for each rule that speaks of results, with the conditions under which it holds."""
    by_rule: dict[str, list[Finding]] = {}
    for number, finding in enumerate(findings):
        by_rule.setdefault(finding.rule if finding.condition else f"{finding.rule} {number}", []).append(finding)
    return tuple(replace(found[0], message=_with_conditions(found, facts)) for found in by_rule.values())


def _with_conditions(found: Sequence[Finding], facts: Facts) -> str:
    message, failing = found[0].message, list(dict.fromkeys(finding.condition for finding in found))
    others = [one.condition for one in facts.conditions if one.condition not in failing]
    if not failing[0] or not others or not facts.conditions:
        return message
    words = {"declared": "with plain inputs of the first shapes", "shapes": "with other shapes than the first"}
    for opening, some in (("Only", failing), ("Right only", others)):
        if len(some) <= _MOST_CONDITIONS:
            shown = [words.get(one, f"where inputs are {one}") for one in some]
            return f"{message} ({opening} {'; '.join(shown)}.)"
    return f"{message} (On {len(failing)} of {len(failing) + len(others)} kinds of inputs.)"


def apply_policy(verdict: Verdict, policy: Policy) -> Verdict:
    """The verdict that a policy gives on the same facts. Nothing is executed."""
    decision = decide(verdict.facts, policy)
    error_class, share = decision.error_class, decision.test_share
    return replace(
        verdict,
        policy=policy.name,
        accepted=decision.accepted,
        stage=decision.stage,
        error_class=error_class,
        test_share=share,
        findings=decision.findings,
        feedback=write_feedback(error_class, share, decision.findings),
        reward=reward(error_class, share, verdict.speedup),
    )


@cache
def load_policy(name: str) -> Policy:
    """A policy by its name, or from a YAML file with the keys `refuses`, and perhaps `about` and `notes`.

    Raises:
        MusadataError: there is no such policy, or the file is none.
    """
    if name in _NAMED:
        return _read(name, _NAMED[name])
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") or path.stem in _NAMED:
        remedy = f"say {', '.join(NAMES)}, or name a YAML file"
        raise MusadataError(f"there is no policy {name!r}", where="policy", remedy=remedy)
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        what = " ".join(str(error).split())[:200]
        raise MusadataError(
            f"cannot be read ({what})", where=name, remedy="name a YAML file; see docs/policies.md"
        ) from error
    return _read(path.stem, found, name)


def _read(name: str, entry: Any, where: str = "policy") -> Policy:
    if not isinstance(entry, dict) or "refuses" not in entry or not set(entry) <= _KEYS:
        remedy = "give it a list `refuses`, and perhaps `notes` and `about`"
        raise MusadataError("is no policy", where=where, remedy=remedy)
    lists = [entry["refuses"], entry.get("notes", [])]
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in lists):
        raise MusadataError("`refuses` and `notes` must be lists of rules", where=where, remedy="see docs/policies.md")
    for pattern in (text for one in lists for text in one):
        if not any(re.fullmatch(translate(pattern.partition("@")[0]), rule) for rule in RULES):
            remedy = "`musadata policies` lists all rules"
            raise MusadataError(f"{pattern!r} matches no rule", where=where, remedy=remedy)
    return Policy(name, str(entry.get("about", "")), tuple(lists[0]), tuple(lists[1]))
