import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.sampling.device_code import _read_function
from musadata.sampling.diversity import BEYOND_KEEP, NEW_TECHNIQUES, SAME, choose_diverse
from musadata.sampling.statements import _read_piece
from musadata.sampling.structure import describe_structure, distance, is_near_identical
from musadata.training_config import KeepBy

NAIVE = """
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
STRIDED = """
__global__ void scale(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}
"""
BLOCK_SUM = """
__global__ void sum(const float* x, float* y, int n) {
  __shared__ float partial[256];
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
  partial[threadIdx.x] = s;
  __syncthreads();
  for (int step = 128; step > 0; step >>= 1) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[0] = partial[0];
}
"""


def as_python(code: str) -> str:
    return f"import torch\nsource = r'''{code}'''\n"


def kernel(body: str, parameters: str = "const float* x, float* y, int n") -> str:
    return f"__global__ void k({parameters}) {{\n{body}\n}}\n"


INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
LOOP = "for (int j = 0; j < n; ++j)"


def test_techniques_are_named_in_the_label():
    assert describe_structure(as_python(BLOCK_SUM)).label == "kernels=1 barrier shared-memory"
    assert describe_structure(as_python(STRIDED)).label == "kernels=1 grid-stride"


def test_a_technique_in_a_comment_does_not_count():
    code = NAIVE.replace("int i =", "// no __shared__ float4 here, and no cp.async\n  int i =")
    assert describe_structure(as_python(code)).label == "kernels=1"


@given(st.from_regex(r"q[a-z_]{2,10}", fullmatch=True))
def test_renaming_and_comments_do_not_change_the_structure(name):
    renamed = (
        NAIVE.replace("scale", f"{name}_kernel").replace(" n)", f" {name}_count)").replace("< n", f"< {name}_count")
    )
    disguised = f"// {name}\n{renamed}"
    assert is_near_identical(describe_structure(as_python(NAIVE)), describe_structure(as_python(disguised)))
    assert distance(describe_structure(as_python(NAIVE)), describe_structure(as_python(disguised))) == 0


@given(st.permutations(["float a = x[i];", "float b = y[i];", "int last = n - 1;", "float c = 1.0f, d = 2.0f;"]))
def test_order_of_independent_statements_does_not_matter(lines):
    first = kernel(
        f"{INDEX} float a = x[i]; float b = y[i]; int last = n - 1; float c = 1, d = 2; y[last] = a * b + c * d;"
    )
    other = kernel(f"{INDEX} {' '.join(lines)} y[last] = a * b + c * d;")
    assert distance(describe_structure(first), describe_structure(other)) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("if (i < n) y[i] = x[i];", "if (i < n) { y[i] = x[i]; }"),
        ("for (int j = 0; j < n; ++j) y[j] = x[j];", "for (unsigned k = 0; k < n; k += 1) { y[k] = x[k]; }"),
        ("float a = 1, b = 2; y[i] = a + b;", "const float a = 1.f; const float b = 2e0f; y[i] = a + b;"),
        ("y[i] = x[i] * 32;", "constexpr int WARP = 32; y[i] = x[i] * WARP;"),
    ],
)
def test_ways_to_write_the_same_are_the_same(one, other):
    one, other = (kernel(f"{INDEX} {body}") for body in (one, other))
    assert distance(describe_structure(one), describe_structure(other)) == 0


@given(
    st.lists(st.sampled_from(["for (int j = 0; j < n; j++) {", "j < n;", "j++) {", "y[j] = x[j];", "}", "if (n", ")"]))
)
@settings(max_examples=50)
def test_a_structure_does_not_depend_on_what_was_read_before(lines):
    first, loop = kernel(" ".join(lines)), kernel("for (int j = 0; j < n; j++) { y[j] = x[j]; }")
    one, other = describe_structure.__wrapped__(first), describe_structure.__wrapped__(loop)
    _read_piece.cache_clear()
    _read_function.cache_clear()
    assert (other, one) == (describe_structure.__wrapped__(loop), describe_structure.__wrapped__(first))


def test_directives_are_not_statements_and_a_number_sign_in_quotes_is_no_directive():
    plain = kernel(f"{INDEX} y[i] = 4 * x[i];")
    macro = "  #  define TWICE(v) \\\n  (2 * (v))\n#define FOUR 4\n" + plain.replace("4 *", "FOUR *")
    assert describe_structure(macro) == describe_structure(plain)
    quoted, other = (kernel(f"{INDEX} if (x[i] == '{sign}') y[i] = 0;") for sign in "#%")
    assert len(describe_structure(quoted).shingles) == len(describe_structure(other).shingles)


def test_swapped_indices_are_another_structure():
    row, column = "blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.x * blockDim.x + threadIdx.x"
    body = "int r = {}; int c = {}; if (r < n && c < n) y[r * n + c] = 2 * x[r * n + c];"
    one, other = (describe_structure(kernel(body.format(*order))) for order in ((row, column), (column, row)))
    assert not is_near_identical(one, other)


@given(st.text(alphabet="ab{}();=[]\"'/*#\\ \n_<>.0", max_size=60))
@settings(max_examples=300)
def test_broken_code_still_has_a_structure(text):
    structure = describe_structure(f"__global__ void k(float* y) {{ {text}")
    assert distance(structure, structure) == 0


def test_source_that_is_not_python_is_read_as_cuda():
    assert describe_structure(NAIVE) == describe_structure(as_python(NAIVE))


def test_candidate_without_a_kernel_has_no_technique():
    assert (describe_structure("import torch\n").label, describe_structure("import torch\n").algorithm) == (
        "kernels=0",
        "none",
    )


def choose(codes, speedups=None, **settings):
    choices = choose_diverse([as_python(code) for code in codes], speedups or [None] * len(codes), **settings)
    return [index for index, choice in enumerate(choices) if choice.chosen], choices


def test_nearly_identical_kernels_are_kept_once_and_different_ones_together():
    renamed = re.sub(r"\bi\b", "k", NAIVE.replace("scale", "twice"))
    chosen, choices = choose([NAIVE, renamed, BLOCK_SUM, STRIDED], keep=4)
    assert chosen == [0, 2, 3]
    assert (choices[1].reason, choices[1].instead) == (SAME, 0)


def test_speed_decides_only_between_equals():
    faster = NAIVE.replace("scale", "twice")
    chosen, _ = choose([NAIVE, faster, BLOCK_SUM, STRIDED], [1.0, 1.5, 0.2, 0.1], keep=3)
    assert chosen == [1, 2, 3]
    chosen, _ = choose([NAIVE, faster, BLOCK_SUM, STRIDED], [1.0, 1.5, 0.2, 0.1], keep=2)
    assert 2 in chosen  # the only other algorithm, slow as it is


def test_speed_decides_where_the_config_asks_for_it():
    chosen, choices = choose([NAIVE, BLOCK_SUM, STRIDED], [None, 0.5, 1.5], keep=2, by=KeepBy.SPEED)
    assert chosen == [1, 2]
    assert choices[0].reason == BEYOND_KEEP


def test_new_techniques_come_before_variants_of_known_ones():
    vector = NAIVE.replace("const float* x, float* y", "const float4* x, float4* y").replace("2.0f * x[i]", "x[i]")
    chosen, choices = choose([NAIVE, STRIDED, vector, BLOCK_SUM], keep=2)
    assert 3 in chosen
    assert {choices[index].reason for index in chosen} == {NEW_TECHNIQUES}


@given(st.permutations([NAIVE, BLOCK_SUM, STRIDED, NAIVE.replace("scale", "other")]))
def test_the_chosen_structures_do_not_depend_on_the_order(codes):
    chosen, _ = choose(codes, keep=2)
    expected, _ = choose([NAIVE, BLOCK_SUM, STRIDED], keep=2)
    assert {describe_structure(codes[index]).label for index in chosen} == {
        describe_structure([NAIVE, BLOCK_SUM, STRIDED][index]).label for index in expected
    }


def test_nothing_accepted_means_nothing_kept():
    assert choose_diverse([], [], keep=4) == []
