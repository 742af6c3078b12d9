import os
from pathlib import Path

import apache_beam as beam
import pytest

from musadata.errors import MusadataError
from pipelines.beam_runner import open_pipeline
from pipelines.options import parse_options
from tests.conftest import CONFIG


def write_process(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()


def test_one_worker_is_one_and_works_in_the_process_of_the_command(tmp_path):
    with open_pipeline(["--direct_num_workers=1"]) as pipeline:
        pipeline | beam.Create([str(tmp_path)] * 4) | beam.Reshuffle() | beam.Map(write_process)
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("--direct_num_worker=2", "--direct_num_workers"),
        ("--runer=FlinkRunner", "--runner"),
        ("--corpsu=x", "--corpus"),
    ],
)
def test_misspelt_option_is_refused_with_the_right_one(tmp_path, option, remedy):
    with pytest.raises(MusadataError, match=remedy):
        parse_options(["--config", str(CONFIG), "--corpus", str(tmp_path), option], "")


def test_options_that_only_another_runner_knows_are_passed_on(tmp_path):
    flags = ("--runner", "PortableRunner", "--job_endpoint=embed", "--only_flink_knows=1")
    assert parse_options(["--config", str(CONFIG), "--corpus", str(tmp_path), *flags], "").arguments == flags


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--runner=FooRunner"], "is no runner that musadata knows; use DirectRunner, FlinkRunner"),
        (["--runner=PrismRunner"], "downloads a program"),
        (["--runner=SparkRunner"], "is not tested"),
        (["--runner=DaskRunner"], "loses data"),
        (["--runner=DataflowRunner"], "needs --project and --temp_location"),
        (["--runner=DataflowRunner", "--project=p"], "needs --temp_location"),
        (["--runner=FlinkRunner"], "needs the address of a job server"),
        (["--runner=PortableRunner"], "needs the address of a job server"),
        (["--runner=PortableRunner", "--job_endpoint=localhost:1"], "no server answers at localhost:1"),
    ],
)
def test_runner_that_cannot_be_used_is_refused_in_one_line(tmp_path, flags, said):
    with pytest.raises(MusadataError, match=said) as raised:
        parse_options(["--config", str(CONFIG), "--corpus", str(tmp_path / "corpus"), *flags], "")
    assert "\n" not in str(raised.value) and not (tmp_path / "corpus").exists()
