"""The ways in which repositories build, bind and name their extensions."""

import pytest

from musadata.mining.kernels.native_bindings import binding_blocks, split_arguments
from musadata.mining.kernels.native_slicing import slice_native
from musadata.mining.kernels.pairs import Linker, find_pairs
from musadata.mining.kernels.repository import Repository
from musadata.sources.trees import MemoryTree

KERNEL = "__global__ void add_kernel(float* x) {}\nvoid add(int x) { add_kernel<<<1, 1>>>(nullptr); }\n"
BIND = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }\n'
SETUP = 'from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension("pkg._C", ["a.cu"])])\n'
USE = "from pkg import _C\n\ndef add(x):\n    return _C.add(x)\n"


def linked_native(native, use=USE, setup=SETUP):
    tree = MemoryTree({"a.cu": native.encode(), "setup.py": setup.encode(), "pkg/op.py": use.encode()})
    return {(pair.wrapper, pair.binding): pair.kernels for pair in find_pairs(tree)}


ADDED = {("add", "add"): ("add_kernel",)}


@pytest.mark.parametrize(
    "setup",
    [
        'extension = CppExtension\nif cuda:\n    extension = CUDAExtension\nextension("pkg._C", ["a.cu"])',
        'from x import CUDAExtension as Builder\nBuilder("pkg._C", ["a.cu"])',
        'kind = CUDAExtension if cuda else CppExtension\next = [kind("pkg._C", sources)]',
        'build = functools.partial(CUDAExtension, extra=1)\nbuild("pkg._C", glob("*.cu"))',
        'name = "pkg"\nCUDAExtension(f"{name}._C", [join(here, item) for item in ("a.cu",)])',
        'files = []\nfor path in glob.glob("*"):\n    files.append(path)\nCUDAExtension("pkg._C", sources=files)',
        'make_extension(name="_C", module="pkg", sources=["a.cu"])',
        'make_extension(name="_C", module="pkg", sources=["a.cpp"], sources_cuda=["a.cu"])',
        'CUDAExtension("pkg._C", find_sources("src"))',
        'CUDAExtension("pkg._C", [main, join("csrc", f"{name}_cuda.cu")])',
    ],
)
def test_an_extension_is_found_however_it_is_built(setup):
    assert linked_native(KERNEL + BIND, setup=setup) == ADDED


@pytest.mark.parametrize(
    "use",
    [
        "import pkg\n\ndef add(x):\n    return pkg._C.add(x)\n",
        'import torch\n_C, _ = optional_import("pkg._C")\n\ndef add(x):\n    return _C.add(x)\n',
        "def load():\n    from pkg import _C\n    return _C\n\ndef add(x):\n    return load().add(x)\n",
        'from pkg import _C\n\ndef add(x):\n    return getattr(_C, "add")(x)\n',
        "from pkg._C import add as fast\n\ndef add(x):\n    return fast(x)\n",
        "from pkg import _C\nif True:\n    def add(x):\n        return _C.add(x)\n",
        "from pkg import _C\nfast = _C.add\n\ndef add(x):\n    return fast(x)\n",
    ],
)
def test_an_extension_is_found_however_it_is_named(use):
    assert linked_native(KERNEL + BIND, use=use) == ADDED


def test_names_are_followed_through_the_files_that_pass_them_on():
    files = {
        "pkg/cuda/a.cu": KERNEL + BIND,
        "pkg/cuda/_backend.py": 'from torch.utils.cpp_extension import load\n_C = load(name="any", sources=["a.cu"])\n',
        "pkg/cuda/__init__.py": (
            "def _lazy(name):\n    def call(*args):\n        from ._backend import _C\n"
            "        return getattr(_C, name)(*args)\n    return call\n\nadd = _lazy('add')\n"
        ),
        "pkg/ops.py": "from . import cuda as _C\n\ndef add(x):\n    return _C.add(x)\n",
    }
    found = find_pairs(MemoryTree({path: text.encode() for path, text in files.items()}))
    assert [(pair.wrapper, pair.binding, pair.kernels) for pair in found] == [("add", "add", ("add_kernel",))]


@pytest.mark.parametrize(
    "binding",
    [
        "#define REG(f) m.def(#f, &f)\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  REG(add);\n}\n",
        "#define TEXT(s) #s\n#define REG(f) m.def(TEXT(f), &f, TEXT(f));\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) "
        "{\n  REG(add)\n}\n",
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  m.def("other", &other).def("add", &add);\n}\n',
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)\n{\n  m.def("add", torch::wrap_pybind_function(add), "(x");\n}\n',
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", py::overload_cast<int, int>(&add)); }\n',
        'void bind(py::module& m) { m.def("add", (void (*)(int)) &add, py::arg("x")); }\n',
    ],
)
def test_a_binding_is_found_however_it_is_written(binding):
    assert linked_native(KERNEL + binding) == ADDED


def test_submodules_are_part_of_a_bindings_name():
    binding = (
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  py::module ops = m.def_submodule("ops");\n'
        '  py::module mesh = ops.def_submodule("mesh");\n  mesh.def("add", &add);\n}\n'
    )
    use = USE.replace("_C.add", "_C.ops.mesh.add")
    assert linked_native(KERNEL + binding, use) == {("add", "ops.mesh.add"): ("add_kernel",)}
    assert linked_native(KERNEL + binding) == {}
    [(block, _)] = binding_blocks("a.cu", binding)
    assert block.statements == (("ops.mesh.add", 'm.def_submodule("ops").def_submodule("mesh").def("add", &add);'),)


@pytest.mark.parametrize(
    ("before", "opened"),
    [
        ("namespace pkg {\nnamespace ops {\n", "namespace pkg {\nnamespace ops {\n"),
        ("namespace pkg::ops {\nnamespace {\n", "namespace pkg::ops {\nnamespace {\n"),
        ("namespace pkg {\nstruct S { int x; };\n}\ninline namespace ops {\n", "inline namespace ops {\n"),
        ('extern "C" {\nvoid f(); }\nconst char* text = "namespace no {";\n', ""),
    ],
)
def test_a_binding_stays_in_its_namespaces(before, opened):
    [(block, _)] = binding_blocks("a.cu", before + 'TORCH_LIBRARY_IMPL(pkg, CUDA, m) { m.impl("add", &add); }\n}}')
    assert block.head == opened + "TORCH_LIBRARY_IMPL(pkg, CUDA, m) {"
    assert block.tail == "}" + "\n}" * opened.count("{")


def test_a_slice_holds_what_other_backends_bind_to_the_name():
    host = (
        "namespace pkg {\nint add_cpu(int x) { return x; }\nint unbound(int x) { return x; }\n"
        'TORCH_LIBRARY_IMPL(pkg, CPU, m) { m.impl("add", TORCH_FN(add_cpu)); }\n}\n'
    )
    device = f'namespace pkg {{\n{KERNEL}TORCH_LIBRARY_IMPL(pkg, CUDA, m) {{ m.impl("add", TORCH_FN(add)); }}\n}}\n'
    files = {"a.cu": device, "a.cpp": host, "setup.py": SETUP.replace('["a.cu"]', '["a.cu", "a.cpp"]')}
    files["pkg/op.py"] = "import torch\n\ndef add(x):\n    return torch.ops.pkg.add(x)\n"
    repository = Repository(MemoryTree({path: text.encode() for path, text in files.items()}))
    native = slice_native(repository, list(Linker(repository).links("pkg/op.py")))
    assert "int add_cpu" in native.files["a.cpp"] and "unbound" not in native.files["a.cpp"]
    assert native.blocks["a.cpp"].startswith("namespace pkg {\nTORCH_LIBRARY_IMPL(pkg, CPU, m)")


@pytest.mark.parametrize(
    "registered",
    [
        'static auto registry =\n    torch::RegisterOperators().op("pkg::add", &add);\n',
        'TORCH_LIBRARY(pkg, m) {\n  m.def("add(Tensor x) -> Tensor");\n  m.impl("add", torch::kCUDA, &add);\n}\n',
        'TORCH_LIBRARY_IMPL(pkg, CUDA, m) { m.impl("pkg::add", TORCH_FN(add)); }\n',
    ],
)
@pytest.mark.parametrize("use", ["torch.ops.pkg.add(x)", "torch.ops.pkg.add.default(x)", "ops.add(x)"])
def test_registered_operators_are_found(registered, use):
    text = f"import torch\nops = torch.ops.pkg\n\ndef add(x):\n    return {use}\n"
    assert linked_native(KERNEL + registered, text) == ADDED


def test_a_library_named_after_its_extension_is_found():
    binding = 'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.impl("add", torch::kCUDA, &add); }\n'
    use = "import torch\n\ndef add(x):\n    return torch.ops._C.add(x)\n"
    assert linked_native(KERNEL + binding, use) == ADDED


def test_kernels_behind_functors_methods_and_pasted_names_are_reached():
    native = (
        "__global__ void ka(float* x) {}\n__global__ void kb(float* x) {}\n__global__ void kc(float* x) {}\n"
        "namespace functor {\ntemplate <typename T> struct Gather;\n"
        "template <> struct Gather<GPU> { void operator()(int x) { ka<<<1, 1>>>(nullptr); } };\n}\n"
        "struct Data { void rebuild() { kb<<<1, 1>>>(nullptr); } };\n"
        "struct Matrix { Data* data; void renew(); };\nvoid Matrix::renew() { data->rebuild(); }\n"
        "struct Other { void rebuild() { kc<<<1, 1>>>(nullptr); } };\n"
        "#define PICK(name, x) name##_cuda(x)\nvoid scan_cuda(int x) { kc<<<1, 1>>>(nullptr); }\n"
        "void gather(int x) { functor::Gather<GPU> f; f(x); }\n"
        "void matrix(long handle) { Matrix* m = (Matrix*)handle; m->renew(); }\n"
        "void scan(int x) { PICK(scan, x); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("a", &gather); m.def("b", &matrix); m.def("c", &scan); }\n'
    )
    use = "from pkg import _C\n\ndef a(x):\n    _C.a(x)\n\ndef b(x):\n    _C.b(x)\n\ndef c(x):\n    _C.c(x)\n"
    assert linked_native(native, use) == {("a", "a"): ("ka",), ("b", "b"): ("kb",), ("c", "c"): ("kc",)}


def test_kernels_in_macros_and_behind_autograd_functions_are_reached():
    native = (
        "__global__ void ka_kernel(float* x) {}\n__global__ void kb_kernel(float* x) {}\n"
        "#define RUN \\\n  auto k = ka_kernel; \\\n  k<<<1, 1>>>(nullptr);\n#define CHECKED(body) body\n"
        "void a(int x) { CHECKED(RUN); }\n"
        "class Scale : public torch::autograd::Function<Scale> {\n public:\n"
        "  static int forward(int x) { kb_kernel<<<1, 1>>>(nullptr); return x; }\n};\n"
        "void b(int x) { Scale::apply(x); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("a", &a); m.def("b", &b); }\n'
    )
    use = "from pkg import _C\n\ndef a(x):\n    _C.a(x)\n\ndef b(x):\n    _C.b(x)\n"
    assert linked_native(native, use) == {("a", "a"): ("ka_kernel",), ("b", "b"): ("kb_kernel",)}


def test_a_string_in_a_dispatch_macro_is_no_kernel():
    native = (
        "template <typename T> __global__ void first_kernel(T* x) {}\n__global__ void second_kernel(float* x) {}\n"
        'void add(at::Tensor x) {\n  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "second_kernel", ([&] {\n'
        "    first_kernel<scalar_t><<<1, 1>>>(x.data_ptr<scalar_t>());\n  }));\n}\n"
    )
    assert linked_native(native + BIND) == {("add", "add"): ("first_kernel",)}


def test_a_parameter_that_shares_the_name_of_a_function_is_no_call():
    native = (
        "__global__ void other_kernel(float* x) {}\nvoid backward() { other_kernel<<<1, 1>>>(nullptr); }\n"
        "__global__ void add_kernel(float* x, bool b) {}\n"
        "void run(bool b) { add_kernel<<<1, 1>>>(nullptr, b); }\nvoid add(int x, bool backward) { run(backward); }\n"
    )
    assert linked_native(native + BIND) == ADDED


def test_a_call_of_another_load_is_no_extension():
    use = 'import numpy\nmodel = numpy.load("add")\n\ndef add(x):\n    return model.add(x)\n'
    assert linked_native(KERNEL + BIND, use, "x = 1") == {}


def test_arguments_are_split_outside_of_brackets_and_strings():
    assert split_arguments('"a, (b", &f<int, 2>, [](int x) -> int { return x < 1, 2; }') == [
        '"a, (b"',
        " &f<int, 2>",
        " [](int x) -> int { return x < 1, 2; }",
    ]
