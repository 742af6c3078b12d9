"""Profiles are of the emulator, whatever judges."""

from dataclasses import replace

from musadata.config import BackendType, Config, SourceConfig, SourceType, TeacherConfig, VerifierConfig
from musadata.training_config import ProfilingConfig
from pipelines.profiling import ProfileKernels
from pipelines.stage3 import Stage3


def steps_of(**settings):
    config = Config(
        sources=(SourceConfig(kind=SourceType.OPERATORS, count=1),),
        teacher=TeacherConfig(),
        verifier=VerifierConfig(backend=BackendType.CUDA),
        **settings,
    )
    return config, Stage3(config, "corpus")._steps()


def test_a_corpus_that_a_device_judges_has_profiles_which_do_not_depend_on_the_device():
    config, steps = steps_of()
    (step,) = (one for one in steps if isinstance(one, ProfileKernels))
    emulated = replace(config, verifier=replace(config.verifier, backend=BackendType.EMULATED))
    assert step.code() == ProfileKernels(emulated, "corpus").code()


def test_a_share_of_nothing_is_no_step():
    assert not any(isinstance(one, ProfileKernels) for one in steps_of(profiling=ProfilingConfig(share=0.0))[1])
