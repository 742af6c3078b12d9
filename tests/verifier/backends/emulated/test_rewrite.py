"""The rewriter touches CUDA's own syntax and nothing else, and every line stays on its line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.cpp import Code
from musadata.verifier.backends.emulated.emulated_units import assemble
from musadata.verifier.backends.emulated.rewrite import leave_out_foreign_headers, rewrite
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.sources import CandidateSources, from_load_inline
from musadata.verifier.protocol.message_encoding import decode, encode
from musadata.verifier.protocol.messages import CompileRequest
from musadata.verifier.rules.native.tokens import read_tokens

PLAIN = [
    "int x = 1;",
    "\n",
    " ",
    "\t",
    "x<y",
    "f(a, b)",
    "{",
    "}",
    "1.5e-3f",
    "0x1Fu",
    "1'000'000",
    "::",
    "->",
    "@",
    "é",
]
QUOTED = [
    "// a comment\n",
    "/* <<<1, 2>>> __shared__ */",
    '"k<<<1, 2>>>(x)"',
    "'\\''",
    "'<'",
    'R"(raw "t" __shared__)"',
]
TRICKY = [
    "a << b >> c",
    "std::vector<std::vector<int>> v;",
    "#define A(x) \\\n  x\n",
    "template <class T>",
    "\\",
    "__global__",
]
PIECES = st.sampled_from([*PLAIN, *QUOTED, *TRICKY])


@given(st.text())
def test_masked_text_is_as_long_as_the_source_whatever_it_is(source):
    code = Code(source)
    assert (len(code.mask), str(code)) == (len(source), source)


@given(st.lists(PIECES).map("".join))
def test_masked_text_is_as_long_as_the_source_for_code(source):
    assert len(Code(source).mask) == len(source)


def test_masked_text_shows_no_strings_and_comments():
    source = "return'\"'; f(u8\"a\"); /* g() */ 1'000 + 'x'; // h()\nR\"e()\")e\" 0x1F'ff"
    assert Code(source).mask.split() == ['return"_";', 'f(u8"_");', "1'000", "+", '"_";', '"_______"', "0x1F'ff"]


@given(st.lists(PIECES).map("".join))
def test_code_without_cuda_syntax_is_left_as_it_is(source):
    assert rewrite(source) == source


@given(st.text(alphabet=st.characters(blacklist_characters='"\\\n\r')))
def test_strings_and_comments_are_left_as_they_are(text):
    source = f'const char* s = "{text} k<<<1, 2>>>(3)"; // {text} __shared__ float x[4];\n'
    assert rewrite(source) == source


def test_characters_that_stand_for_edits_are_only_themselves_in_a_source():
    source = 'const char* s = "\U000f0000\U0010ffff"; // \U000f0001\n'
    assert rewrite(source + "int y = (int)z;\n") == source + "int y = (int)emulator::in_range<int>(z);\n"


def test_long_words_that_may_be_template_arguments_are_read_once():
    source = f"int y = (int)x < {'a' * 10_000} + {'1' * 10_000};\n"
    assert rewrite(source) == source.replace("(int)x", "(int)emulator::in_range<int>(x)")


def test_launch_in_the_arguments_of_another_one_is_rewritten_too():
    assert rewrite("a<<<1, 2>>>(b<<<3, 4>>>(x));").count("emulator::launch(") == 2


def test_token_lines_are_counted_through_comments_and_strings():
    tokens = read_tokens('a\n/* 1\n2 */ b "x\\\ny" c\n')
    assert [(token.text, token.line) for token in tokens if token.kind == "word"] == [("a", 1), ("b", 3), ("c", 4)]


def test_launch_becomes_a_call_with_configuration_and_arguments():
    assert rewrite("kernel<<<g, b, s, st>>>(x, n);") == (
        'emulator::launch("kernel", emulator::LaunchConfig(g, b, s, st), '
        "[&](auto... emulator_arguments) { kernel(emulator_arguments...); },x, n);"
    )


@pytest.mark.parametrize(
    ("launch", "name"),
    [
        ("kernel<float, 4><<<1, 2>>>(x)", "kernel"),
        ("ns::kernel<std::pair<int, int>><<<1, 2>>>(x)", "ns::kernel"),
        ("kernel<(A < B), sizeof(x)><<<dim3(1, 2), 3>>>()", "kernel"),
        ("::kernel\n<<<1,\n2>>>\n(x)", "::kernel"),
        ("kernel<A<B<int>>><<<1, 2>>>(x)", "kernel"),
    ],
)
def test_launches_of_every_shape_are_found(launch, name):
    text = rewrite(f"{launch};")
    assert text.startswith(f'emulator::launch("{name}", ')
    assert "<<<" not in text
    assert text.count("\n") == launch.count("\n")


def test_shift_operators_are_no_launch():
    assert rewrite("a <<< b; c >>> d;") == "a <<< b; c >>> d;"


def test_shared_arrays_get_a_slot_each():
    text = rewrite("void f() { __shared__ float a[TILE][TILE + 1], b; }")
    assert (
        "static emulator::Shared<float[TILE][TILE + 1]> emulator_shared_a; auto& a = emulator_shared_a.here();" in text
    )
    assert "static emulator::Shared<float> emulator_shared_b; auto& b = emulator_shared_b.here();" in text


def test_size_of_a_shared_array_may_hold_a_shift():
    text = rewrite("void f() { __shared__ float4 a[N >> 2], b[4][(N > 2) + 1]; }")
    assert "emulator::Shared<float4[(N >> 2)]>" in text
    assert "emulator::Shared<float4[4][((N > 2) + 1)]>" in text


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float s[];",
        "extern __shared__ __align__(16) float s[];",
        "extern __align__(16) __shared__ float s[];",
        "extern volatile __shared__ float s[];",
    ],
)
def test_dynamic_shared_memory_becomes_a_pointer(declaration):
    text = rewrite(f"void f() {{ {declaration} }}")
    assert re.search(r"auto\* const s = emulator::dynamic_shared<(volatile )?float>\(\);", text)


def test_dynamic_shared_memory_at_file_scope_keeps_line_numbers():
    text = rewrite("int a;\nextern __shared__ float s[]; int b;\nint c;")
    assert "#define s (emulator::dynamic_shared<float>())\n#line 2\n int b;\nint c;" in text


@given(st.integers(0, 5), st.integers(0, 5))
def test_every_line_stays_on_its_line(before, inside):
    gap = "\n" * inside
    source = "\n" * before + f"void f() {{ __shared__ float {gap} s[4]; k<<<1,{gap} 2>>>({gap}s); }}\nint last;"
    text = rewrite(source)
    assert text.count("\n") == source.count("\n")
    assert text.splitlines()[-1] == "int last;"


def test_ptx_becomes_cpp():
    assert "musadata_lane()" in rewrite('asm("mov.u32 %0, %%laneid;" : "=r"(lane));')
    assert "exp2f" in rewrite('asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));')
    assert "__uint_as_float(0x3F800000u)" in rewrite('asm("add.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));')
    assert "put((y)" in rewrite('asm("add.f32 %[y], %1, %1;" : [y] "=f"(y) : "f"(x));')


def test_the_version_of_a_symbol_is_left_to_the_linker():
    assert rewrite('__asm__(".symver powf,powf@GLIBC_2.2.5");\nint a;') == ";\nint a;"
    with pytest.raises(Unsupported):
        rewrite('__asm__(".symver powf,powf@GLIBC_2.2.5\\n.incbin \\"/etc/passwd\\"");')


@pytest.mark.parametrize(
    "header",
    ["cublas_v2.h", "curand.h", "cutlass/gemm.h", "cuda/stream_ref", "cuda_fp4.h", "nvtx3/nvToolsExt.h"],
)
def test_headers_that_are_not_emulated_are_left_out_with_their_lines(header):
    source = f"int a;\n #include <{header}> // why\n#include <cuda_fp16.h>\n"
    assert leave_out_foreign_headers(source, ()) == (
        "int a;\n  // why\n#include <cuda_fp16.h>\n",
        (f"header {header} (line 2)",),
    )
    assert leave_out_foreign_headers(source, {header}) == (source, ())


@pytest.mark.parametrize(
    ("source", "spelled"),
    [
        ("p = (void*)k<T, 1>;", 'p = emulator::Hidden{"k"}->*k<T, 1>;'),
        ("p = {(const void *) &ns::k, 1};", 'p = {emulator::Hidden{"k"}->* &ns::k, 1};'),
        ("go(reinterpret_cast<void*>(k));", 'go(emulator::Hidden{"k"}->*(k));'),
        ("cudaFuncSetAttribute((void*)k, a, 1);", "cudaFuncSetAttribute((void*)k, a, 1);"),
        ("p = (void*)other;", "p = (void*)other;"),
    ],
)
def test_a_cast_that_hides_a_kernel_notes_which_it_is(source, spelled):
    kernel = "__global__ void k(int); "
    assert rewrite(kernel + source) == kernel + spelled


@pytest.mark.parametrize(
    ("callee", "name"),
    [
        ("relu_##type##_kernel", "EMULATOR_NAME(relu_##type##_kernel)"),
        ("scan_##type##2d_kernel", "EMULATOR_NAME(scan_##type##2d_kernel)"),
        ("KERNEL", "EMULATOR_NAME(KERNEL)"),
        ("KERNEL<T, 4>", "EMULATOR_NAME(KERNEL<T, 4>)"),
        ("known", '"known"'),
    ],
)
@pytest.mark.parametrize("space", ["", " ", " \\\n  "])
def test_launches_in_macros_name_the_kernel_that_the_preprocessor_makes(callee, name, space):
    source = (
        f"__global__ void known(int);\n#define GO(KERNEL, type) {callee}{space}<<<1, \\\n 2>>>{space}(3);\nint x;\n"
    )
    text = rewrite(source)
    assert f"emulator::launch({name}, emulator::LaunchConfig(1, \\\n 2)" in text
    assert text.endswith("3);\nint x;\n")


@pytest.mark.parametrize("space", ["\n", "\n    ", " // why\n  "])
def test_launches_over_several_lines_are_launches(space):
    source = f"__global__ void known(int);\nvoid f() {{ known{space}<<<1,{space}2>>>{space}(3); }}\n"
    assert 'emulator::launch("known"' in rewrite(source)


@pytest.mark.parametrize(
    "include", ['"/etc/passwd"', "</dev/zero>", '"../../secret.h"', "MACRO", '"/dev/stdin"', "<a/../../../etc/passwd>"]
)
def test_sources_may_not_include_files_of_the_machine(include):
    with pytest.raises(CompileError, match="cannot include"):
        assemble(CandidateSources("x", cuda=(f"#include {include}\n",)))


def test_assembler_may_not_read_files_either():
    for sources in (CandidateSources("x", cpp=('asm(".incbin \\"/etc/passwd\\"");',)),
                    CandidateSources("x", cuda=('asm(".incbin \\"/etc/passwd\\"");',))):  # fmt: skip
        with pytest.raises(Unsupported):
            assemble(sources)


def test_functions_may_be_a_name_a_list_or_a_dict():
    assert from_load_inline("x", functions="f").functions == (("f", "f"),)
    assert from_load_inline("x", functions=["f", "g"]).functions == (("f", "f"), ("g", "g"))
    assert from_load_inline("x", functions={"f": "doc"}).functions == (("f", "doc"),)
    assert from_load_inline("x").functions is None
    with pytest.raises(ValueError, match="list or dict"):
        from_load_inline("x", functions=3)


def test_sources_survive_the_trip_between_processes():
    undefined = ["-U__CUDA_NO_HALF_OPERATORS__"]
    sources = from_load_inline("x", ["a", "b"], "c", None, {"f": "doc"}, ["-O3", "-DA=1"], undefined)
    assert decode(encode(CompileRequest(sources)), CompileRequest) == CompileRequest(sources)
    assert sources.defines == ("-DA=1", "-U__CUDA_NO_HALF_OPERATORS__")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("__device__ float staged[4 * 4];", ["staged"]),
        ("static __device__ int a = 3, b[2][2] = {{1, 2}, {3, 4}};", ["a", "b"]),
        ("namespace n { namespace { volatile __device__ unsigned ticket{0}; } }", ["ticket"]),
        ("#define N 4\n__constant__ __align__(16) float w[N]; __device__ Pair pair;", ["w", "pair"]),
        ('extern "C" { __device__ float* p = nullptr; }', ["p"]),
        ("__constant__ const float table[2] = {1, 2}; extern __device__ int e;", []),  # the host may know a constant
        ("__device__ __managed__ int m; template <int N> __device__ int t = N;", []),
        ("__device__ float f(int x) { return x; } __device__ bool operator==(P a, P b) { return a.x == b.x; }", []),
        ("struct S { __device__ int member; }; void f() { auto g = [=] __device__(int i) { return i; }; }", []),
        ("#define COUNTER __device__ int counter;\nint x;", []),
        ("__device__ struct Q { int x; } q;", []),
    ],
)
def test_variables_of_the_device_make_themselves_known(source, names):
    text = rewrite(source)
    assert re.findall(r"announce_variable\(\(const void\*\)&(\w+), sizeof\(\1\)\);", text) == names
    assert (text == source) == (not names)
    assert text.count("\n") == source.count("\n")


def test_conversion_that_is_called_by_name_keeps_its_lines() -> None:
    assert rewrite("f(x.operator __half(), 1);").replace(" ", "") == "f(x->*emulator::as_half,1);"
    assert rewrite("f(x.operator\n__half(), 1);").count("\n") == 1
    assert rewrite("void f(const const\nconst int x);").replace("\n", "") == "void f(const int x);"
    plain = "f(x.operator float(), x.operator __half);"
    assert rewrite(plain) == plain


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = (int)x[i] < 1;", "y = (int)R<int>(x[i]) < 1;"),
        ("y = (int)*p;", "y = (int)R<int>(*p);"),
        ("= -(unsigned int)floorf(a.b * 2) * c", "= -(unsigned int)R<unsigned int>(floorf(a.b * 2)) * c"),
        ("= (float)(int)-x", "= (float)(int)R<int>(-x)"),
        ("a > (int)f<float>(y) && b", "a > (int)R<int>(f<float>(y)) && b"),
        ("static_cast<int64_t>(x * (int)y)", "static_cast<int64_t>(R<int64_t>(x * (int)R<int>(y)))"),
        ("return int(x);", "return int(R<int>(x));"),
    ],
)
def test_casts_to_integers_saturate(source, expected):
    assert rewrite(source) == expected.replace("R<", "emulator::in_range<")


@pytest.mark.parametrize(
    "source",
    [
        "void f(int);",
        "std::function<int(int)> g;",
        "sizeof(int) * n",
        "bool operator()(int) const;",
        "(int)3",
        "int (*h)(int) = nullptr;",
        "auto k = [](int) { return 1; };",
        "#define C(x) (int)x\n(y);",
        "template <> void f<float>(int);",
        "operator int() const;",
        "= (int)sizeof x;",
        "= (int)f<std::pair<int, int>>(x);",
    ],
)
def test_what_is_no_cast_of_a_value_stays(source):
    assert rewrite(source) == source
