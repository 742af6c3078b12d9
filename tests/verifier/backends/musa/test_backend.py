"""The musa backend without a device: what it says is missing, and what it asks of torch_musa and mcc."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from musadata.commands import doctor
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.backends.emulated.emulated_toolchain import cuda_headers
from musadata.verifier.backends.musa import mcc as toolchain
from musadata.verifier.backends.torch_abi.bridge import include_folder
from musadata.verifier.compilation.sources import CandidateSources

ALIASES = Path(__file__).with_name("include")
CONFIG = VerifierConfig(backend=BackendType.MUSA)
KERNEL = """#include <cuda_runtime.h>
__global__ void kernel(float* x) { x[threadIdx.x] = 1; }
torch::Tensor run(torch::Tensor x) { kernel<<<1, 4>>>(x.data_ptr<float>()); return x; }
"""
SOURCES = CandidateSources(
    name="test",
    cpp=("torch::Tensor run(torch::Tensor x);",),
    cuda=(KERNEL,),
    functions=(("run", "run"),),
    defines=("-DTILE=16", "-U__CUDA_NO_HALF_OPERATORS__"),
)
# Takes down what it is asked to compile, and makes an object of nothing; complains of sources with #error.
MCC = """#!{python}
import pathlib, subprocess, sys
place = pathlib.Path(__file__).parent
source = pathlib.Path(sys.argv[sys.argv.index("-c") + 1]).read_text()
(place / "arguments").write_text("\\n".join(sys.argv[1:]))
(place / "source").write_text(source)
if "#error" in source:
    sys.exit("cuda_source:2:1: error: as asked")
output = sys.argv[sys.argv.index("-o") + 1]
subprocess.run(["g++", "-x", "c++", "-c", "/dev/null", "-o", output], check=True)
"""
TORCH_MUSA = """
import types, torch
__version__ = "2.1"
torch.version.musa = "4.3"
torch.musa = types.SimpleNamespace(
    device_count=lambda: {count}, get_device_name=lambda i: "MTT S5000", get_device_capability=lambda i: (3, 1))
"""
EXTENSION = """
def include_paths(musa=False): return {include}
def _get_pybind11_abi_build_flags(): return ["-DABI=1"]
def _get_glibcxx_abi_build_flags(): return []
def _prepare_ldflags(extra, with_musa, verbose, standalone): return extra
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Builds a machine with mcc, torch_musa and so many devices, or without them."""
    monkeypatch.delenv("MUSA_PATH", raising=False)
    monkeypatch.setenv("MUSA_HOME", str(tmp_path / "musa"))
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "stub/torch").mkdir(parents=True)
    (tmp_path / "stub/torch/__init__.py").write_text("import types; version = types.SimpleNamespace()")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'stub'}:{tmp_path}")  # for the process that torch_musa is asked in
    monkeypatch.syspath_prepend(str(tmp_path))
    toolchain.find_musa.cache_clear()

    def build(count: int = 1, torch_musa: str = TORCH_MUSA) -> Path:
        mcc = tmp_path / "musa/bin/mcc"
        mcc.parent.mkdir(parents=True)
        mcc.write_text(MCC.format(python=sys.executable))
        mcc.chmod(0o755)
        include = [str(ALIASES), str(include_folder()), str(cuda_headers())]
        utils = tmp_path / "torch_musa/utils"
        utils.mkdir(parents=True)
        (tmp_path / "torch_musa/__init__.py").write_text(torch_musa.replace("{count}", str(count)))
        (utils / "__init__.py").touch()
        (utils / "musa_extension.py").write_text(EXTENSION.replace("{include}", repr(include)))
        return mcc.parent

    yield build
    toolchain.find_musa.cache_clear()


@pytest.mark.skipif(Path("/usr/local/musa").exists(), reason="there is a MUSA toolkit")
def test_without_the_toolkit_one_error_names_all_that_is_missing(machine):
    with pytest.raises(MusadataError, match=r"no MUSA toolkit \(mcc\) and no torch_musa") as caught:
        open_backend(CONFIG)
    assert "install" in caught.value.remedy and "emulated" in caught.value.remedy
    check = doctor.check_musa()
    assert check.health is doctor.Health.MISSING
    assert "mcc" in check.detail and "torch_musa" in check.detail and "install" in check.remedy


def test_without_a_device_the_error_says_so(machine):
    machine(count=0)
    with pytest.raises(MusadataError, match="no MUSA device"):
        open_backend(CONFIG)


def test_torch_musa_that_does_not_load_is_quoted(machine):
    machine(torch_musa="raise ImportError('libmusa.so.4: cannot open shared object file')")
    with pytest.raises(MusadataError, match=r"does not load \(ImportError: libmusa.so.4"):
        open_backend(CONFIG)


def test_ported_sources_reach_mcc_as_torch_musa_would_pass_them(machine):
    place = machine()
    backend = open_backend(CONFIG)
    assert (backend.name, backend.device, backend.times) == ("musa", "MTT S5000", False)
    assert "mp_31" in backend.toolchain and "MUSA 4.3; torch_musa 2.1" in backend.toolchain
    assert doctor.check_musa().health is doctor.Health.GOOD
    assert backend.port("import torch\ntorch.cuda.synchronize()") == "import torch\ntorch.musa.synchronize()"

    built = backend.compile(SOURCES)
    assert not built.error, built.error
    assert Path(built.path).is_file()
    arguments = (place / "arguments").read_text().splitlines()
    assert arguments[:3] == ["-x", "musa", "--offload-arch=mp_31"]
    assert {"-DABI=1", "-DTILE=16", "-U__MUSA_NO_HALF_OPERATORS__", "-DTORCH_EXTENSION_NAME=candidate"} < set(arguments)
    source = (place / "source").read_text()
    assert '#include <musa_runtime.h>\n\n#line 1 "cuda_source"\n#include <musa_runtime.h>\n' in source
    assert "kernel<<<1, 4>>>" in source

    os.truncate(place / "arguments", 0)
    assert backend.compile(replace(SOURCES, name="other")) == built
    assert not (place / "arguments").read_text()


def test_what_mcc_says_is_the_candidates_and_what_cannot_be_ported_is_not(machine):
    machine()
    backend = open_backend(CONFIG)
    wrong = backend.compile(replace(SOURCES, cuda=(KERNEL + "#error\n",)))
    assert (wrong.error, wrong.unsupported) == ("cuda_source:2: error: as asked", False)
    foreign = backend.compile(replace(SOURCES, cuda=('asm("x");',)))
    assert foreign.unsupported and "inline PTX (line 1)" in foreign.error
