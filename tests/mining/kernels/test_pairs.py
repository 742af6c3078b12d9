"""From Python wrappers to the kernels behind them."""

from musadata.mining.kernels.native_parsing import parse_native
from musadata.mining.kernels.pairs import find_pairs
from musadata.sources.trees import MemoryTree

SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension
setup(ext_modules=[
    CUDAExtension("pkg._C", ["csrc/a/bind.cpp", "csrc/a/scale.cu"]),
    CUDAExtension("pkg._D", sources=["csrc/b/bind.cpp", "csrc/b/shift.cu"]),
])
"""
BIND = 'void forward(int x);\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  m.def("forward", &forward, "doc");\n}\n'


def device(name):
    return (
        "// __global__ void commented_out() {}\ntemplate <typename T>\n__global__ void __launch_bounds__(256, 2)"
        f" {name}(T* __restrict__ x) {{ x[0] = 1; }}\n"
        f"void launch(int x) {{ {name}<float><<<1, 256>>>(nullptr); }}\nvoid forward(int x) {{ launch(x); }}\n"
    )


FILES = {
    "setup.py": SETUP,
    "csrc/a/bind.cpp": BIND,
    "csrc/a/scale.cu": device("scale_kernel"),
    "csrc/b/bind.cpp": BIND,
    "csrc/b/shift.cu": device("shift_kernel"),
    "pkg/ops.py": (
        "import torch\nfrom pkg import _C as scaling\nfrom . import _D\n\n"
        "class Scale(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        return scaling.forward(x)\n\n"
        "def shift(x):\n    return _D.forward(x)\n\ndef other(x):\n    return x.forward(x)\n"
    ),
}


def pairs(files):
    return find_pairs(MemoryTree({path: text.encode() for path, text in files.items()}))


def test_functions_of_one_name_are_told_apart_by_the_extension_that_is_imported():
    first, second = pairs(FILES)
    assert (first.wrapper, first.wrapper_kind, first.kernels) == ("Scale", "autograd", ("scale_kernel",))
    assert (second.wrapper, second.kernels) == ("shift", ("shift_kernel",))
    assert first.kernel_places == ("csrc/a/scale.cu:2-3",)


def test_a_method_that_only_shares_the_name_is_not_linked():
    assert "other" not in {pair.wrapper for pair in pairs(FILES)}


def test_namespaces_tell_functions_of_one_file_apart():
    source = (
        "__global__ void ka(float* x) {}\n__global__ void kb(float* x) {}\n"
        "namespace a { void fwd() { ka<<<1, 1>>>(nullptr); } }\nnamespace b { void fwd() { kb<<<1, 1>>>(nullptr); } }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fa", &a::fwd); m.def("fb", &b::fwd); }\n'
    )
    files = {
        "s.cu": source,
        "op.py": (
            "from torch.utils.cpp_extension import load\next = load(name='two', sources=['s.cu'])\n\n"
            "def use_b(x):\n    return ext.fb(x)\n\ndef use_a(x):\n    return ext.fa(x)\n"
        ),
    }
    assert {pair.wrapper: pair.kernels for pair in pairs(files)} == {"use_a": ("ka",), "use_b": ("kb",)}


def test_registered_operators_are_linked_by_their_namespace():
    files = {
        "ops.cu": (
            "__global__ void gelu_kernel(float* x) {}\nvoid gelu_cuda() { gelu_kernel<<<1, 1>>>(nullptr); }\n"
            'TORCH_LIBRARY(mine, m) { m.def("gelu(Tensor x) -> Tensor"); }\n'
            'TORCH_LIBRARY_IMPL(mine, CUDA, m) { m.impl("gelu", &gelu_cuda); }\n'
        ),
        "op.py": (
            "import torch\n\ndef gelu(x):\n    return torch.ops.mine.gelu(x)\n\n"
            "def no(x):\n    return torch.ops.other.gelu(x)\n"
        ),
    }
    [pair] = pairs(files)
    assert (pair.wrapper, pair.host, pair.kernels) == ("gelu", "gelu_cuda", ("gelu_kernel",))


def test_code_in_python_strings_is_linked():
    files = {
        "op.py": (
            "from torch.utils.cpp_extension import load_inline\n"
            'source = """\n__global__ void add_kernel(float* x) { x[0] += 1; }\n'
            'torch::Tensor add_cuda(torch::Tensor x) { add_kernel<<<1, 1>>>(x.data_ptr<float>()); return x; }\n"""\n'
            "fused = load_inline(name='add', cpp_sources='', cuda_sources=source, functions=['add_cuda'])\n\n"
            "class Add:\n    def forward(self, x):\n        return fused.add_cuda(x)\n"
        )
    }
    [pair] = pairs(files)
    assert (pair.wrapper, pair.binding, pair.kernels) == ("Add", "add_cuda", ("add_kernel",))


def test_dispatch_macros_and_lambdas_are_seen_through():
    files = {
        "s.cu": (
            "template <typename T> __global__ void k(T* x) {}\n"
            'void host(at::Tensor x) {\n  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "k", ([&] {\n'
            "    k<scalar_t><<<1, 1>>>(x.data_ptr<scalar_t>());\n  }));\n}\n"
            'PYBIND11_MODULE(fastops, m) { m.def("run", [](at::Tensor x) { host(x); return x; }); }\n'
        ),
        "op.py": "import fastops\n\ndef run(x):\n    return fastops.run(x)\n",
    }
    [pair] = pairs(files)
    assert pair.kernels == ("k",)


def test_a_broken_file_does_not_hide_the_functions_around_the_break():
    text = "void a() { b(); }\n#define WEIRD(x) x {{{\nstruct ??? ;\nvoid c() { d(); }\n"
    assert {"a", "c"} <= {function.name for function in parse_native("x.cu", text.encode()).functions}


def test_bytes_that_are_no_text_do_no_harm():
    assert parse_native("x.cu", bytes(range(256)) * 20).bindings == ()
