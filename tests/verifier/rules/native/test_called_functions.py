"""What is computed with PyTorch counts where the candidate's Python can get to it by name."""

import pytest

from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.rules.native.native_code import check_native_code

KERNEL = "__global__ void kernel(float* y) { y[0] = 1; }\n"
SUMS = "torch::Tensor sums(torch::Tensor x) {\n  return x.cumsum(0);\n}\n"
SUMS_CLASS = "template <class T> struct Sums : Base { T run(T x) {\n return x.cumsum(0);\n } };\n"
POOL = """#include <thread>
#include <future>
class Pool {
  std::vector<std::thread> workers;
  std::future<int> begin() { workers.emplace_back([] {}); return std::async(std::bind(one)); }
};
struct Context {
  Pool* pool;
};
void pooled(Context* context) {
  Context* other = context;
}
"""
RUN = "torch::Tensor run(torch::Tensor x) {\n  kernel<<<1, 1>>>(x.data_ptr<float>());\n  return x;\n}\n"
BOTH = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  m.def("run", &run);\n  m.def("sums", &sums);\n}\n'


def rules_of(code: str, program: str) -> set[str]:
    return {finding.rule for finding in check_native_code([KERNEL + code], named_in(program))}


def test_function_that_is_bound_but_never_called_is_no_finding() -> None:
    assert rules_of(SUMS + RUN + BOTH, "y = ext.run(x)") == set()
    assert rules_of("torch::Tensor sums(torch::Tensor x);\n" + RUN + SUMS, "y = ext.run(x)") == set()


def test_class_that_nothing_names_is_no_finding() -> None:
    assert rules_of(SUMS_CLASS + RUN + BOTH, "y = ext.run(x)") == set()


def test_threads_and_graphs_that_nothing_reaches_are_no_finding() -> None:
    launch = "void launch(cudaGraphExec_t graph) {\n  cudaGraphLaunch(graph, 0);\n}\n"
    assert rules_of(POOL.replace("Context* context", "void* context") + launch + RUN, "y = ext.run(x)") == set()
    assert rules_of(POOL + RUN.replace("return x", "Pool pool; return x"), "ext.run(x)") == {"legality.system"}
    assert rules_of(POOL + "static Pool pool;\n" + RUN, "ext.run(x)") == {"legality.system"}
    assert rules_of(launch + RUN.replace("return x", "launch(g); return x"), "ext.run(x)") == {"legality.graph"}


def test_file_that_nothing_reaches_is_no_finding() -> None:
    save = "#include <fstream>\nstatic void save(const char* name) {\n  std::ofstream file(name);\n}\n"
    assert rules_of(save + RUN, "ext.run(x)") == set()
    for more in (
        RUN.replace("return x", "save(name); return x"),
        RUN.replace("return x", "auto f = [] { save(name); }; f(); return x"),
        "struct Early { Early() { save(name); } };\nstatic Early early;\n" + RUN,
        "template <class T> void then(T x) {\n  save(x);\n}\n" + RUN.replace("return x", "then(x); return x"),
        "#define THEN save(name)\n" + RUN.replace("return x", "THEN; return x"),
        "static auto kept = &save;\n" + RUN,
    ):
        assert rules_of(save + more, "ext.run(x)") == {"legality.system"}


@pytest.mark.parametrize(
    ("code", "program"),
    [
        (SUMS + RUN + BOTH, "y = ext.sums(x)"),
        (SUMS + RUN + BOTH, "y = getattr(ext, 'su' + 'ms')(x)"),
        (SUMS, 'ext = load_inline(functions=["sums"])'),
        (SUMS + RUN.replace("return x", "return sums(x)") + BOTH, "ext.run(x)"),
        (SUMS + RUN.replace("return x", "auto f = &sums; return f(x)") + BOTH, "ext.run(x)"),
        (SUMS + "#define THEN(x) sums(x)\n" + RUN.replace("return x", "return THEN(x)") + BOTH, "ext.run(x)"),
        (SUMS + "static auto kept = sums(torch::ones({3}));\n" + RUN + BOTH, "ext.run(x)"),
        (SUMS + 'PYBIND11_MODULE(m, m) { m.def("other", &sums); }', "ext.other(x)"),
        (SUMS + 'PYBIND11_MODULE(m, m) { m.def("ot" "her", &sums); }', "ext.other(x)"),
        (SUMS + 'PYBIND11_MODULE(m, m) { m.def(R"(other)", &sums); }', "ext.other(x)"),
        (
            SUMS + 'PYBIND11_MODULE(m, m) { auto define = [&](auto f) { m.def("sums", f); }; define(&sums); }',
            "ext.sums(x)",
        ),
        (SUMS + 'TORCH_LIBRARY(mine, m) { m.def("other", &sums); }', "torch.ops.mine.other(x)"),
        (SUMS_CLASS + RUN.replace("return x", "return Sums<torch::Tensor>().run(x)"), "ext.run(x)"),
        (SUMS_CLASS.replace("};", "} instance;") + RUN, "ext.run(x)"),
        (SUMS_CLASS.replace("};", "inline static T all = run(T());\n};") + RUN, "ext.run(x)"),
        (SUMS_CLASS.replace("T run", "friend T added") + RUN.replace("return x", "return added(x)"), "ext.run(x)"),
        (SUMS_CLASS + "static Sums<torch::Tensor> sums;\n" + RUN, "ext.run(x)"),
        (SUMS_CLASS.replace("Sums", "hash<Sums>") + RUN, "ext.run(x)"),
        ("struct alignas(16) Sums { Sums(torch::Tensor x) {\n x.cumsum(0);\n } };\n" + RUN + BOTH, "ext.run(x)"),
        ("__attribute__((constructor)) void early() {\n torch::ones({3}).cumsum(0);\n}\n" + RUN, "ext.run(x)"),
        ("REGISTERED(early) {\n return x.cumsum(0);\n}\n" + RUN, "ext.run(x)"),
        ("torch::Tensor operator+(torch::Tensor x, Sum y) {\n return x.cumsum(0);\n}\n" + RUN, "ext.run(x)"),
        ("namespace own {\n" + SUMS + "}\n" + RUN.replace("return x", "return own::sums(x)"), "ext.run(x)"),
        ("#ifdef A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\n" + SUMS + RUN, "ext.run(x)"),
    ],
)
def test_what_may_be_called_is_a_finding(code: str, program: str) -> None:
    assert rules_of(code, program) == {"legality.aten"}


def test_access_to_the_system_is_a_finding_wherever_it_is() -> None:
    assert rules_of('void never() {\n  system("ls");\n}\n' + RUN, "ext.run(x)") == {"legality.system"}
