from benchmarks.analyses import agrees, kernels_of, unfused

ANSWER = """
__global__ void __launch_bounds__(128) tanh_kernel(const float* __restrict__ x, float* __restrict__ tanh, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tanh[i] = tanhf(x[i]);
}

__global__ void add_kernel(const float* __restrict__ tanh, float* __restrict__ add, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += 32) {
        add[i] = tanh[i] + 1.0f;
    }
}
"""


def test_an_analysis_agrees_with_an_answer_that_has_the_kernels_it_names():
    assert kernels_of(ANSWER) == ["tanh_kernel", "add_kernel"]
    assert agrees("First `tanh_kernel`, then `add_kernel`.", ANSWER)
    assert agrees("`tanh_kernel` (launched twice), then `add_kernel` of `prelu_kernel` (4, 37).", ANSWER)
    assert not agrees("`tanh_kernel` does it all.", ANSWER)
    assert agrees("One kernel per loop nest makes two: a, b.", ANSWER)
    assert not agrees("One kernel is enough: a.", ANSWER)
    assert not agrees("Nothing is said of kernels.", ANSWER)


def test_a_pointwise_kernel_that_reads_what_another_wrote_is_found():
    assert unfused(ANSWER) == ["tanh"]
    assert unfused(ANSWER.replace("tanh[i] + 1.0f", "tanh[i / 2]")) == []
    assert unfused(ANSWER.replace("    tanh[i] =", "    __shared__ float tile[2];\n    tanh[i] =")) == []


def test_what_waits_for_a_sum_of_the_same_values_is_not_unfused():
    total = """
__global__ void sum_kernel(const float* __restrict__ tanh, float* __restrict__ sum, int total) {
    for (int k = 0; k < total; ++k) sum[0] += tanh[k];
}
"""
    tanh, add = ANSWER.split("\n\n")
    waiting = add.replace(
        "const float* __restrict__ tanh", "const float* __restrict__ tanh, const float* __restrict__ sum"
    )
    assert unfused(f"{tanh}\n{total}\n{waiting}") == []
    assert unfused(f"{tanh}\n{total}\n{add}") == ["tanh"]
