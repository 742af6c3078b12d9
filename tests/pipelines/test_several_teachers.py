"""A run with two servers: each is asked for its own part, and a dry run says before how often."""

import re
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from pipelines import all as all_stages
from pipelines import resources, stage1
from tests.pipelines.test_moved_tasks import World, fresh_process, make_source
from tests.teacher.chat_server import ChatServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = """\
seed: 7
shards: 2
sources: [{source}]
profiling: {{share: 0}}
sampling: {{turns: 2}}
teacher:
  {{kind: openai, base_url: '{first}', model: wise, samples: 1, concurrency: 2, roles: [reasoner]}}
teachers:
  - {{kind: openai, base_url: '{second}', model: coder, concurrency: 2, temperature: 0.2, roles: [generator, reviewer],
      extra_body: {{top_k: 7}}}}
"""


def column(corpus: Path, dataset: str, name: str) -> set[str]:
    return set(ds.dataset(corpus / dataset, format="parquet").to_table([name])[name].to_pylist())


def test_each_of_two_servers_is_asked_for_its_part_as_often_as_a_dry_run_said(tmp_path, monkeypatch, capsys):
    source, corpus = make_source(tmp_path / "a", 1, (3,)), tmp_path / "corpus"
    first, second = (World(None, tmp_path, ()) for _ in range(2))  # type: ignore[arg-type]
    monkeypatch.setattr(resources, "verifier", lambda config, teacher: second)
    servers = [
        ChatServer(lambda body, attempt, one=one: one.answer(body, attempt), models={"data": [{"id": model}]})
        for one, model in ((first, "wise"), (second, "coder"))
    ]
    with servers[0] as wise, servers[1] as coder:
        (tmp_path / "config.yaml").write_text(CONFIG.format(source=source, first=wise.url, second=coder.url))
        arguments = ["--config", str(tmp_path / "config.yaml"), "--corpus", str(corpus), "--direct_num_workers=1"]
        with fresh_process():
            assert stage1.main(arguments) == 0
            capsys.readouterr()
            assert all_stages.main([*arguments, "--dry-run"]) == 0
        said = dict(re.findall(r"(stage\d): at most ([\d,]+) requests", capsys.readouterr().out))
        assert first.given == second.given == 0
        with fresh_process():
            assert all_stages.main(arguments) == 0
    assert {body["model"] for body in wise.bodies} == {"wise"}
    assert {(body["model"], body["temperature"], body["top_k"]) for body in coder.bodies} == {("coder", 0.2, 7)}
    assert column(corpus, "annotations", "server") == {wise.url}
    assert column(corpus, "candidates", "server") == {coder.url}
    analyses = sum("response_format" in body for body in wise.bodies)
    assert analyses == int(said["stage2"])
    assert first.given + second.given == int(said["stage2"]) + int(said["stage3"])
