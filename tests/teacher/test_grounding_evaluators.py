"""Sentences about axes, windows, elements, arguments and ranges, each true or false by the trace of an example."""

import pytest

from musadata.teacher.grounding import Outcome, check_text
from tests.tracing.examples import traces_of

SENTENCES = {
    "convolution": [  # x is (2, 3, 16, 16): 3 x 3, stride 2, padding 1; the result is (2, 8, 8, 8)
        ("In the top left corner 4 of the 9 taps lie inside the image.", True),
        ("In the top left corner 6 of the 9 taps lie inside the image.", False),
        ("At the upper edge three taps fall on padding.", True),
        ("Output row 7 covers input rows 13 to 15.", True),
        ("Output row 7 covers input rows 14 to 16.", False),
        ("Output row 0 reads input rows -1 to 1.", True),
        ("The window of output column 3 starts at input column 5.", True),
        ("The window of output column 3 starts at input column 6.", False),
        ("All taps are valid for rows 1 to 7.", True),
        ("All taps are valid for rows 0 to 7.", False),
        ("An 8 × 8 tile needs a 17 × 17 patch.", True),
        ("An 8 × 8 tile needs a 10 × 10 patch.", False),
        ("The padding is 1, the kernel size 3.", True),
        ("The padding is 2.", False),
        ("It is a depthwise convolution.", False),
        ("128 outputs in tiles of 24 need 6 tiles with 16 left over.", True),
        ("128 outputs in tiles of 24 need 5 tiles.", False),
        ("128 outputs need 6 tiles of 24 with 8 left over.", True),
        ("128 outputs need 6 tiles of 24 with 12 left over.", False),
        ("The 16 samples of a row make four float4 loads without a remainder.", True),
        ("The 18 samples of a row make five float4 loads without a remainder.", False),
        ("The module returns [2, 8, 8, 8].", True),
        ("The module returns [2, 3, 16, 16].", False),
        ("conv.weight, [8, 3, 3, 3] in fp32, weighs 864 bytes.", True),
        ("conv.weight, [8, 3, 3, 3] in fp32, weighs 512 bytes.", False),
    ],
    "softmax": [  # x is (8, 128), along the last axis
        ("The softmax runs over dim 1.", True),
        ("The softmax normalises across dim=0.", False),
        ("The softmax normalises over the 128 columns of a row.", True),
        ("The softmax normalises over the 8 rows of a column.", False),
    ],
    "turned_rows": [  # x is (20, 3, 21): layer norm over 20, then softmax over 21
        ("The layer norm averages over the 20 values of a row.", True),
        ("The layer norm averages over the 3 rows.", False),
        ("The softmax sums over the 21 columns.", True),
        ("The transpose leaves 20 columns.", True),
        ("The transpose leaves 63 columns.", False),
    ],
    "layer_norm": [  # x is (2, 10, 32), weight and bias (32,)
        ("For flat index i the factor is `norm.weight[i % 32]`.", True),
        ("For flat index i the factor is `norm.weight[i / 32]`.", False),
        ("For flat output index i the row is i / 32, the feature is i % 32.", True),
        ("For flat output index i the row is i / 10.", False),
        ("Its epsilon is 1e-5.", True),
        ("Its epsilon is 1e-6.", False),
    ],
    "embedding": [  # ids from 0 to 99
        ("Ids run from 0 to 99.", True),
        ("Ids run from 1 to 100.", False),
        ("An id may be as large as 99.", True),
        ("An id may be as large as 100.", False),
    ],
    "halves": [  # two (3, 4) joined along dim 1
        ("The second half fills columns 4 to 7 of the output.", True),
        ("The second half fills columns 4 to 8 of the output.", False),
    ],
    "rolled_maximum": [  # rolled by 2 along the last axis of 20
        ("The roll reads column `(c - 2) % 20` for column c.", True),
        ("The roll reads column `(c + 2) % 20` for column c.", False),
    ],
    "matmul": [  # (33, 20) times (20, 70)
        ("`a` and `b` have the same dtype.", True),
        ("`a` and `b` have the same shape.", False),
        ("`b` has as many elements as `a`.", False),
    ],
    "losses": [  # a summed squared error and an averaged Huber loss
        ("delta is 0.5.", True),
        ("delta is 1.0.", False),
    ],
    "variance": [  # x is (4, 16, 8): variance over dim 1, then the maximum over dims 0 and 1
        ("The variance is taken over the 16 rows, the maximum over the batch.", True),
        ("The variance is taken along the batch axis.", False),
        ("It is the unbiased variance.", True),
        ("It is the population variance.", False),
        ("The variance reads `x[3, 15, 7]` last.", True),
        ("The variance reads `x[3, 16, 7]` last.", False),
        ("`x[3, 15, 7]` lies at offset 511.", True),
        ("`x[3, 15, 7]` lies at offset 503.", False),
    ],
}


@pytest.mark.parametrize(
    ("example", "sentence", "is_true"),
    [(name, sentence, is_true) for name, some in SENTENCES.items() for sentence, is_true in some],
    ids=[sentence for some in SENTENCES.values() for sentence, _ in some],
)
def test_a_sentence_is_contradicted_only_if_it_is_false(example, sentence, is_true):
    claims = check_text(sentence, traces_of(example)[:1])
    assert any(claim.outcome is Outcome.CONTRADICTED for claim in claims) != is_true, claims


PROGRAM = """
__global__ void sum_kernel(const float* x, float* out, int n) {  // no atomicAdd is needed
    __shared__ float partial[256];
    partial[threadIdx.x] = expf(x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[0] = partial[0];
}
void launch(torch::Tensor x) {
    const int64_t total = x.size(0) * x.size(-1);
    const int threads = 256;
    const dim3 blocks(std::max((total + threads - 1) / threads, 2), static_cast<int>(total / 1024) * 2);
    sum_kernel<<<blocks, threads, 0, stream>>>(x, out, total);
}
"""
ABOUT_PROGRAM = [
    ("The partial sums meet in shared memory behind a barrier.", True),
    ("The partial sums of all blocks meet by atomicAdd.", False),
    ("No barrier stands between the two accesses.", False),
    ("Nothing in this kernel is atomic.", True),
    ("If blocks were many, an atomicAdd would join them.", True),
    ("Each thread evaluates expf once.", True),
    ("Each thread evaluates log1pf once.", False),
    ("The work takes 2 kernels.", False),
    ("A float4 load serves four elements.", False),
    ("The softmax comes first.", True),
    ("sum_kernel is launched with 8 blocks of 256 threads.", True),
    ("sum_kernel is launched with 5 blocks of 256 threads.", False),
    ("sum_kernel is launched with 8 blocks of 128 threads.", False),
    ("The first kernel has 8 blocks.", True),
    ("It is launched with 2 warps.", False),
    ("A dropout follows.", False),
]


@pytest.mark.parametrize(("sentence", "is_true"), ABOUT_PROGRAM, ids=[sentence for sentence, _ in ABOUT_PROGRAM])
def test_a_program_uses_what_a_sentence_says_or_does_not(sentence, is_true):
    claims = check_text(sentence, traces_of("softmax"), PROGRAM)
    assert any(claim.outcome is Outcome.CONTRADICTED for claim in claims) != is_true, claims


def test_mechanisms_of_a_program_are_unknown_without_one():
    claims = check_text("The partial sums of all blocks meet by atomicAdd.", traces_of("softmax"))
    assert not [claim for claim in claims if claim.outcome is Outcome.CONTRADICTED]
