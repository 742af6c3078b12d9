import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.metrics import read_table
from tests.conftest import CONFIG, ROOT, run_module, run_pipeline

pytestmark = pytest.mark.timeout(900)


def shards(corpus: Path) -> dict[str, str]:
    files = sorted([*corpus.rglob("*.parquet"), corpus / "manifest.json"])
    return {str(file.relative_to(corpus)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def journal_size(corpus: Path) -> int:
    return sum(file.stat().st_size for file in (corpus / "_journal").rglob("*") if file.is_file())


def ask(corpus: Path, sql: str):
    return duckdb.sql(sql.replace("{", f"read_parquet('{corpus}/").replace("}", "/*.parquet')")).fetchall()


def test_both_sources_yield_tasks_and_every_row_says_where_it_came_from(quickstart_corpus):
    kinds = {kind for (kind,) in ask(quickstart_corpus, "SELECT DISTINCT source_kind FROM {tasks}")}
    assert kinds == {"mined", "nnsmith"}
    missing = "SELECT count(*) FROM {tasks} WHERE '' IN (provenance.origin, provenance.revision, provenance.license)"
    assert ask(quickstart_corpus, missing) == [(0,)]


def test_every_task_was_traced_on_two_shapes_one_of_them_not_a_power_of_two(quickstart_corpus):
    rows = ask(quickstart_corpus, "SELECT traces FROM {annotations}")
    assert rows
    for (traces,) in rows:
        shape_sets = [[tuple(spec["shape"]) for spec in trace["inputs"]] for trace in traces]
        assert len({str(shapes) for shapes in shape_sets}) >= 2
        assert any(size & (size - 1) for shapes in shape_sets for shape in shapes for size in shape)


def test_accepted_candidates_are_different_and_failed_ones_are_repaired(quickstart_corpus):
    structures = ask(
        quickstart_corpus,
        "SELECT task_id, count(DISTINCT structure) FROM {candidates} WHERE accepted GROUP BY 1 HAVING count(*) > 1",
    )
    assert any(count > 1 for _, count in structures)
    repaired = "SELECT count(*) FROM {trajectories} WHERE success AND len(candidates) > 1 AND fault <> ''"
    assert ask(quickstart_corpus, repaired)[0][0] > 0


def test_unit_tests_name_the_accepted_candidates_they_pass_and_the_wrong_programs_they_fail(quickstart_corpus):
    rows = ask(quickstart_corpus, "SELECT honest, mutants, caught_share FROM {unit_tests}")
    accepted = {one for (one,) in ask(quickstart_corpus, "SELECT candidate_id FROM {candidates} WHERE accepted")}
    [(tasks,)] = ask(quickstart_corpus, "SELECT count(DISTINCT task_id) FROM {candidates} WHERE accepted")
    assert len(rows) >= 0.8 * tasks
    for honest, mutants, share in rows:
        assert honest and accepted.issuperset(honest)
        assert share == sum(one["caught_by"] != "" for one in mutants) / len(mutants) >= 0.8


def test_emulated_verdicts_never_claim_speed(quickstart_corpus):
    assert ask(quickstart_corpus, "SELECT count(*) FROM {candidates} WHERE speedup IS NOT NULL") == [(0,)]
    assert ask(quickstart_corpus, "SELECT DISTINCT backend FROM {candidates}") == [("emulated",)]


def test_programs_that_trainers_learn_were_accepted_and_stand_once_in_each_family(quickstart_corpus):
    programs = "family IN ('generation', 'reasoned', 'repair')"
    rows = ask(quickstart_corpus, f"SELECT family, candidate_id, completion FROM {{sft}} WHERE {programs}")
    rows += ask(quickstart_corpus, "SELECT 'rft', candidate_id, completion FROM {rft}")
    sources = dict(ask(quickstart_corpus, "SELECT candidate_id, source FROM {candidates} WHERE accepted"))
    made = [family for family, _, _ in rows]
    assert "rft" in made and "repair" not in made  # no answer failed by itself
    right = "SELECT count(DISTINCT task_id) FROM {candidates} WHERE accepted AND fault = ''"
    untaught = "SELECT count(*) FROM {rejects} WHERE step = 'generation'"
    taught = sum(family in ("generation", "reasoned") for family in made)
    assert taught + ask(quickstart_corpus, untaught)[0][0] == ask(quickstart_corpus, right)[0][0]
    for _, candidate_id, completion in rows:
        assert sources[candidate_id].strip() in completion[-1]["content"]
    assert len({(family, sources[candidate_id]) for family, candidate_id, _ in rows}) == len(rows)


def test_seeded_faults_are_in_conversations_and_in_no_training_row(quickstart_corpus):
    made = "SELECT count(*) FROM {sft} WHERE family IN ('repair', 'review', 'feedback')"
    assert ask(quickstart_corpus, made) == ask(quickstart_corpus, "SELECT count(*) FROM {preferences}") == [(0,)]
    repaired = ask(quickstart_corpus, "SELECT count(*) FROM {trajectories} WHERE success AND fault <> ''")[0][0]
    told = "SELECT count(*) FROM {rejects} WHERE step = 'repair' AND reason = 'seeded fault'"
    assert ask(quickstart_corpus, told)[0][0] == repaired > 0


def test_unit_tests_of_the_compiler_are_a_dataset_and_no_rows_of_sft(quickstart_corpus):
    assert ask(quickstart_corpus, "SELECT count(*) FROM {unit_tests}")[0][0] > 0
    assert ask(quickstart_corpus, "SELECT count(*) FROM {sft} WHERE family = 'unit_test'") == [(0,)]


def test_profiles_state_no_figure_that_their_counters_do_not_have(quickstart_corpus):
    rows = ask(quickstart_corpus, "SELECT prompt, completion, split FROM {sft} WHERE family = 'profiling'")
    dropped = ask(quickstart_corpus, "SELECT reason FROM {rejects} WHERE step = 'profile'")
    assert len(rows) + len(dropped) > 0
    for prompt, completion, _ in rows:
        table = prompt[-1]["content"].split("```csv\n")[1].split("\n```")[0]
        assert not check_diagnosis(completion[-1]["content"], read_table(table))


def test_every_accepted_program_has_a_port_that_no_device_has_run_or_a_reject(quickstart_corpus):
    sources = "SELECT count(DISTINCT (task_id, source)) FROM {candidates} WHERE accepted AND fault = ''"
    rejects = "SELECT count(*) FROM {rejects} WHERE step = 'port'"
    ports = ask(quickstart_corpus, "SELECT verdict, source FROM {ports}")
    assert ask(quickstart_corpus, sources)[0][0] == len(ports) + ask(quickstart_corpus, rejects)[0][0]
    assert {verdict for verdict, _ in ports} == {"not run"}
    assert all("torch_musa" in source and "cuda_runtime.h" not in source for _, source in ports)


def test_everything_dropped_is_in_rejects_with_a_reason(quickstart_corpus):
    assert ask(quickstart_corpus, "SELECT count(*) FROM {rejects} WHERE reason = '' OR step = ''") == [(0,)]


def test_every_step_of_the_funnel_adds_up(quickstart_corpus):
    funnel = json.loads((quickstart_corpus / "manifest.json").read_text())["funnel"]
    for stage, steps in funnel.items():
        for step, counts in steps.items():
            assert counts["in"] == counts["out"] + sum(counts["dropped"].values()), (stage, step)


def test_the_manifest_says_how_the_families_are_balanced(quickstart_corpus):
    balance = json.loads((quickstart_corpus / "manifest.json").read_text())["balance"]
    counts = dict(ask(quickstart_corpus, "SELECT operator_family, count(*) FROM {tasks} GROUP BY 1"))
    assert {family: one["tasks"] for family, one in balance.items()} == counts
    assert sum(one["share"] for one in balance.values()) == pytest.approx(1.0, abs=0.01)


def test_targets_of_unknown_families_are_found_before_any_work(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("sources: [{kind: nnsmith, count: 4}]\ntasks: {families: {elementwize: 0.3}}\n")
    done = run_module("pipelines.stage1", "--config", str(config), "--corpus", str(tmp_path / "corpus"))
    assert (done.returncode, (tmp_path / "corpus").exists()) == (2, False)
    assert "tasks.families.elementwize" in done.stderr


def test_a_source_that_is_named_twice_gives_its_tasks_once(tmp_path):
    config, corpus = tmp_path / "config.yaml", tmp_path / "corpus"
    source = "{kind: nnsmith, count: 4, nodes: 3}"
    config.write_text(f"seed: 11\nshards: 2\nsources: [{source}, {source}]\n")
    done = run_module("pipelines.stage1", "--config", str(config), "--corpus", str(corpus))
    assert done.returncode == 0, done.stderr
    [(count, ids)] = ask(corpus, "SELECT count(*), count(DISTINCT task_id) FROM {tasks}")
    assert count == ids > 0
    [(repeated,)] = ask(corpus, "SELECT count(*) FROM {rejects} WHERE reason = 'repeated'")
    assert repeated >= count


def test_the_same_command_again_does_no_work(quickstart_corpus, tmp_path):
    corpus = tmp_path / "corpus"
    shutil.copytree(quickstart_corpus, corpus)
    before, journal = shards(corpus), journal_size(corpus)
    lines = run_pipeline(corpus)
    assert [line for line in lines if line.endswith("up to date")] == [f"stage{n}: up to date" for n in (1, 2, 3)]
    assert (shards(corpus), journal_size(corpus)) == (before, journal)


@pytest.mark.slow
def test_one_worker_makes_the_same_bytes_as_all_cores(quickstart_corpus, tmp_path):
    run_pipeline(tmp_path / "corpus", "--direct_num_workers=1")
    assert shards(tmp_path / "corpus") == shards(quickstart_corpus)


@pytest.mark.slow
def test_steps_in_workers_of_their_own_make_the_same_bytes(quickstart_corpus, tmp_path):
    # As with a GPU: verdicts are made by other processes than those that ask for answers and assemble.
    program = (
        "import sys; from musadata.config import BackendType; from pipelines import all, limits, stage3\n"
        "stage3.workers_here = lambda options: 0  # as on a cluster\n"
        "limits.DEVICE_BACKENDS = (BackendType.EMULATED,)\nsys.exit(all.main(sys.argv[1:]))"
    )
    arguments = ("--config", str(CONFIG), "--corpus", str(tmp_path / "corpus"))
    subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, check=True)
    assert shards(tmp_path / "corpus") == shards(quickstart_corpus)


@pytest.mark.slow
def test_killed_run_continues_to_the_same_bytes(quickstart_corpus, tmp_path):
    corpus = tmp_path / "corpus"
    command = [sys.executable, "-m", "pipelines.all", "--config", str(CONFIG), "--corpus", str(corpus)]
    for seconds in (15, 30):
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run_pipeline(corpus)
    assert shards(corpus) == shards(quickstart_corpus)


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_run_says_so_in_one_line(tmp_path, workers):
    arguments = ("--config", str(CONFIG), "--corpus", str(tmp_path / "corpus"), f"--direct_num_workers={workers}")
    command = [sys.executable, "-m", "pipelines.all", *arguments]
    handler = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # else who ignores it, as nohup does, hands that on
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, handler)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stage1: ")  # workers are at it
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    assert process.wait(timeout=60) == 130
    lines = [line for line in process.stderr.read().splitlines() if not line.startswith("stage")]
    assert lines == ["musadata: interrupted; the same command continues where it stopped"]


def test_stage_before_its_predecessor_says_what_to_run_first(tmp_path):
    run_module("pipelines.stage1", "--help")
    done = run_module("pipelines.stage2", "--config", str(CONFIG), "--corpus", str(tmp_path / "nothing"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "stage1" in line
    assert str(tmp_path / "nothing") in line


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("shards: 2\n", "sources"),
        ("sources: []\n", "sources"),
        ("sources: [{kind: nnsmith, count: 3}]\nshardz: 4\n", "shardz"),
        ("sources: [{kind: nnsmith, count: three}]\n", "sources[0].count"),
        ("sources: [{kind: nnsmith}]\n", "sources[0].count"),
    ],
)
def test_wrong_config_key_is_named_in_one_line(tmp_path, text, key):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    done = run_module("pipelines.stage1", "--config", str(config), "--corpus", str(tmp_path / "corpus"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert key in line
    assert not (tmp_path / "corpus").exists()


def test_truncated_shard_is_named_and_nothing_is_overwritten(quickstart_corpus, tmp_path):
    corpus = tmp_path / "corpus"
    shutil.copytree(quickstart_corpus, corpus)
    shard = next((corpus / "tasks").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-100])
    done = run_module("pipelines.stage2", "--config", str(CONFIG), "--corpus", str(corpus))
    assert done.returncode == 2
    assert shard.name in done.stderr
    (line,) = done.stderr.splitlines()
    assert "delete it" in line


def test_source_folder_without_python_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(f"sources: [{{kind: directory, path: {tmp_path / 'empty'}}}]\nshards: 1\n")
    done = run_module("pipelines.stage1", "--config", str(config), "--corpus", str(tmp_path / "corpus"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(tmp_path / "empty") in line


@pytest.mark.slow
def test_hostile_references_become_rejects_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    template = (
        "import torch\nimport torch.nn as nn\n\n\nclass {name}(nn.Module):\n    def forward(self, x):\n        {body}\n"
    )
    bodies = {
        "Endless": "while True:\n            x = x + 1",
        "Greedy": "return x + torch.zeros(100 * 2**30, dtype=torch.uint8).sum()",
        "Exits": "import os\n        os._exit(0)",
        "Honest": "return torch.sin(x) * x",
    }
    for name, body in bodies.items():
        (folder / f"{name.lower()}.py").write_text(template.format(name=name, body=body))
    config = tmp_path / "config.yaml"
    config.write_text(
        f"sources: [{{kind: directory, path: {folder}, license: MIT}}]\nshards: 2\ntasks: {{seconds: 3}}\n"
    )
    run_pipeline(tmp_path / "corpus", config=config, stage="stage1")
    assert ask(tmp_path / "corpus", "SELECT count(*) FROM {tasks}") == [(1,)]
    assert ask(tmp_path / "corpus", "SELECT count(*) FROM {rejects}")[0][0] >= 3
