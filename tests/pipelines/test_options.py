import os
from pathlib import Path

import apache_beam as beam

from musadata.config import load_config
from pipelines.options import RunOptions
from tests.conftest import CONFIG


def write_process(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()


def test_one_worker_is_one_and_works_in_the_process_of_the_command(tmp_path):
    options = RunOptions(load_config(CONFIG), "", ("--direct_num_workers=1",))
    with options.pipeline() as pipeline:
        pipeline | beam.Create([str(tmp_path)] * 4) | beam.Reshuffle() | beam.Map(write_process)
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]
