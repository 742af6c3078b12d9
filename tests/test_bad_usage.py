"""Sixty wrong ways to call the tools: each ends with exit code 2 and one line with a remedy, and writes nothing."""

from pathlib import Path

import pytest

from musadata.commands.cli import main
from musadata.corpus.manifest import create_corpus
from pipelines import all as stages

CONFIG = "sources: [{{kind: package, name: torch}}]\n{}"
SOURCE = "sources: [{{{}}}]\n"

# Command lines of `musadata`, in a folder with EMPTY/ (a corpus without stages) and some files.
COMMAND_LINES = """
nonsense
quer EMPTY 'SELECT 1'
--colour query EMPTY funnel
query
query EMPTY
query absent funnel
query ref.py funnel
query notes funnel
query EMPTY 'SELEC 1'
query EMPTY 'SELECT nothing FROM tasks'
query EMPTY 'SELECT * FROM nowhere'
query EMPTY funnel --format pdf
query EMPTY funnel --format parquet
query EMPTY funnel --rows many
query EMPTY funnel --row 5
show absent
show EMPTY
show EMPTY --dataset nothing
show EMPTY --count x
show EMPTY --where 'not sql ('
trace absent.py
trace notes
trace binary.py
trace ref.py --shapes two
trace task-1 --corpus EMPTY
trace task-1 --corpus absent
prompt absent.py
prompt binary.py
prompt ref.py --shapes 1
prompt ref.py --format xml
verify --reference ref.py
verify --candidate ref.py
verify --reference absent.py --candidate ref.py
verify --reference ref.py --candidate absent.py
verify --reference ref.py --candidate ref.py --backend tpu
verify --reference ref.py --candidate ref.py --policy lenient
verify --reference ref.py --candidate ref.py --input-sets 0
verify --reference ref.py --candidate ref.py --seconds 0
verify-batch absent.parquet --output out.parquet
verify-batch ref.py --output out.parquet
rejudge absent --policy paper
policies lenient
report absent
report notes
export EMPTY --to out
export EMPTY --for nobody --to out
export EMPTY --for trl
export EMPTY --for trl --to out
export EMPTY --for trl --to notes
export absent --for trl --to out
diff EMPTY
diff EMPTY absent
diff EMPTY EMPTY
merge absent --to out
merge EMPTY
forget EMPTY
forget EMPTY --repository https://example.org/other
forget absent --repository https://example.org/other
schemas --output ref.py
run
run absent.yaml
run bad.yaml
run notes
""".strip().splitlines()

# Configs that a stage is started with, and what is wrong in them.
CONFIGS = {
    "sources[0].count: is for other kinds than package": SOURCE.format("kind: package, name: torch, count: 4"),
    "sources[0].columns: is for other kinds than git": SOURCE.format("kind: git, url: x, columns: {content: a}"),
    "sources[0].nodes: is for other kinds than composition": SOURCE.format("kind: composition, count: 4, nodes: 2"),
    "sources[0].columns: is missing": SOURCE.format("kind: parquet, path: x"),
    "sources[0].license: is Unknown-1, which tasks.licenses does not allow": SOURCE.format(
        "kind: directory, path: ., license: Unknown-1"
    ),
    "teacher.temperature: is for other kinds than compiler": CONFIG.format(
        "teacher: {kind: compiler, temperature: 0.3}"
    ),
    "teacher.base_url: is for other kinds than compiler": CONFIG.format("teacher: {base_url: 'http://a/v1'}"),
    "teacher.engine: is for other kinds than openai": CONFIG.format(
        "teacher: {kind: openai, model: m, base_url: 'http://a/v1', engine: {max_model_len: 5}}"
    ),
    "teacher.extra_body: is for other kinds than replay": CONFIG.format(
        "teacher: {kind: replay, path: a, extra_body: {top_k: 2}}"
    ),
    "limit: is -1": CONFIG.format("limit: -1"),
}
OPTIONS = ("--limit 0", "--limit many", "--retry-faild", "--runner TurboRunner", "--lim 5")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    create_corpus(str(tmp_path / "EMPTY"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("a")
    (tmp_path / "ref.py").write_text("x = 1\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "bad.yaml").write_text("sources: []\n")
    (tmp_path / "good.yaml").write_text(CONFIG.format(""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "run.lock"}


def check(call, argv, here, capsys) -> str:
    before = contents(here)
    try:
        code = call(argv)
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr().err
    assert code == 2, told
    assert told.startswith("musadata: ") and told.count("\n") == 1, told
    assert ";" in told, f"without a remedy: {told}"
    assert contents(here) == before
    return told


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_wrong_command_line_is_one_line(line, here, capsys):
    import shlex

    check(main, shlex.split(line), here, capsys)


@pytest.mark.parametrize("problem", CONFIGS)
def test_a_wrong_config_starts_nothing(problem, here, capsys):
    (here / "config.yaml").write_text(CONFIGS[problem])
    assert problem in check(stages.main, ["--config", "config.yaml", "--corpus", "new"], here, capsys)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_wrong_option_of_a_stage_starts_nothing(options, here, capsys):
    check(stages.main, ["--config", "good.yaml", "--corpus", "new", *options.split()], here, capsys)


def test_the_list_is_as_long_as_it_says():
    assert len(COMMAND_LINES) + len(CONFIGS) + len(OPTIONS) >= 60
