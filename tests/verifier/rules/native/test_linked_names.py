"""Names that pasting tokens together hides from a candidate's text, found in what was compiled of it."""

import subprocess

import pytest

from musadata.verifier.backends.native.watched_calls import COUNTED_CALLS
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.rules.native.linked_names import refuse_hidden_calls

PASTE = "#define JOIN(a, b) a##b\n"


def look_at(folder, source):
    compiler = find_toolchain().compiler
    (folder / "unit.cpp").write_text(PASTE + source)
    subprocess.run([compiler, "-c", folder / "unit.cpp", "-o", folder / "unit.o"], check=True)
    refuse_hidden_calls([folder / "unit.o"], compiler, COUNTED_CALLS)


@pytest.mark.parametrize(
    ("declared", "call", "name"),
    [
        ("void* {}(void*, const char*)", "(nullptr, nullptr)", ("dl", "sym")),
        ("int {}(const char*)", "(nullptr)", ("sys", "tem")),
        ("int {}(const char*, void*)", "(nullptr, nullptr)", ("PyRun_Simple", "StringFlags")),
        ("long {}(int, const void*, unsigned long)", "(3, nullptr, 0)", ("wri", "te")),
        ("void {}()", "()", ("_ZN8emulator12", "cover_memoryEb")),
        ("void {}()", "()", ("sge", "mm_")),
        ("int {}()", "()", ("fo", "rk")),
        ("void {}(int)", "(0)", ("musa", "data_set_null_kernels")),
        ("unsigned long {}()", "()", ("musadata_take", "_host_bytes")),
        ("void {}()", "()", ("musadata_end", "_call")),
        ("int {}(void*, const void*, long, int)", "(nullptr, nullptr, 4, 2)", ("cuda", "Memcpy_ptds")),
        ("int {}(void*, long, unsigned)", "(nullptr, 4, 0)", ("cuda", "HostRegister")),
        ("int {}(void*)", "(nullptr)", ("cuda", "GraphLaunch")),
        ("int {}(void*, const void*, long, int)", "(nullptr, nullptr, 4, 2)", ("__real_", "cudaMemcpy")),
        ("int {}(void*, unsigned long, long)", "(nullptr, 0, 4)", ("cu", "MemcpyDtoH_v2")),
        ("int {}(const char*, void**, int, long)", '("", nullptr, 0, 0)', ("cuGet", "ProcAddress")),
        ("void* {}(const char*, const char*)", '("", "")', ("fopen", "64")),
        ("long {}(long*)", "(nullptr)", ("ti", "me")),
        ("int {}()", "()", ("ra", "nd")),
        ("long {}()", "()", ("_ZNSt6chrono3_V212steady_", "clock3nowEv")),
        ("int {}(const char*, const char*, int)", '("", "", 1)', ("set", "env")),
        ("int {}(int)", "(0)", ("feset", "round")),
        ("void* {}(char**, unsigned long*)", "(nullptr, nullptr)", ("open_mem", "stream")),
    ],
)
def test_pasted_name_is_found(tmp_path, declared, call, name):
    pasted = f"JOIN({name[0]}, {name[1]})"
    source = f'extern "C" {declared.format(pasted)};\nvoid run() {{ {pasted}{call}; }}\n'
    with pytest.raises(CompileError, match=f"error: {''.join(name)} is called: "):
        look_at(tmp_path, source)


def test_what_candidates_and_their_headers_call_is_none_of_it(tmp_path):
    calls = (
        (
            "int cudaMemcpyAsync(void*, const void*, long, int, void*)",
            "cudaMemcpyAsync(nullptr, nullptr, 4, 2, nullptr)",
        ),
        ("int cudaMemcpy2DToArray(void*)", "cudaMemcpy2DToArray(nullptr)"),
        (
            "int cudaGetDriverEntryPoint(const char*, void**, long, void*)",
            'cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", nullptr, 0, nullptr)',
        ),
        ("int cudaMemcpyToSymbol(void*)", "cudaMemcpyToSymbol(nullptr)"),
        ("void musadata_set_error(int)", "musadata_set_error(0)"),
        ("void abort()", "abort()"),
    )
    declared = "".join(f"{declaration};\n" for declaration, _ in calls)
    look_at(tmp_path, f'extern "C" {{\n{declared}}}\nvoid run() {{ {"; ".join(call for _, call in calls)}; }}\n')


def test_function_of_the_candidates_own_may_have_any_name(tmp_path):
    look_at(
        tmp_path, "static int kill(int x) { return x; }\nnamespace mine { int system(int x) { return kill(x); } }\n"
    )
