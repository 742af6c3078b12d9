"""What the tests of the cuda backend share."""

import pytest

from musadata.errors import MusadataError
from musadata.verifier.backends.cuda.nvcc import find_nvcc
from musadata.verifier.backends.cuda.phases import HEADERS, SOURCE
from musadata.verifier.compilation.host_toolchain import find_toolchain


@pytest.fixture(scope="session")
def nvcc():
    """CUDA's compiler for compute capability 9.0; it needs no device."""
    try:
        return find_nvcc("90")
    except MusadataError:
        pytest.skip("no nvcc")


@pytest.fixture(scope="session")
def command_of():
    """nvcc's command for the file SOURCE by nvcc's path and further flags."""

    def command(nvcc, *flags):
        first = [nvcc, "-gencode=arch=compute_90,code=sm_90", "-std=c++20", "--expt-relaxed-constexpr", "-w", *flags]
        then = ["-Xcompiler", "-fPIC", "-ccbin", find_toolchain().compiler, "-I.", f"-I{HEADERS}"]
        return (*first, *then, "-c", SOURCE, "-o", "candidate.o")

    return command
