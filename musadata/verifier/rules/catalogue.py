"""Every rule of the verifier: why a candidate is rejected or not judged, and what a model is told about it.

A new rule is one entry in catalogue.yaml, and a check that returns `rules.NAME.finding(...)`: the rule "family.name" is
this module's `FAMILY_NAME`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from musadata.records import ErrorClass, Finding, VerifyStage

_STAGES = {
    "extract": VerifyStage.EXTRACT,
    "legality": VerifyStage.LEGALITY,
    "compile": VerifyStage.COMPILE,
    "interface": VerifyStage.EXECUTE,
    "execute": VerifyStage.EXECUTE,
    "device": VerifyStage.EXECUTE,
    "correctness": VerifyStage.COMPARE,
    "task": VerifyStage.COMPARE,
    "runtime": VerifyStage.PROFILE,
    "timing": VerifyStage.TIME,
    "measure": VerifyStage.TIME,
    "reference": VerifyStage.EXECUTE,
    "row": VerifyStage.EXECUTE,
}  # by family
# A verdict names reasons in this order of families; within `legality` first those that pretend.
_ORDER = (
    "extract", "legality", "compile", "interface", "execute", "device", "certain", "correctness", "runtime", "last",
    "timing", "measure", "task", "reference", "row",
)  # fmt: skip
# What explains wrong results, if they are wrong as well: PyTorch or the host computes them.
_FIRST_SEEN = ("runtime.tampered", "runtime.operator", "runtime.host", "runtime.no_launch")
_LAST_COMPARED = ("interface.initial_state",)  # said of a candidate that is right with parameters that are copied


@dataclass(frozen=True)
class Rule:
    """One reason in a verdict.

    Attributes:
        id: "family.name", as it stands in rows. The family says in which stage the rule is checked.
        error_class: of a verdict whose first reason this is.
        message: what a model is told; the check fills in each {}. Empty if `worded_by` is given.
        worded_by: who words the message, where that is not this catalogue.
        unsafe: a program that breaks it is not run, since it could reach what its verdict depends on.
        missed_by_devices: a mistake that a device does not notice, so that the emulator's cross-check reports it.
        names_remedy: the message says how to mend the program.
    """

    id: str
    error_class: ErrorClass
    message: str = ""
    worded_by: str = ""
    unsafe: bool = False
    missed_by_devices: bool = False
    names_remedy: bool = False

    @property
    def family(self) -> str:
        return self.id.split(".")[0]

    @property
    def stage(self) -> VerifyStage:
        return VerifyStage.COMPARE if self.id in _LAST_COMPARED else _STAGES[self.family]

    @property
    def order(self) -> int:
        """Of several reasons a verdict names the one with the least order first."""
        group = "certain" if self.id in _FIRST_SEEN else "last" if self.id in _LAST_COMPARED else self.family
        pretends = self.family == "legality" and self.error_class is ErrorClass.CHEATING
        return 2 * _ORDER.index(group) - pretends

    def finding(
        self, *parts: object, line: int = 0, operator: str = "", index: str = "", expected: str = "", got: str = ""
    ) -> Finding:
        """What the catalogue says of this rule, with its parts filled in."""
        return self.worded(self.message.format(*parts), line, operator, index, expected, got)

    def worded(
        self, message: str, line: int = 0, operator: str = "", index: str = "", expected: str = "", got: str = ""
    ) -> Finding:
        """The same in other words."""
        return Finding(self.id, message, line, operator, index, expected, got)


_ENTRIES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
# By id; an unknown id is a KeyError.
RULES = {
    rule_id: Rule(rule_id, **{**entry, "error_class": ErrorClass(entry["error_class"])})
    for rule_id, entry in _ENTRIES.items()
}
_CONSTANTS = {rule_id.upper().replace(".", "_"): rule for rule_id, rule in RULES.items()}


def __getattr__(name: str) -> Rule:
    if name not in _CONSTANTS:
        raise AttributeError(f"there is no rule {name}")
    return _CONSTANTS[name]


def device_rule(kind: str) -> Rule:
    """The rule for a kind of fault that the candidate's process reports; it may be forged."""
    return RULES.get(f"device.{kind}", RULES["device.fault"])
