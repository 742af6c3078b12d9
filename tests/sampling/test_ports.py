"""Ports to MUSA: whole programs, what changes in them, and what cannot be ported."""

import ast
from dataclasses import replace

import pytest

from musadata.corpus.views.translation import translate_kernel
from musadata.records import Candidate, NativeSource, Port, PortVerdict, Reject
from musadata.sampling.ports import list_changes, port_candidates
from musadata.verifier.backends.musa.program_port import port_program
from musadata.verifier.compilation.compile_errors import Unsupported
from tests.adversarial.programs import read_programs
from tests.corpus.conftest import converse, make_kernel, make_task

PROGRAM = '''
import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void relu_cuda(const float* x, float* y) { y[threadIdx.x] = fmaxf(x[threadIdx.x], 0.0f); }  // cudaStream_t

torch::Tensor run(torch::Tensor x) {
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    relu_cuda<<<1, 32, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}
"""
extension = load_inline(
    name="relu", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=[cuda_source], functions=["run"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        torch.cuda.synchronize()
        return extension.run(x.cuda())
'''


def test_a_program_is_ported_in_its_strings_and_in_its_python():
    ported = port_program(PROGRAM)
    ast.parse(ported)
    for text in (
        "import torch_musa\nfrom torch_musa.utils.musa_extension import load_inline",
        "#include <musa_runtime.h>",
        "const musaStream_t stream = at::musa::getCurrentMUSAStream();",
        "relu_cuda<<<1, 32, 0, stream>>>",  # the program's own name
        "// cudaStream_t",  # a comment
        "musa_sources=[cuda_source]",
        'extra_musa_cflags=["-O3"]',
        "torch.musa.synchronize()",
        "extension.run(x.musa())",
    ):
        assert text in ported
    assert port_program(PROGRAM) == ported


@pytest.mark.parametrize("program", read_programs("honest"), ids=lambda program: program.name)
def test_honest_programs_are_ported_or_refused_with_a_reason(program):
    try:
        ported = port_program(program.source)
    except Unsupported as refusal:
        assert str(refusal)
        return
    assert ast.parse(ported) and "torch.utils.cpp_extension" not in ported and "cuda_runtime.h" not in ported


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("fmaxf(", 'asm("exit;"); fmaxf(', "inline PTX"),
        ("cuda_sources=[cuda_source]", "cuda_sources=[open('x').read()]", "without running it"),
        ('["-O3"]', '["--use_fast_math"]', "--use_fast_math"),
        ("import torch\n", "import torch\nimport torch.utils.cpp_extension\n", "in a way of its own"),
        ('r"""\n#inc', '"""\\x20\n#inc', ""),
    ],
)
def test_what_cannot_be_ported_is_refused_with_the_reason(old, new, why):
    assert old in PROGRAM
    changed = PROGRAM.replace(old, new)
    if why:
        with pytest.raises(Unsupported, match=why):
            port_program(changed)
    else:
        assert "musa_runtime.h" in port_program(changed)


def test_changes_are_named_once_each_in_their_order():
    changes = list_changes(PROGRAM, port_program(PROGRAM))
    assert "cudaStream_t → musaStream_t" in changes and "cuda_runtime.h → musa_runtime.h" in changes
    assert len(changes) == len(set(changes))
    assert not any(change.split(" → ")[0] == change.split(" → ")[1] for change in changes)


def candidates(source: str, **columns) -> list[Candidate]:
    found, _ = converse(make_task(0), 0, ["accepted"])
    return [replace(one, source=source, **columns) for one in found]


def test_a_port_is_not_run_unless_a_device_of_its_platform_judged_it():
    task = make_task(0)
    [port] = port_candidates(task, candidates(PROGRAM), 4)
    assert isinstance(port, Port) and port.verdict is PortVerdict.NOT_RUN and port.split == task.split
    [port] = port_candidates(task, candidates(PROGRAM, backend="musa"), 4)
    assert isinstance(port, Port) and port.verdict is PortVerdict.ACCEPTED


def test_a_program_without_a_port_is_a_reject_with_the_reason():
    [reject] = port_candidates(make_task(0), candidates(PROGRAM.replace("fmaxf(", 'asm("exit;"); fmaxf(')), 4)
    assert isinstance(reject, Reject) and "inline PTX" in reject.detail and reject.dataset == "ports"


def test_failed_and_equal_programs_are_not_ported():
    assert port_candidates(make_task(0), candidates(PROGRAM, accepted=False), 4) == []
    twice = candidates(PROGRAM) + candidates(PROGRAM, candidate_id="other")
    assert len(port_candidates(make_task(0), twice, 4)) == 1
    assert port_candidates(make_task(0), twice, 0) == []


def test_kernels_that_people_wrote_for_both_are_pairs():
    cuda, musa = (NativeSource(f"k.{end}", f"// {end}", "MIT") for end in ("cu", "mu"))
    kernel = replace(make_kernel(make_task(0)), native=(cuda,), musa=(musa,), split="test")
    row = translate_kernel(kernel)
    assert row is not None and (row.license, row.split, row.family) == ("MIT", "test", "translation")
    assert "// cu" in row.prompt[-1].content and "// mu" in row.completion[0].content
    assert translate_kernel(replace(kernel, musa=())) is None
    assert translate_kernel(replace(kernel, native=(replace(cuda, text="x" * 50_000),))) is None
