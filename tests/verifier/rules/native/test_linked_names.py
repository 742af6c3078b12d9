"""Names that pasting tokens together hides from a candidate's text, found in what was compiled of it."""

import subprocess

import pytest

from musadata.verifier.backends.native.watched_calls import COUNTED_CALLS
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.rules.native.linked_names import check_objects, refuse_hidden_calls

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


DRAWS = """
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
struct Init { Init(int (*)(int)); };
int draw(int n) { std::random_device device; return device() + n; }
void wait() { std::thread([] {}).join(); }
void save() { std::ofstream("x") << 1; }
bool is_there() { return std::filesystem::exists("x"); }
int used(int);
static Init init(&used);
"""


def check(folder, *texts):
    """What may be linked of these units, as the names of functions that it defines."""
    compiler, objects = find_toolchain().compiler, []
    for at, text in enumerate(texts):
        (folder / f"unit{at}.cpp").write_text(text)
        objects.append(folder / f"unit{at}.o")
        flags = ["-std=c++20", "-O1", "-fPIC", "-ffunction-sections"]
        subprocess.run([compiler, *flags, "-c", folder / f"unit{at}.cpp", "-o", objects[-1]], check=True)
    linked = check_objects(objects, compiler, COUNTED_CALLS)
    listed = subprocess.run(["nm", "-C", *linked], capture_output=True, text=True, check=True).stdout
    return {line.split(" T ")[1].partition("(")[0] for line in listed.splitlines() if " T " in line}


def test_functions_that_nothing_reaches_are_neither_linked_nor_held_against_a_candidate(tmp_path):
    assert check(tmp_path, DRAWS, "int draw(int); int used(int n) { return n; } int other() { return draw(1); }") == {
        "musadata_root",
        "used",
    }


@pytest.mark.parametrize(
    "more",
    [
        "int draw(int); int used(int n) { return draw(n); }",
        "int draw(int); int used(int n) { return n; } int drawn = draw(1);",
        "int draw(int); int used(int n) { return n; } struct S { S() { draw(1); } }; static S s;",
        "void wait(); int used(int n) { wait(); return n; }",
        "void wait(); int used(int n) { return n; } __attribute__((constructor)) void begin() { wait(); }",
        "void save(); int used(int n) { save(); return n; }",
        "bool is_there(); int used(int n) { return is_there(); }",
        'int draw(int); int used(int n) { return n; } extern "C" int PyInit_candidate() { return draw(1); }',
        "int draw(int); int used(int n) { static int (*const f)(int) = &draw; return f(n); }",
        "int draw(int); struct B { virtual int f() { return 0; } virtual ~B() {} };"
        "struct D : B { int f() override { return draw(1); } }; B* b = new D; int used(int n) { return b->f(); }",
    ],
)
def test_functions_that_initialisers_or_the_module_reach_are_held_against_it(tmp_path, more):
    with pytest.raises(CompileError, match=r"random_device|thread|__basic_file|filesystem"):
        check(tmp_path, DRAWS, more)


def test_objects_that_call_nothing_forbidden_are_linked_as_they_are(tmp_path):
    assert check(tmp_path, "int used(int n) { return n; }\nint other() { return 1; }") == {"used", "other"}
