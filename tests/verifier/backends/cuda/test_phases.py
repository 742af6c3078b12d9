"""nvcc's phases with a shared prelude do what nvcc does."""

import subprocess

import pytest

from musadata.verifier.backends.cuda.phases import HEADERS, SOURCE, Prelude, share_phases
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.host_toolchain import find_toolchain

HEADER = """#pragma once
#include <vector>
#define SCALE 3
namespace library { inline int size(const std::vector<int>& x) { return x.size(); } }
"""
PRELUDE = "#include <library.h>\n#include <cuda_fp16.h>\n"
CANDIDATE = """#line 1 "cuda_source"
#include "library.h"
#include <vector>
namespace { template <class T> __global__ void kernel(T* x) { x[threadIdx.x] *= SCALE + __LINE__; } }
__device__ int counter;
void launch(float* x, const std::vector<int>& sizes) {
  kernel<<<1, library::size(sizes)>>>(x);
  kernel<<<1, 32>>>(reinterpret_cast<double*>(x));
}
"""
# For a lambda of the device cudafe++ writes something into the prelude.
LAMBDA = """
template <class F> __global__ void apply(float* x, F f) { x[threadIdx.x] = f(x[threadIdx.x]); }
void launch_with(float* x, float factor) { apply<<<1, 32>>>(x, [=] __device__(float y) { return factor * y; }); }
"""


@pytest.fixture
def headers(tmp_path):
    folder = tmp_path / "headers"
    folder.mkdir()
    (folder / "library.h").write_text(HEADER)
    return folder


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "cache"))


def run(command, folder, text):
    folder.mkdir()
    (folder / SOURCE).write_text(text)
    done = run_contained(command, folder, CompileLimits(memory_mb=16384))
    assert done.code == 0, done.stderr
    return folder


def device_code(folder, module):
    return {
        name: (folder / name).read_bytes().replace(module, b"module") for name in ("candidate.ptx", "candidate.cubin")
    }


@pytest.mark.parametrize(("candidate", "split"), [(CANDIDATE, True), (CANDIDATE + LAMBDA, False)])
def test_shared_phases_make_what_nvcc_makes(nvcc, headers, command_of, tmp_path, empty_cache, candidate, split):
    command = command_of(nvcc.path, "--extended-lambda")
    script = share_phases(find_toolchain(), nvcc.version, command, Prelude(PRELUDE, headers))
    assert script is not None
    shared = run(["/bin/sh", str(script)], tmp_path / "shared", candidate)
    plain_command = [word.replace(HEADERS, str(headers)) for word in command]
    plain = run([*plain_command, "--keep"], tmp_path / "plain", PRELUDE + candidate)
    assert (shared / "own.cpp").exists() == split
    module = (plain / "candidate.module_id").read_bytes()
    assert device_code(shared, (script.parent / "module_id").read_bytes()) == device_code(plain, module)
    assert functions(shared) == functions(plain) != set()


def test_headers_that_a_partial_prelude_lacks_are_included_and_the_others_are_not_again(
    nvcc, headers, command_of, tmp_path, empty_cache
):
    (headers / "more.h").write_text("#pragma once\n#include <library.h>\n#define MORE (SCALE + 1)\n")
    candidate = '#include "more.h"\n' + CANDIDATE.replace("SCALE", "MORE")
    command = (*command_of(nvcc.path, "--extended-lambda"), f"-I{headers}")
    script = share_phases(find_toolchain(), nvcc.version, command, Prelude(PRELUDE, headers, whole=False))
    assert script is not None
    assert [path.name for path in (script.parent / "blank").iterdir() if path.suffix == ".h"] == ["library.h"]
    shared = run(["/bin/sh", str(script)], tmp_path / "shared", candidate)
    plain_command = [word.replace(HEADERS, str(headers)) for word in command]
    plain = run([*plain_command, "--keep"], tmp_path / "plain", PRELUDE + candidate)
    module = (plain / "candidate.module_id").read_bytes()
    assert device_code(shared, (script.parent / "module_id").read_bytes()) == device_code(plain, module)
    assert functions(shared) == functions(plain) != set()


def functions(folder):
    shown = subprocess.run(["nm", "-C", "--defined-only", "candidate.o"], cwd=folder, capture_output=True, text=True)
    names = (line.split(maxsplit=2)[-1] for line in shown.stdout.splitlines())
    return {name for name in names if name.startswith("launch")}


def test_prelude_that_cannot_be_included_twice_is_not_shared(nvcc, headers, command_of, empty_cache):
    (headers / "library.h").write_text("int twice;\n")
    prelude = f'#include "{headers}/library.h"\n'
    assert (
        share_phases(
            find_toolchain(), nvcc.version, command_of(nvcc.path, "--extended-lambda"), Prelude(prelude, headers)
        )
        is None
    )


@pytest.mark.parametrize("line", ["", "nvcc fatal   : don't know", "#$ g++ -E a.cu -o b.ii", "#$ tileiras a -o b"])
def test_unknown_dry_run_is_not_shared(line, headers, command_of, tmp_path, empty_cache):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\ncat >&2 <<'end'\n#$ TOP=/\n{line}\nend\n")
    nvcc.chmod(0o755)
    assert share_phases(find_toolchain(), "13.0", command_of(str(nvcc)), Prelude(PRELUDE, headers)) is None
