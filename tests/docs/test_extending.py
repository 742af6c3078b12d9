"""The recipes of docs/extending.md work: they are applied to a copy of the package, and what they add is used."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import musadata

ROOT = Path(musadata.__file__).parent.parent
BLOCK = re.compile(r"^```(diff|python) (musadata/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(title: str) -> list[tuple[str, str, str]]:
    """(kind, path, content) of the marked blocks under a heading."""
    page = (ROOT / "docs" / "extending.md").read_text()
    return BLOCK.findall(page.partition(f"\n## {title}\n")[2].partition("\n## ")[0])


def apply(kind: str, path: Path, content: str) -> None:
    if kind == "python":
        assert not path.exists(), f"{path} is no new file"
        path.write_text(content)
        return
    lines = content.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    text = path.read_text()
    assert text.count(old) == 1, f"docs/extending.md and {path.name} differ: {old}"
    path.write_text(text.replace(old, new))


@pytest.fixture
def follow(tmp_path):
    """Follows a recipe in a copy of the package; returns the files touched and a function that runs Python there."""

    def follow_recipe(title: str):
        shutil.copytree(ROOT / "musadata", tmp_path / "musadata", ignore=shutil.ignore_patterns("__pycache__"))
        found = blocks(title)
        for kind, path, content in found:
            apply(kind, tmp_path / path, content)

        def run(program: str) -> str:
            environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
            command = [sys.executable, "-c", program]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return {path for _, path, _ in found}, run

    return follow_recipe


def test_the_recipe_for_a_source_gives_drafts(follow, tmp_path):
    touched, run = follow("A source")
    assert 0 < len(touched) <= 3
    rows = [{"name": "Double", "reference": "import torch\n"}, {"name": "Half", "reference": "import math\n"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "config.yaml").write_text("sources: [{kind: jsonl, path: rows.jsonl, license: MIT}]\n")
    program = """
from musadata.config import load_config
from musadata.sources import open_source
(config,) = load_config("config.yaml").sources
source = open_source(config, seed=0)
for unit in source.units():
    for draft in source.read(unit, None):
        print(unit, draft.name, draft.provenance.origin, draft.provenance.lines, draft.provenance.license)
"""
    assert run(program) == "0000001 Double jsonl:rows.jsonl 1-1 MIT\n0000002 Half jsonl:rows.jsonl 2-2 MIT\n"


def test_the_recipe_for_an_operator_gives_a_kernel(follow):
    touched, run = follow("An operator")
    assert len(touched) == 2
    program = '''
from musadata.compiler.candidate_set import read_graph
from musadata.compiler.capturing.capture import capture
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.records import InputSpec
from musadata.rows import plain

source = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x, y):
        return torch.heaviside(x, y)
def get_inputs():
    return [torch.randn(3, 5), torch.randn(3, 5)]
def get_init_inputs():
    return []
"""
inputs = [plain(InputSpec(name, "normal", "float32", (3, 5))) for name in "xy"]
captured = capture(source, [inputs], 0)
assert "unsupported" not in captured, captured
candidate = build_candidate(read_graph(captured), PLANS[0])
print("heaviside_kernel" in candidate.source, "x_value == 0.0f" in candidate.source)
'''
    assert run(program).splitlines()[-1] == "True True"


def test_the_recipe_for_a_rule_rejects_what_breaks_it(follow):
    touched, run = follow("A legality rule")
    assert 0 < len(touched) <= 3
    program = """
from musadata.verifier.rules.catalogue import RULES
from musadata.verifier.rules.python.legality import check_legality
for call in ("print(x)", "self.note(x)"):
    source = f"class ModelNew:\\n    def forward(self, x):\\n        {call}\\n        return extension.run(x)\\n"
    print([(f.line, f.message, RULES[f.rule].error_class.value) for f in check_legality(source) if "print" in f.rule])
"""
    found = "[(3, 'The forward calls print, which writes to the terminal.', 'not_allowed')]"
    assert run(program) == f"{found}\n[]\n"
