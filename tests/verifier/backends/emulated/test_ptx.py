"""Inline PTX computes what the PTX manual says."""

import re

import pytest

from musadata.verifier.backends.emulated.rewrite import rewrite
from musadata.verifier.compilation.compile_errors import Unsupported
from tests.verifier.backends.emulated.test_bugs import CANDIDATE

# An instruction or several, the constraint and value of each input, the constraint of the output, its bits or value.
WORDS = [
    ("shl.b32 %0, %1, %2;", [3, 4], 48),
    ("shl.b32 %0, %1, %2;", [3, 40], 0),
    ("shr.u32 %0, %1, 1;", [0x80000000], 0x40000000),
    ("shr.s32 %0, %1, 33;", [0x80000000], 0xFFFFFFFF),
    ("or.b32 %0, %1, %2;", [5, 10], 15),
    ("not.b32 %0, %1;", [5], 0xFFFFFFFA),
    ("bfe.u32 %0, %1, 4, 8;", [0xABCD], 0xBC),
    ("bfe.s32 %0, %1, 4, 8;", [0xABCD], 0xFFFFFFBC),
    ("bfi.b32 %0, %1, %2, 8, 4;", [0xF, 0], 0xF00),
    ("prmt.b32 %0, %1, %2, 0x5410;", [0x1111AAAA, 0x2222BBBB], 0xBBBBAAAA),
    ("prmt.b32 %0, %1, %2, 0x0008;", [0x80, 0], 0x808080FF),
    ("lop3.b32 %0, %1, %2, 0, 0x3C;", [12, 10], 6),
    ("shf.l.wrap.b32 %0, %1, %2, 8;", [0xAA000000, 0xBB], 0xBBAA),
    ("mul.hi.u32 %0, %1, %2;", [0x80000000, 6], 3),
    ("mad.lo.s32 %0, %1, %2, 7;", [5, 6], 37),
    ("sub.s32 %0, %1, %2;", [5, 6], 0xFFFFFFFF),
    ("min.s32 %0, %1, %2;", [5, 0xFFFFFFFF], 0xFFFFFFFF),
    ("max.u32 %0, %1, %2;", [5, 6], 6),
    ("popc.b32 %0, %1;", [0xF0F], 8),
    ("clz.b32 %0, %1;", [1], 31),
    ("{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.b32 %0, 1, 2, p; }", [3, 4], 1),
    ("{ .reg .pred p, q; setp.eq.s32 p|q, %1, %2; @q mov.u32 %0, 9; @!q mov.u32 %0, 8; }", [3, 4], 9),
    ("{ .reg .b32 t; add.u32 t, %1, %1; mov.b32 %0, t; }", [21], 42),
    ("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }", [0x12345678], 0x56781234),
    ("{ .reg .u64 w; mul.wide.u32 w, %1, %2; shr.u64 w, w, 32; cvt.u32.u64 %0, w; }", [0x80000000, 4], 2),
    ("cvt.rn.f16x2.f32 %0, 0f3F800000, 0f40000000;", [], 0x3C004000),
    ("cvt.rn.bf16x2.f32 %0, 0f3F800000, 0f40000000;", [], 0x3F804000),
    ("fma.rn.f16x2 %0, %1, %2, %2;", [0x3C003C00, 0x40004000], 0x44004400),
    ("add.f16x2 %0, %1, %2;", [0x3C003C00, 0x40004000], 0x42004200),
    ("cvt.rna.tf32.f32 %0, 0f3F801001;", [], 0x3F802000),
    ("mov.u32 %0, %%ntid.x;", [], 32),
    ("mov.u32 %0, %%lanemask_lt;", [], 0),
    ("redux.sync.add.s32 %0, %1, 0xffffffff;", [2], 64),
    ("shfl.sync.down.b32 %0, %1, 1, 0x1f, 0xffffffff;", [7], 7),
    ("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }", [7], 0xFFFFFFFF),
    ("bar.sync 0; mov.b32 %0, %1;", [7], 7),
]
FLOATS = [
    ("max.f32 %0, %1, %2;", [1.5, -2.0], 1.5),
    ("min.ftz.f32 %0, %1, %2;", [1.5, -2.0], -2.0),
    ("fma.rn.f32 %0, %1, %2, %2;", [1.5, -2.0], -5.0),
    ("add.rn.f32 %0, %1, 0f3F800000;", [1.5], 2.5),
    ("mul.ftz.f32 %0, %1, %2;", [1.5, -2.0], -3.0),
    ("div.full.f32 %0, %1, %2;", [3.0, -2.0], -1.5),
    ("neg.f32 %0, %1;", [3.0], -3.0),
    ("abs.f32 %0, %1;", [-3.0], 3.0),
    ("rcp.approx.ftz.f32 %0, %1;", [4.0], 0.25),
    ("rsqrt.approx.f32 %0, %1;", [4.0], 0.5),
    ("add.sat.f32 %0, %1, %2;", [4.0, 4.0], 1.0),
    ("{ .reg .s32 i; cvt.rni.s32.f32 i, %1; cvt.rn.f32.s32 %0, i; }", [2.5], 2.0),
    ("{ .reg .s32 i; cvt.rzi.s32.f32 i, %1; cvt.rn.f32.s32 %0, i; }", [-2.75], -2.0),
    ("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h; }", [1.0009765625], 1.0009765625),
    ("{ .reg .pred p; setp.gt.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }", [1.5, -2.0], 1.5),
]


def _program() -> str:
    lines = []
    for index, (text, inputs, _) in enumerate(WORDS):
        given = ", ".join(f'"r"({value}u)' for value in inputs)
        lines.append(f'{{ unsigned r; asm volatile("{text}" : "=r"(r) : {given}); if (!threadIdx.x) w[{index}] = r; }}')
    for index, (text, inputs, _) in enumerate(FLOATS):
        given = ", ".join(f'"f"({value}f)' for value in inputs)
        lines.append(f'{{ float r; asm("{text}" : "=f"(r) : {given}); if (threadIdx.x == 0) f[{index}] = r; }}')
    body = "\n".join(lines)
    kernel = f"""
#include <torch/extension.h>
__global__ void kernel(unsigned* w, float* f) {{
{body}
}}
torch::Tensor run(torch::Tensor w) {{
  auto f = torch::empty({{{len(FLOATS)}}}, w.options().dtype(torch::kFloat));
  kernel<<<1, 32>>>((unsigned*)w.data_ptr<int>(), f.data_ptr<float>());
  return f;
}}
"""
    answer = f"""
def answer():
    w = torch.empty({len(WORDS)}, dtype=torch.int, device="cuda")
    f = extension.run(w)
    return w.tolist(), f.tolist()
"""
    return CANDIDATE.format(source=kernel, reference="x", shape=(4,)) + answer


def test_instructions_on_registers(run):
    answer = run(_program())
    assert answer["error"] == "", answer["error"]
    words, floats = answer["value"]
    for (text, _, expected), word in zip(WORDS, words, strict=True):
        assert word & 0xFFFFFFFF == expected, (text, hex(word & 0xFFFFFFFF))
    for (text, _, expected), value in zip(FLOATS, floats, strict=True):
        assert value == expected, text


@pytest.mark.parametrize(
    ("instruction", "report"),
    [
        ("ld.global.v4.f32 {%0, %1, %2, %3}, [%4+16];", "out_of_bounds"),
        ("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4+4];", "misaligned"),
    ],
)
def test_accesses_are_checked(run, instruction, report):
    kernel = f"""
#include <torch/extension.h>
__global__ void kernel(const float* x, float* y) {{
  float a, b, c, d;
  asm volatile("{instruction}" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x));
  y[0] = a + b + c + d;
}}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  kernel<<<1, 1>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}}
"""
    records = run(CANDIDATE.format(source=kernel, reference="x", shape=(4,)), sanitize=True)["records"]
    assert report in {item["kind"] for item in records["reports"] + records["faults"]}


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ('asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(id));', "%cluster_ctaid.x"),
        ('asm("wgmma.fence.sync.aligned;");', "inline PTX wgmma.fence"),
        ('asm("bra DONE;");', "DONE"),
        ('asm("bar.sync 1, 64;");', "inline PTX bar.sync"),
        ('asm("prmt.b32.f4e %0, %1, %1, 0;" : "=r"(a) : "r"(b));', "inline PTX prmt.b32.f4e"),
        ('asm("red.async.relaxed.cluster.add.u32 [%0], %1;" :: "r"(a), "r"(b));', "inline PTX red.async"),
        ('asm(PREFIX ".u32 %0, 1;" : "=r"(a));', "a macro puts together"),
    ],
)
def test_what_is_not_known_is_no_mistake_of_the_candidate(statement, what):
    with pytest.raises(Unsupported, match=re.escape(what)):
        rewrite(statement)
