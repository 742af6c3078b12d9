"""The ways in which a repository shows what a kernel computes, and both sides of the pair that is cut from them."""

import ast

import pytest
import torch

from musadata.mining.kernels.equivalents import find_equivalents
from musadata.mining.kernels.extension_candidates import cut_candidate, cut_reference
from musadata.mining.kernels.pairs import Linker
from musadata.mining.kernels.repository import Repository
from musadata.mining.kernels.usage import straight_lines
from musadata.mining.slicing.class_slicing import Unsliceable
from musadata.mining.slicing.evidence import call_examples
from musadata.sources.trees import MemoryTree

NATIVE = """#include <torch/extension.h>
__global__ void add_kernel(float* x) {}
torch::Tensor add(torch::Tensor x) { add_kernel<<<1, 1>>>(nullptr); return x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }
"""
SETUP = 'from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension("pkg._C", ["a.cu"])])\n'
HEAD = "import torch\nfrom torch import nn\nfrom pkg import _C\n\n"
WRAPPER = HEAD + "def add(x):\n    return _C.add(x)\n"
CASE = "import unittest\nimport torch\nfrom pkg.op import add\n\nclass TestAdd(unittest.TestCase):\n"


def opened(files):
    """The tree of some files, and its linker."""
    tree = MemoryTree({path: text.encode() for path, text in {"a.cu": NATIVE, "setup.py": SETUP, **files}.items()})
    return tree, Linker(Repository(tree))


def pairs(files):
    """Reference and candidate of each wrapper for which both can be cut."""
    tree, linker = opened(files)
    found = {}
    for equivalent in find_equivalents(linker.repository):
        try:
            candidate, reference = cut_candidate(tree, linker, equivalent), cut_reference(tree, equivalent)
        except Unsliceable:
            continue
        if candidate is not None:
            found.setdefault(equivalent.wrapper.name, (reference, candidate.source))
    return found


def check(reference, candidate):
    scope = {}
    exec(reference, scope)
    assert torch.equal(scope["Model"]()(torch.ones(4)), torch.full((4,), 2.0))
    assert "add_kernel<<<" in candidate
    assert "x + 1" not in candidate


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pkg/op2.py", "def add_ref(x):\n    return x + 1\n"),
        ("pkg/op2.py", "def add_ref(value, scale=1):\n    return value + scale\n"),
        ("pkg/op2.py", "def _add_torch(x):\n    return x + 1\n"),
        ("pkg/_torch_impl.py", "def _add(x):\n    return x + 1\n"),
        ("tests/test_add.py", CASE + "    @staticmethod\n    def add_naive(x):\n        return x + 1\n"),
        ("tests/test_add.py", CASE + "    def _add_naive(self, value):\n        return value + 1\n"),
    ],
)
def test_what_a_wrapper_computes_is_found_however_it_is_written(path, text):
    check(*pairs({"pkg/op.py": WRAPPER, path: text})["add"])


def test_a_candidate_keeps_no_guard_against_its_own_device():
    guarded = HEAD + "def add(x):\n    if x.device.type != 'cuda':\n        raise ValueError\n    return _C.add(x)\n"
    _, candidate = pairs({"pkg/op.py": guarded, "pkg/op2.py": "def add_ref(x):\n    return x + 1\n"})["add"]
    assert "raise" not in candidate


def test_an_extension_that_a_module_loads_on_first_use_is_built():
    lazy = '_get, __getattr__ = make_lazy(module_name=__name__, public_name="_C", prebuilt_module="pkg_cuda")\n'
    files = {
        "setup.py": SETUP.replace("pkg._C", "pkg_cuda"),
        "pkg/_backend.py": lazy,
        "pkg/op.py": "from . import _backend\n\ndef add(x):\n    return _backend._C.add(x)\n",
        "pkg/op2.py": "def add_ref(x):\n    return x + 1\n",
    }
    check(*pairs(files)["add"])


def test_an_extension_that_a_function_imports_into_a_global_name_is_built():
    wrapper = (
        "import importlib\n_C = None\n\ndef add(x):\n    global _C\n    if _C is None:\n"
        '        _C = importlib.import_module("pkg._C")\n    return _C.add(x)\n'
    )
    check(*pairs({"pkg/op.py": wrapper, "pkg/op2.py": "def add_ref(x):\n    return x + 1\n"})["add"])


def test_an_extension_that_is_loaded_where_its_import_fails_or_inside_a_function_is_built():
    load = '_C = load(name="pkg_C", sources=["a.cu"])\n'
    head = "from torch.utils.cpp_extension import load\n"
    for text in (
        f"{head}try:\n    import pkg_C as _C\nexcept ImportError:\n    {load}\ndef add(x):\n    return _C.add(x)\n",
        f"{head}def add(x):\n    {load}    return _C.add(x)\n",
    ):
        files = {"setup.py": "", "op.py": text, "op2.py": "def add_ref(x):\n    return x + 1\n"}
        check(*pairs(files)["add"])


def test_versions_of_one_name_are_told_apart_by_what_they_need():
    text = HEAD + "class AddV1(nn.Module):\n    def forward(self, x):\n        return x + 1\n\n\n"
    text += "class AddV2(nn.Module):\n    def forward(self, x):\n        return _C.add(x)\n"
    found = pairs({"pkg/op.py": text})
    assert list(found) == ["AddV2"]
    check(*found["AddV2"])


@pytest.mark.parametrize(
    "test",
    [
        "def test(n=3):\n    x = torch.ones(n)\n    add(x)",
        "@pytest.mark.parametrize('n', [3, 4])\ndef test(n):\n    x = torch.ones(n)\n    add(x)",
        "@pytest.mark.parametrize('n', [3])\nclass Test:\n    def test(self, n):\n        add(torch.ones(n))",
        "@pytest.fixture\ndef n():\n    return 3\n\ndef test(n):\n    add(torch.ones(n))",
        "@pytest.fixture(params=[3, 4])\ndef n(request):\n    return request.param\n\n"
        "def test(n):\n    add(torch.ones(n))",
        "@pytest.fixture\ndef n():\n    yield 3\n\n@pytest.fixture\ndef x(n):\n    return torch.ones(n)\n\n"
        "def test(x):\n    add(x)",
        "def test():\n    for n, _ in product(*[[3, 4], [1]]):\n        add(torch.ones(n))",
        "def test():\n    for k, n in enumerate([3, 4]):\n        add(torch.ones(n))",
        "def test(flag=False):\n    if not flag:\n        x = torch.ones(3)\n    else:\n        x = None\n    add(x)",
        "def test(kind='a'):\n    x = torch.ones(3)\n    if kind == 'b':\n        x = None\n    add(x)",
    ],
)
def test_the_arguments_of_a_call_are_read_from_parameters_fixtures_loops_and_branches(test):
    (statements,) = [body for place, body in straight_lines(ast.parse(test)) if place.name == "test"]
    assert [ast.unparse(call) for call in call_examples(statements, frozenset({"add"}))] == ["add(torch.ones(3))"]


def test_parameters_that_a_file_states_for_several_tests_are_read():
    text = "sizes = [2 + 1] * 2\n\n@pytest.mark.parametrize('n', sizes)\ndef test(n):\n    add(torch.ones(n))"
    ((_, statements),) = [item for item in straight_lines(ast.parse(text)) if item[0].name == "test"]
    (call,) = call_examples(statements, frozenset({"add"}))
    assert eval(ast.unparse(call.args[0]), {"torch": torch}).shape == (3,)


def test_a_variable_that_doubles_in_every_line_is_not_written_out():
    lines = "".join(f"    x{number + 1} = x{number} + x{number}\n" for number in range(200))
    (_, body), *_ = reversed(list(straight_lines(ast.parse(f"def test(x0):\n{lines}    add(x200)"))))
    (call,) = call_examples(body, frozenset({"add"}))
    assert len(ast.unparse(call)) < 10_000


def test_functions_that_a_macro_defines_are_bound_and_linked():
    generated = NATIVE.replace(
        "torch::Tensor add(torch::Tensor x) { add_kernel<<<1, 1>>>(nullptr); return x; }",
        "__global__ void other_kernel(float* x) {}\n"
        "#define host(name, size)           \\\n    torch::Tensor name(torch::Tensor x) { \\\n"
        "        name##_kernel<<<1, size>>>(nullptr); \\\n        return x; \\\n    }\n"
        "host(add, 32);\nhost(other, 64);",
    )
    found = pairs({"a.cu": generated, "pkg/op.py": WRAPPER + "\n\ndef add_ref(x):\n    return x + 1\n"})["add"]
    assert "host(add, 32)" in found[1]
    assert "other" not in found[1]


def test_a_candidate_is_compiled_as_its_build_script_compiles_it():
    guarded = NATIVE.replace("return x;", "\n#ifdef WITH_CUDA\n    return x;\n#endif\n    AT_ERROR();")
    native = "#include <Python.h>\n#include <THC/THCAtomics.cuh>\n" + guarded.replace("<<<1, 1>>>", "<<<1, 2>>>")
    setup = SETUP.replace('["a.cu"]', '["a.cu"], define_macros=[("WITH_CUDA", None), ("WITH_HIP", None)]')
    files = {"setup.py": setup, "a.cu": native, "pkg/op.py": WRAPPER + "\n\ndef add_ref(x):\n    return x + 1\n"}
    _, candidate = pairs(files)["add"]
    assert "#define WITH_CUDA 1" in candidate
    assert "WITH_HIP" not in candidate
    assert "-U__CUDA" not in candidate
    flag = "-U__CUDA_NO_HALF_CONVERSIONS__"
    half = native.replace("float*", "half*")
    _, candidate = pairs({**files, "a.cu": half, "setup.py": f"{setup}# {flag}"})["add"]
    assert f'extra_cuda_cflags=["{flag}"]' in candidate
    assert "Python.h" not in candidate
    assert "<ATen/cuda/Atomic.cuh>" in candidate


def test_a_function_that_pytorch_had_once_is_kept_where_the_repository_defines_it():
    native = NATIVE.replace("<<<1, 1>>>", "<<<THCCeilDiv(4, 2), 1>>>")
    own = "int THCCeilDiv(int a, int b) { return (a + b - 1) / b; }\n"
    for text, name in ((native, "at::ceil_div(4, 2)"), (own + native, "<THCCeilDiv(4, 2)")):
        files = {"a.cu": text, "pkg/op.py": WRAPPER, "pkg/op2.py": "def add_ref(x):\n    return x + 1\n"}
        assert name in pairs(files)["add"][1]


def test_an_extension_whose_name_the_build_computes_is_known_by_what_is_taken_from_it():
    files = {
        "setup.py": SETUP.replace('"pkg._C"', "name_of(backend)"),
        "op.py": WRAPPER.replace("from pkg import _C", "import torch.version\nimport fast_add as _C"),
        "op2.py": "def add_ref(x):\n    return x + 1\n",
    }
    check(*pairs(files)["add"])


def test_inline_code_that_a_file_holds_is_read_and_followed_through_macros():
    native = NATIVE.partition("PYBIND11")[0].replace("torch::Tensor add(", "torch::Tensor launch(")
    native += "#define DISPATCH(x) launch(x)\ntorch::Tensor add(torch::Tensor x) { return DISPATCH(x); }\n"
    text = (
        "from pathlib import Path\nfrom torch.utils.cpp_extension import load_inline\n"
        'code = (Path(__file__).parent / "fast.cuh").read_text()\n'
        'lib = load_inline(name="fast", cpp_sources=["torch::Tensor add(torch::Tensor x);"], cuda_sources=[code], '
        'functions=["add"])\n\n\ndef add(x):\n    return lib.add(x)\n'
    )
    files = {"a.cu": "", "setup.py": "", "pkg/fast.cuh": native, "pkg/op.py": text}
    check(*pairs({**files, "pkg/ref.py": "def add(x):\n    return x + 1\n"})["add"])
