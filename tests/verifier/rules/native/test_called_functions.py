"""What is computed with PyTorch counts where the candidate's Python can get to it by name."""

import pytest

from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.rules.native.native_code import check_native_code

KERNEL = "__global__ void kernel(float* y) { y[0] = 1; }\n"
SUMS = "torch::Tensor sums(torch::Tensor x) {\n  return x.cumsum(0);\n}\n"
RUN = "torch::Tensor run(torch::Tensor x) {\n  kernel<<<1, 1>>>(x.data_ptr<float>());\n  return x;\n}\n"
BOTH = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n  m.def("run", &run);\n  m.def("sums", &sums);\n}\n'


def rules_of(code: str, program: str) -> set[str]:
    return {finding.rule for finding in check_native_code([KERNEL + code], named_in(program))}


def test_function_that_is_bound_but_never_called_is_no_finding() -> None:
    assert rules_of(SUMS + RUN + BOTH, "y = ext.run(x)") == set()
    assert rules_of("torch::Tensor sums(torch::Tensor x);\n" + RUN + SUMS, "y = ext.run(x)") == set()


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
        ("template <class T> struct Sums { T run(T x) {\n return x.cumsum(0);\n } };\n" + RUN + BOTH, "ext.run(x)"),
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
