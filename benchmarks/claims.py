"""Writes the table of claims in benchmarks/README.md from benchmarks/results/*.json.

python -m benchmarks.claims [--check]
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT

PAGE = ROOT / "benchmarks" / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- claims: written by `python -m benchmarks.claims` -->\n", "<!-- end of claims -->\n"
NOT_RECORDED = "not recorded"
LONGEST = 160  # characters of a cell; the JSON file holds the rest


def render_claims(folder: Path = RESULTS) -> str:
    """One table per result file, under a line that says of which revision and on which machine."""
    return "\n".join(_render_result(path) for path in sorted(folder.glob("*.json")))


def _render_result(path: Path) -> str:
    result = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        f"### {result['benchmark']}",
        "",
        f"[{path.name}](results/{path.name}), revision {_revision(result)}, {_machine(result['machine'])}",
        "",
        "| what | promise | measured | kept |",
        "|---|---|---|---|",
    ]
    for row in result["rows"]:
        kept = {True: "yes", False: "**no**", None: ""}[row["kept"]]
        lines.append("| " + " | ".join(_cell(text) for text in (row["what"], row["promise"], row["measured"])))
        lines[-1] += f" | {kept} |"
    return "\n".join(lines) + "\n"


def _revision(result: dict[str, Any]) -> str:
    commit, dirty, _ = str(result.get("revision", NOT_RECORDED)).partition("-dirty")
    return (f"`{commit[:12]}`" if commit != NOT_RECORDED else commit) + (" with local changes" if dirty else "")


def _machine(machine: dict[str, str]) -> str:
    facts = [f"{machine['cores']} cores", f"device {machine.get('device', NOT_RECORDED)}"]
    facts += [f"driver {machine['driver']}"] if "driver" in machine else []
    return ", ".join([*facts, f"torch {machine.get('torch', NOT_RECORDED)}"])


def _cell(text: str) -> str:
    shown = text if len(text) <= LONGEST else text[:LONGEST] + " …"
    return shown.replace("|", "\\|")


def render_page(page: str, claims: str) -> str:
    """The page with the claims between their two marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n{claims}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    rendered = render_page(page, render_claims())
    if options.check:
        return int(page != rendered)
    PAGE.write_text(rendered, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
