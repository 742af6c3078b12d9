"""Kernels that people wrote, from their repository to verified candidates."""

import duckdb
import pytest
import yaml

from tests.conftest import run_pipeline
from tests.mining.kernels.kernel_repository import FILES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CONFIG = {
    "seed": 3,
    "shards": 2,
    "teacher": {"kind": "compiler", "samples": 1, "faults": 0},
    "sampling": {"turns": 1},
    "verifier": {"backend": "emulated", "input_sets": 1},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("human")
    for path, text in FILES.items():
        (root / "rowops" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "rowops" / path).write_text(text)
    source = {"kind": "directory", "path": str(root / "rowops")}
    (root / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "sources": [source]}))
    run_pipeline(root / "corpus", config=root / "config.yaml")
    return root / "corpus"


def ask(corpus, sql):
    text = sql.replace("{", f"read_parquet('{corpus}/").replace("}", "/**/*.parquet')")
    return duckdb.sql(text).fetchall()


def test_kernels_are_published_with_their_tasks(corpus):
    rows = dict(ask(corpus, "SELECT wrapper, task_id <> '' FROM {kernels} WHERE binding <> 'swish_backward'"))
    assert rows == {
        "cube": True,
        "scale_shift": True,
        "FusedScaledSwish": True,
        "SwishFunction": False,
        "fast_square": True,
        "halve": True,
    }
    missing = (
        "SELECT count(*) FROM {kernels} k LEFT JOIN {tasks} t USING (task_id) WHERE task_id <> '' AND t.name IS NULL"
    )
    assert ask(corpus, missing) == [(0,)]


def test_human_candidates_are_judged_like_all_others(corpus):
    rows = ask(
        corpus,
        "SELECT k.wrapper, c.accepted, c.error_class FROM {candidates} c JOIN {kernels} k USING (task_id) "
        "WHERE c.teacher = 'human' ORDER BY 1",
    )
    assert rows == [
        ("FusedScaledSwish", True, None),
        ("cube", True, None),
        ("fast_square", False, "correctness"),
        ("halve", True, None),
        ("scale_shift", True, None),
    ]


def test_accepted_human_candidates_are_trained_on_and_failed_ones_are_not(corpus):
    learnt = (
        "(SELECT task_id, candidate_id FROM {sft} WHERE family = 'generation' AND teacher = 'human' "
        "UNION ALL SELECT task_id, candidate_id FROM {rft} WHERE teacher = 'human')"
    )
    assert 0 < ask(corpus, f"SELECT count(*) FROM {learnt}")[0][0] <= 5
    failed = f"SELECT count(*) FROM {learnt} r JOIN {{kernels}} k USING (task_id) WHERE k.wrapper = 'fast_square'"
    assert ask(corpus, failed) == [(0,)]
