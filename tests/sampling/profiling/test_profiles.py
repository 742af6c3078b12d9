"""A profile shows a slow kernel, and the same kernel of another program that costs far less."""

from dataclasses import replace

import pytest

from musadata.config import ProfilingConfig
from musadata.records import Reject
from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.metrics import read_table
from musadata.sampling.profiling.profiles import Profile, profile_task
from musadata.verifier.protocol.access_counts import CountedCall
from tests.corpus.conftest import converse, make_task
from tests.sampling.profiling.test_diagnosis import COPY, LAUNCHES

PROGRAM = '''from torch.utils.cpp_extension import load_inline

cuda_source = """
__global__ void k(const float* x, float* y, int {0}) {{
    __shared__ float tile[32][32];
    for (int r = 0; r < {0}; ++r) y[r] = x[r];
}}
"""
extension = load_inline("k", cpp_sources="", cuda_sources=cuda_source, functions=["f"])
'''
SLOW, FAST = PROGRAM.format("slow"), PROGRAM.format("fast")
CONFIG = ProfilingConfig()


def programs(*sources):
    found = [converse(make_task(1), sample, ["accepted"])[0][0] for sample in range(len(sources))]
    return [replace(one, source=source) for one, source in zip(found, sources, strict=True)]


def profiled(fast, slow, sources=(FAST, SLOW)):
    """What becomes of a task whose programs have these counts."""

    def count(task, source, windows, accesses):
        return CountedCall(launches=(slow if source == SLOW else fast,))

    return profile_task(make_task(1), programs(*sources), count, CONFIG)


def test_the_answer_ends_with_the_better_kernel_and_its_counts():
    found = profiled(COPY, LAUNCHES["scattered_stores"])
    assert isinstance(found, Profile) and found.kind == "scattered_stores"
    assert "int slow" in found.prompt[-1].content and "int fast" in found.text and "int slow" not in found.text
    table = found.prompt[-1].content.split("```csv\n")[1].split("\n```")[0]
    assert not check_diagnosis(found.text.partition("**Change.**")[0], read_table(table))
    assert "moves 256 sectors of global memory where this kernel moves 1152" in found.text


@pytest.mark.parametrize(
    ("fast", "sources", "reason"),
    [
        (LAUNCHES["scattered_stores"], (FAST, SLOW), "no better program"),
        (COPY, (SLOW,), "no other program"),
        (COPY, (), "no other program"),
    ],
)
def test_a_remedy_that_no_program_proves_is_not_told(fast, sources, reason):
    found = profiled(fast, LAUNCHES["scattered_stores"], sources)
    assert isinstance(found, Reject) and found.reason == reason
