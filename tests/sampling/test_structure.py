from hypothesis import given
from hypothesis import strategies as st

from musadata.sampling.diversity import choose_diverse
from musadata.sampling.structure import describe_structure, similarity

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


def test_techniques_are_named_in_the_label():
    label = describe_structure(as_python(BLOCK_SUM)).label
    assert label == "kernels=1 barrier shared-memory"
    assert describe_structure(as_python(STRIDED)).label == "kernels=1 grid-stride"


def test_a_technique_in_a_comment_does_not_count():
    code = NAIVE.replace("int i =", "// no __shared__ float4 here\n  int i =")
    assert describe_structure(as_python(code)).label == "kernels=1"


@given(st.from_regex(r"[a-wyz][a-z_]{2,10}", fullmatch=True))
def test_renaming_and_comments_do_not_change_the_structure(name):
    renamed = (
        NAIVE.replace("scale", f"{name}_kernel").replace(" n)", f" {name}_count)").replace("< n", f"< {name}_count")
    )
    disguised = f"// {name}\n{renamed}"
    assert similarity(describe_structure(as_python(NAIVE)), describe_structure(as_python(disguised))) == 1.0


def test_source_that_is_not_python_is_read_as_cuda():
    assert describe_structure(NAIVE).label == "kernels=1"


def test_candidate_without_a_kernel_has_an_empty_structure():
    assert describe_structure("import torch\n").label == "kernels=0"


def test_duplicates_are_kept_once_and_different_kernels_together():
    sources = [as_python(code) for code in (NAIVE, NAIVE, BLOCK_SUM, STRIDED)]
    assert choose_diverse(sources, [1.0, 1.0, 1.0, 1.0], keep=4) == [0, 2, 3]


def test_the_best_reward_is_chosen_first_and_keep_is_respected():
    sources = [as_python(code) for code in (NAIVE, BLOCK_SUM, STRIDED)]
    assert choose_diverse(sources, [1.0, 1.5, 1.0], keep=1) == [1]


def test_nothing_accepted_means_nothing_kept():
    assert choose_diverse([], [], keep=4) == []
