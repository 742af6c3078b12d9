"""What a corpus has cost: requests, tokens and money by stage and operator family, and for each accepted row."""

from collections import defaultdict
from typing import Any

from musadata.rows import plain
from musadata.storage import files
from musadata.storage.journal import Journal
from musadata.teacher import ledger

HEADINGS = ("stage", "family", "requests", "prompt tokens", "completion tokens", "cost")
_STAGES = ("stage2", "stage3")
_ACCEPTED = {"stage2": "reason", "stage3": "verify"}  # the step of the funnel that tells what was accepted


def describe_spending(corpus: str, funnel: dict[str, Any]) -> dict[str, Any]:
    """{stage: {"requests", "usage", "cost", "cost_per_accepted", "families": {family: …}}}; empty where no server was
    asked. Replies that were of no use are part of it."""
    described = {}
    for stage in _STAGES:
        folder = files.join(corpus, "_journal", stage)
        if not files.is_folder(folder):
            continue
        families: defaultdict[str, ledger.Total] = defaultdict(ledger.Total)
        whole = ledger.Total()
        for expense in ledger.expenses([Journal(folder, ledger.NAME)]):
            families[expense.family] = families[expense.family].plus(expense)
            whole = whole.plus(expense)
        if whole.requests:
            accepted = funnel.get(stage, {}).get(_ACCEPTED[stage], {}).get("out", 0)
            described[stage] = {
                **_describe(whole),
                "cost_per_accepted": round(whole.cost / accepted, 6) if accepted else None,
                "families": {family: _describe(families[family]) for family in sorted(families)},
            }
    return described


def _describe(total: ledger.Total) -> dict[str, Any]:
    return {"requests": total.requests, "usage": plain(total.usage), "cost": round(total.cost, 6)}


def list_spending(manifest: dict[str, Any]) -> list[tuple[str, str, int, int, int, str]]:
    """A row for each stage and one for each family in it, as `HEADINGS` names its columns."""
    rows = []
    for stage, found in manifest.get("spending", {}).items():
        per_row = found["cost_per_accepted"]
        shown = f"{found['cost']:,.4f}" + (f" ({per_row:,.4f} per accepted row)" if per_row else "")
        rows.append(_row(stage, "all", found, shown))
        rows += [_row(stage, family, part, f"{part['cost']:,.4f}") for family, part in found["families"].items()]
    return rows


def _row(stage: str, family: str, part: dict[str, Any], cost: str) -> tuple[str, str, int, int, int, str]:
    usage = part["usage"]
    return stage, family, part["requests"], usage["prompt_tokens"], usage["completion_tokens"], cost
