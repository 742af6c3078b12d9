"""All rules of the verifier are in the catalogue, and all of the catalogue is used."""

import ast
import re
from pathlib import Path

import pytest

import musadata
from musadata.records import ErrorClass
from musadata.verifier.rules import catalogue
from musadata.verifier.rules.catalogue import RULES, Rule, device_rule

ROOT = Path(musadata.__file__).parent
CATALOGUE = Path(catalogue.__file__)
ENTRIES = CATALOGUE.with_suffix(".yaml").read_text(encoding="utf-8")
SANDBOX_STATUSES = {"error", "timeout", "memory", "crash", "output"}


def sources(*patterns: str) -> dict[Path, str]:
    return {
        path: path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in ROOT.rglob(pattern)
        if path != CATALOGUE
    }


def test_rule_id_stands_only_in_the_catalogue():
    for path, text in sources("*.py").items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in RULES, f"{path}:{node.lineno}"


def test_finding_is_made_by_a_rule():
    for path, text in sources("*.py").items():
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            assert not isinstance(called, ast.Name) or called.id != "Finding", f"{path}:{node.lineno}"


def named_rules() -> set[str]:
    """The constants of the catalogue that the code names."""
    return {name for text in sources("*.py").values() for name in re.findall(r"\brules\.([A-Z][A-Z_]+)\b", text)} - {
        "RULES"
    }


def test_every_rule_is_used():
    kinds = set(re.findall(r'"([a-z_]+)"', "\n".join(sources("*.cpp", "*.h").values())))
    named = {id(getattr(catalogue, name)) for name in named_rules()}
    for rule in RULES.values():
        family, _, kind = rule.id.partition(".")
        by_lookup = kind in {"device": kinds, "execute": SANDBOX_STATUSES, "timing": SANDBOX_STATUSES}.get(family, ())
        assert by_lookup or id(rule) in named, f"{rule.id} is not used"


def test_every_rule_that_the_code_names_is_in_the_catalogue():
    names = named_rules()
    assert len(names) > 40 and all(isinstance(getattr(catalogue, name), Rule) for name in names)
    with pytest.raises(AttributeError, match="LEGALITY_UNKNOWN"):
        _ = catalogue.LEGALITY_UNKNOWN


def test_constant_is_named_after_the_id():
    for rule_id, rule in RULES.items():
        assert getattr(catalogue, rule_id.upper().replace(".", "_")) is rule


def test_every_id_stands_once_in_the_catalogue():
    ids = re.findall(r"^(\S+\.\S+):$", ENTRIES, re.MULTILINE)
    assert ids == list(RULES)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_rule_says_what_a_model_is_told_or_who_words_it(rule):
    assert bool(rule.message) != bool(rule.worded_by)
    assert rule.stage
    assert not rule.unsafe or rule.error_class is not ErrorClass.CORRECTNESS


def test_unknown_rule_fails_and_a_forged_kind_of_fault_does_not():
    with pytest.raises(KeyError):
        RULES["legality.unknown"]
    assert device_rule("race_in_block") is catalogue.DEVICE_RACE_IN_BLOCK
    assert device_rule("forged") is catalogue.DEVICE_FAULT
