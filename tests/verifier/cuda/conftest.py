"""What the tests of the cuda backend share."""

import pytest

from musadata.errors import MusadataError
from musadata.verifier.cuda.nvcc import find_nvcc


@pytest.fixture(scope="session")
def nvcc():
    """CUDA's compiler for compute capability 9.0; it needs no device."""
    try:
        return find_nvcc("90")
    except MusadataError:
        pytest.skip("no nvcc")
