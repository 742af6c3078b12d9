"""What candidates use of PyTorch's C++ API behaves as PyTorch's own, through the small headers."""

import pytest

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/core/TensorAccessor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/serialize/tensor.h>

__global__ void fill(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> out, float value) {
  int row = blockIdx.x, column = threadIdx.x;
  if (row < out.size(0) && column < out.size(1)) out[row][column] = value + row * 10 + column +
      __funnelshift_rc(0x100, 0, 40) + __funnelshift_lc(0, 1, 40);  // both shift by 32, which leaves 0
}

torch::Tensor accessor(torch::Tensor like, float value) {
  auto out = torch::empty_like(like);
  fill<<<out.size(0), 32>>>(out.packed_accessor32<float, 2, torch::RestrictPtrTraits>(), value);
  return out;
}
std::tuple<torch::Tensor, int64_t, double> tuple_of(const torch::Tensor& x) {
  return std::make_tuple(x.sum({0}), x.numel(), 2.5);
}
std::string describe(c10::optional<torch::Tensor> x, std::vector<int64_t> sizes, bool flag, at::ScalarType dtype) {
  std::ostringstream text;
  text << (x.has_value() ? "tensor" : "none") << " " << at::IntArrayRef(sizes) << " " << flag << " " << dtype;
  return text.str();
}
torch::Tensor checks(torch::Tensor x, int what) {
  TORCH_CHECK(what != 1, "what must not be ", what, " for sizes ", x.sizes());
  TORCH_CHECK(what != 2);
  const auto flag = at::ScalarType::Bool, dtype = x.scalar_type();
  TORCH_CHECK(!isIntegralType(dtype, true) && isIntegralType(flag, true) && !isIntegralType(flag, false));
  TORCH_CHECK(isIntegralType(at::kLong, false) && !isComplexType(dtype));
  TORCH_CHECK(isComplexType(at::ScalarType::ComplexFloat));
  if (what == 3) throw std::invalid_argument("a bad value");
  if (what == 4) throw py::index_error("a bad index");
  if (what == 5) x.data_ptr<double>();
  if (what == 6) x.view({7, 7});
  if (what == 7) AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "checks", [&] {});
  if (what == 8) x.size(5);
  return x;
}
torch::Tensor make(int64_t n, torch::Device device) {
  auto options = torch::TensorOptions().dtype(torch::kFloat64).device(device).requires_grad(false);
  auto a = torch::zeros({n, 2}, options), b = torch::full({n, 2}, 3, options), c = torch::arange(n, options);
  return torch::cat({a, b, c.unsqueeze(1)}, 1).to(torch::kFloat32);
}
torch::Tensor through_scratch(torch::Tensor x) {
  auto y = torch::empty_like(x);
  void* scratch = c10::cuda::CUDACachingAllocator::raw_alloc(x.nbytes());
  cudaMemcpy(scratch, x.data_ptr(), x.nbytes(), cudaMemcpyDeviceToDevice);
  cudaMemcpy(y.data_ptr(), scratch, x.nbytes(), cudaMemcpyDeviceToDevice);
  c10::cuda::CUDACachingAllocator::raw_delete(scratch);
  return y;
}
struct Named {
  const char* name;
};
std::ostream& operator<<(std::ostream& stream, const Named& named) { return stream << "<" << named.name << ">"; }
void say(torch::Tensor x, bool warn) {
  const std::string text = "text";
  char array[] = "array";
  enum { kPlain = 3 };
  TORCH_CHECK_VALUE(!x.defined() || warn, "literal ", text, ' ', array, ' ', x.numel(), ' ', sizeof(int), ' ', 1u, ' ',
                    -1ll, ' ', 0.25, ' ', 1.5f, ' ', true, ' ', kPlain, ' ', x.scalar_type(), ' ', x.device(), ' ',
                    x.strides(), ' ', Named{"own"}, ' ', std::string("temporary") + "!");
  TORCH_WARN("warned of ", Named{"own"});
}
double by_reference(const torch::Tensor& a, torch::Tensor& b, torch::Tensor&& c, const std::string& text, int64_t n) {
  b = b + c;
  return (a + b).sum().item<double>() + b.sum().item().toInt() + text.size() + n;
}
torch::Tensor assigned(torch::Tensor x) {
  auto y = torch::zeros({3, x.size(0), x.size(1)}, x.options()), row = y[2];
  y[0] = x;
  y[1] = torch::ones_like(x);
  row[1] = 5;
  row = x;
  return y;
}
using namespace torch::indexing;
std::vector<torch::Tensor> indexed(torch::Tensor x) {
  auto y = x.clone(), z = torch::zeros_like(x);
  y.index_put_({1, Slice(None, -1)}, 7);
  z.index_put_({Slice(), 0}, x.index({"...", 2}));
  auto rows = torch::arange(2, x.options().dtype(torch::kLong)), ones = z.index({x > 2});
  z.index_put_({Slice(), rows}, 9);
  auto views = std::vector<torch::Tensor>{x.index({None, -1}), x.index({Ellipsis, Slice(None, None, 2)})};
  return {x.index({"...", rows}), ones, x.index({"...", Slice(1, None)}), views[0], views[1], y, z};
}
torch::Tensor in_place(torch::Tensor x) {
  auto y = -x;
  y += x * 2;
  y.mul_(y).sub_(torch::where(x > 3, x, y)).masked_fill_(x == 1, -1);
  return y / (torch::numel(x) - 2);
}
std::vector<torch::Tensor> sorted(torch::Tensor x) {
  at::TensorArg argument{x, "x", 1};
  at::checkDim("sorted", argument, 2);
  at::checkScalarType("sorted", argument, torch::kF32);
  return {std::get<1>(x.sort(1, true)), std::get<0>(torch::max(x, 0)), std::get<1>(x.topk(2, 1, false))};
}
int64_t plus(int64_t a, int64_t b) { return a + b; }
torch::Tensor plus(torch::Tensor a, torch::Tensor b) { return a + b; }
std::vector<at::Tensor> same(std::vector<at::Tensor> list) { return list; }
torch::Tensor identity(torch::Tensor x) { return x; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "a module";
  m.attr("version") = 3;
  m.attr("scale") = 0.5;
  m.attr("author") = "somebody";
  m.def("accessor", &accessor, "fills", py::arg("like"), py::arg("value") = 1);
  m.def("tuple_of", &tuple_of);
  m.def("describe", &describe, py::arg("x") = py::none(), py::arg("sizes") = std::vector<int64_t>{1, 2},
        py::arg("flag") = true, py::arg("dtype") = torch::kHalf);
  m.def("checks", &checks);
  m.def("make", &make);
  m.def("say", &say);
  m.def("by_reference", &by_reference);
  m.def("assigned", &assigned);
  m.def("indexed", &indexed);
  m.def("in_place", &in_place);
  m.def("sorted", &sorted);
  m.def("plus", py::overload_cast<int64_t, int64_t>(&plus));
  m.def("plus", py::overload_cast<torch::Tensor, torch::Tensor>(&plus));
  m.def("same", &same);
  m.def("identity", &identity);
  m.def("twice", [](torch::Tensor x) { return x * 2; });
  m.def("twice", [](int64_t x) { return x * 2; });
  m.def("nothing", [] {});
  m.def("through_scratch", &through_scratch);
}

torch::Tensor scaled(torch::Tensor x, double factor) { return x * factor; }
TORCH_LIBRARY(musadata_test, m) {
  m.def("scaled(Tensor x, float factor=2.0) -> Tensor");
  m.def("inferred", [](torch::Tensor x, int64_t n) { return x + n; });
}
TORCH_LIBRARY_IMPL(musadata_test, CUDA, m) { m.impl("scaled", &scaled); }
"""

PROGRAM = f"""
import torch
from torch.utils.cpp_extension import load_inline

m = load_inline("small_headers", "", {SOURCE!r})
x = torch.arange(6, dtype=torch.float32, device="cuda").view(2, 3)


def caught(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__ + ": " + str(error)


def answer():
    return {{body}}
"""


def evaluate(run, expression: str):
    answer = run(PROGRAM.replace("{body}", expression))
    assert answer["error"] == "", answer["error"]
    return answer["value"]


def test_packed_accessors_and_default_arguments(run):
    assert evaluate(run, "m.accessor(x).tolist()") == [[1, 2, 3], [11, 12, 13]]
    assert evaluate(run, "m.accessor(value=2, like=x)[1].tolist()") == [12, 13, 14]


def test_scratch_memory_comes_from_pytorchs_allocator(run):
    assert evaluate(run, "m.through_scratch(x).tolist()") == [[0, 1, 2], [3, 4, 5]]


def test_results_of_every_kind_come_back_as_python_has_them(run):
    assert evaluate(run, "[type(m.tuple_of(x)).__name__, *m.tuple_of(x)[1:]]") == ["tuple", 6, 2.5]
    assert evaluate(run, "[m.twice(21), m.twice(x).sum().item(), m.nothing()]") == [42, 30, None]
    assert evaluate(run, "[m.identity(x) is x, m.same([x, x])[1] is x, len(m.same(()))]") == [True, True, 0]


def test_attributes_of_the_module_are_values(run):
    assert evaluate(run, "[m.version, m.scale, m.author, m.__doc__]") == [3, 0.5, "somebody", "a module"]


def test_arguments_of_every_kind_are_understood(run):
    assert evaluate(run, "m.describe()") == "none [1, 2] 1 Half"
    assert evaluate(run, "m.describe(x, (3, 4), False, torch.float32)") == "tensor [3, 4] 0 Float"
    assert evaluate(run, "m.make(2, torch.device('cuda')).tolist()") == [[0, 0, 3, 3, 0], [0, 0, 3, 3, 1]]


def test_wrong_arguments_are_type_errors_that_show_the_signature(run):
    text = evaluate(run, "caught(m.checks, x, 1.5)")
    assert text.startswith("TypeError: checks(): incompatible function arguments.")
    assert "checks(arg0: torch.Tensor, arg1: int) -> torch.Tensor" in text
    for call in (
        "m.checks, x",
        "m.checks, None, 1",
        "m.checks, x, 1 << 40",
        "m.accessor, x, bad=1",
        "m.describe, flag=1",
    ):
        assert evaluate(run, f"caught({call})").startswith("TypeError")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (1, "RuntimeError: what must not be 1 for sizes [2, 3]"),
        (2, "RuntimeError: Expected what != 2 to be true, but got false."),
        (3, "ValueError: a bad value"),
        (4, "IndexError: a bad index"),
        (5, "RuntimeError: expected scalar type Double but found Float"),
        (6, "RuntimeError: shape '[7, 7]' is invalid for input of size 6"),
        (7, "NotImplementedError: \"checks\" not implemented for 'Float'"),
        (8, "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    ],
)
def test_errors_have_pytorchs_classes_and_words(run, what, expected):
    assert evaluate(run, f"caught(m.checks, x, {what})").startswith(expected)


def test_messages_hold_pieces_of_every_kind(run):
    expected = "literal text array 6 4 1 -1 0.25 1.5 1 3 Float cuda:0 [3, 1] <own> temporary!"
    assert evaluate(run, "caught(m.say, x, False)") == f"ValueError: {expected}"
    assert evaluate(run, "caught(m.say, x, True)") is None


def test_parameters_may_be_references(run):
    assert evaluate(run, "m.by_reference(x, x, x, 'four', 100)") == 3 * 15 + 2 * 15 + 4 + 100


def test_an_assignment_to_an_element_writes_its_values(run):
    first, second, third = evaluate(run, "m.assigned(x).tolist()")
    assert (first, second) == ([[0, 1, 2], [3, 4, 5]], [[1, 1, 1], [1, 1, 1]])
    assert third == [[0, 0, 0], [5, 5, 5]]


def test_indices_are_as_in_python(run):
    mine = evaluate(run, "[part.tolist() for part in m.indexed(x)]")
    views = "x[:, :2], torch.tensor([5.0, 0, 0]), x[..., 1:], x[None, -1], x[..., ::2]"
    theirs = f"[{views}, torch.tensor([[0.0, 1, 2], [7, 7, 5]]), torch.tensor([[9.0, 9, 0]] * 2)]"
    assert mine == evaluate(run, f"[part.tolist() for part in {theirs}]")
    assert evaluate(run, "m.in_place(x).tolist()") == [[0, -0.25, 0], [0, 3, 5]]


def test_operators_with_two_results_and_checks_of_arguments(run):
    expected = [[[2, 1, 0], [2, 1, 0]], [3, 4, 5], [[0, 1], [0, 1]]]
    assert evaluate(run, "[part.tolist() for part in m.sorted(x)]") == expected
    said = evaluate(run, "caught(m.sorted, x[0].clone())")
    assert "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1 'x'" in said


def test_one_of_several_functions_of_a_name_is_bound(run):
    assert evaluate(run, "m.plus(2, 3)") == 5
    assert evaluate(run, "m.plus(x, x)[1].tolist()") == [6, 8, 10]


def test_registered_operators_are_reachable_from_torch_ops(run):
    assert evaluate(run, "torch.ops.musadata_test.scaled(x).tolist()[1]") == [6, 8, 10]
    assert evaluate(run, "torch.ops.musadata_test.inferred(x, 5).tolist()[0]") == [5, 6, 7]


def test_docstrings_are_kept(run):
    assert "fills" in evaluate(run, "m.accessor.__doc__")
    assert evaluate(run, "m.__doc__") == "a module"
