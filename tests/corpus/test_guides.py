"""The commands of the pages for readers and trainers, run as they stand there, on a small corpus."""

import re
import shlex
from pathlib import Path

import pytest

from musadata.commands.cli import main
from musadata.corpus.query import QUESTIONS, query
from tests.corpus.conftest import ORIGINS, REFERENCE, build_corpus

DOCS = Path(__file__).parent.parent.parent / "docs"
STARTS_SERVERS = ("musadata view", "musadata evaluate")


def commands(page: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("musadata ") and not line.startswith(STARTS_SERVERS)]


@pytest.mark.parametrize("page", ["reading.md", "training.md"])
def test_the_commands_of_a_page_do_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.py").write_text(REFERENCE.format(scale=3, width=6))
    build_corpus("build/quickstart", tasks=4)
    build_corpus("build/other", tasks=6)
    some_id = query("build/quickstart", "SELECT min(sft_id) FROM sft").column(0)[0].as_py()
    found = commands(page)
    assert found
    for line in found:
        line = line.replace("sft-03d6", some_id).replace("https://github.com/someone/layers", ORIGINS[1][1])
        assert main(shlex.split(line)[1:]) == line.startswith("musadata diff"), line


def test_the_page_lists_every_ready_made_question():
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "reading.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(QUESTIONS)
