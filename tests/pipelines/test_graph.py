"""The graph as runners get it."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from musadata.config import BackendType, ClusterConfig, Config, SourceConfig, SourceType, VerifierConfig
from pipelines import graph
from pipelines.stage1 import Stage1
from pipelines.stage2 import Stage2
from pipelines.stage3 import Stage3

HINT = "type:nvidia-l4;count:1;install-nvidia-driver"


def components(arguments, **settings):
    config = Config((SourceConfig(SourceType.COMPOSITION, count=1),), **settings)
    pipeline = beam.Pipeline(options=PipelineOptions(arguments), runner="DirectRunner")
    graph._connect(pipeline, [kind(config, "/corpus") for kind in (Stage1, Stage2, Stage3)])
    return pipeline.to_runner_api().components


@pytest.mark.parametrize("arguments", [[], ["--runner=FlinkRunner"]])
def test_steps_have_names_that_people_can_read(arguments):
    assert max(len(one.unique_name) for one in components(arguments).transforms.values()) < 100


def test_only_steps_that_run_kernels_ask_for_the_accelerator_that_the_config_names():
    def hinted(backend):
        found = components(["--runner=FlinkRunner"], verifier=VerifierConfig(backend), cluster=ClusterConfig(HINT))
        environments = {key for key, one in found.environments.items() if HINT.encode() in one.resource_hints.values()}
        leaves = [one for one in found.transforms.values() if one.environment_id in environments]
        return {one.unique_name.split("/")[1].rstrip(" 0123456789") for one in leaves}

    assert hinted(BackendType.CUDA) == {"Execute", "TestKernels"}
    assert hinted(BackendType.EMULATED) == set()
