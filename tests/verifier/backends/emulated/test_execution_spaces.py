"""What g++ cannot see: functions and variables that a device, or a host, does not have."""

import re

import pytest

from musadata.errors import MusadataError
from musadata.verifier.backends.emulated import execution_spaces
from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.backends.emulated.emulated_toolchain import cuda_headers
from musadata.verifier.backends.emulated.execution_spaces import find_misplaced, may_mix_spaces
from musadata.verifier.backends.torch_abi.bridge import include_folder
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits
from musadata.verifier.compilation.sources import CandidateSources
from tests.adversarial.programs import read_programs
from tests.verifier.backends.emulated.misplaced import ACCEPTED, REFUSED

LIMITS = CompileLimits()
HEADERS = (cuda_headers(), include_folder())


def together(programs):
    """All programs in one source, each with names of its own; with the range of lines of each."""
    text, lines = "", {}
    for number, (name, program) in enumerate(programs.items()):
        first = text.count("\n") + 1
        text += re.sub(r"\b(a|f|g|go|h|k|S|TWICE|CHECK)\b", rf"\g<1>{number}", program)
        lines[name] = range(first, text.count("\n") + 1)
    return text, lines


def test_what_stands_in_the_wrong_space_is_found_in_its_line_and_nothing_else_is(tmp_path):
    programs = {name: text for name, text in {**REFUSED, **ACCEPTED}.items() if "__CUDA_ARCH__" not in text}
    text, lines = together(programs)
    found = find_misplaced(CandidateSources("all", cuda=(text,)), HEADERS, tmp_path, LIMITS)
    assert {one.file for one in found} == {"cuda_source"}
    refused = {name for name, where in lines.items() if any(one.line in where for one in found)}
    assert refused == set(REFUSED)


def test_what_the_host_gets_of_a_source_that_asks_for_the_architecture_is_not_guessed(tmp_path):
    text, _ = together({name: text for name, text in ACCEPTED.items() if "__CUDA_ARCH__" in text})
    assert not find_misplaced(CandidateSources("asks", cuda=(text,)), HEADERS, tmp_path, LIMITS)


@pytest.mark.parametrize("name", REFUSED)
def test_none_of_it_looks_harmless(name):
    assert may_mix_spaces([REFUSED[name]])


def test_few_honest_programs_need_a_second_look():
    sources = [program.source.split('"""')[1] for program in read_programs("honest") if '"""' in program.source]
    assert len(sources) > 100
    assert sum(may_mix_spaces([source]) for source in sources) < 0.1 * len(sources)


MACRO = """
#define CHECK(x)                               \\
    TORCH_CHECK((x).is_cuda(), #x " is not"); /* on
    a device */ \\
    TORCH_CHECK((x).dim() == {0}(2), #x)

__global__ void scale(float* x) {{ x[threadIdx.x] *= 2.0f; }}

void run(torch::Tensor x) {{
    CHECK(x);
    TORCH_CHECK(x.size(0) == 8);
    scale<<<1, 8>>>(x.data_ptr<float>());
}}
"""


def test_a_macro_of_several_lines_is_no_part_of_the_declaration_after_it():
    assert not may_mix_spaces([MACRO.format("int")])


def test_all_lines_of_a_macro_count_where_it_is_used():
    assert may_mix_spaces([MACRO.format("threads") + "__device__ int threads(int x) { return x; }"])


def test_the_error_names_the_line_and_what_to_do():
    with pytest.raises(CompileError, match=r"^cuda_source:2: error: the array 'g' .* __constant__.*\n +__global__"):
        compile_sources(CandidateSources("table", cuda=(REFUSED["constant array"],)))


def test_a_front_end_that_does_not_run_is_not_taken_for_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(execution_spaces, "_program", lambda: "import clang_that_nobody_has")
    with pytest.raises(MusadataError, match="libclang"):
        find_misplaced(CandidateSources("function", cuda=(REFUSED["function"],)), HEADERS, tmp_path, LIMITS)
