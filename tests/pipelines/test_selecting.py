"""Where the machine fails under the selection, no shard is done and the run says why."""

from musadata.config import load_config
from musadata.errors import Outage
from pipelines import stage1, steps
from pipelines.steps import Undone
from tests.conftest import CONFIG


def test_outage_of_the_selection_leaves_all_shards_undone(monkeypatch):
    def fail(*_: object) -> None:
        raise Outage("no room", where="/tmp", remedy="make room there")

    monkeypatch.setattr(steps, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(stage1, "select_tasks", fail)
    config = load_config(CONFIG)
    undone = stage1._select(config, "", [])
    assert isinstance(undone, dict) and sorted(undone) == list(range(config.shards))
    kept = [stage1._keep_shard(config, "", one.shard, undone, "") for one in undone.values()]
    assert all(isinstance(one, Undone) and "make room there" in one.cause for one in kept)
