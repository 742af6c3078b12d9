"""Comparisons whose inputs several statements make: what both sides share, and the inputs that it gives."""

import dataclasses

import pytest

from musadata.mining.kernels.equivalents import defined_names
from musadata.mining.kernels.extension_candidates import cut_candidate, cut_program, cut_reference
from musadata.mining.kernels.shared_inputs import find_shared
from musadata.mining.search import search_pair
from musadata.mining.slicing.evidence import Example
from tests.mining.kernels.test_equivalents import WRAPPER, opened

HEAD = "import pytest\nimport torch\nfrom pkg.op import add\n\n"
SAMPLES = (
    "import torch\n\ndef sample_inputs(device):\n"
    "    def make(*size):\n        return torch.randn(size, device=device)\n"
    "    return [[make(3, 5), 2.5], [make(4, 4), 1.0]]\n"
)
SCALED = WRAPPER.replace("def add(x):", "def add(x, scale):").replace("_C.add(x)", "_C.add(x) * scale")
REFERENCE = "def plain(x, scale):\n    return x + scale\n\n"
SPREAD = "for args in samples:\n    result = add(*args)\n    assert torch.allclose(result, plain(*args))\n"


def indented(text, spaces=4):
    return "".join(" " * spaces + line + "\n" for line in text.splitlines())


def found_in(test, wrapper=WRAPPER, wrapper_path="pkg/op.py", **others):
    """The tree and linker of a repository with this test, and the pairs of its comparisons."""
    tree, linker = opened({wrapper_path: wrapper, "tests/test_add.py": test, **others})
    places = defined_names(linker.repository)
    return tree, linker, find_shared(linker.repository, frozenset({"add"}), frozenset(), places)


def searched(tree, linker, item):
    """What the search finds for the only pair."""
    example = Example(evidence="test", program=cut_program(tree, linker, item))
    return search_pair(cut_reference(tree, linker, item), "Model", [dataclasses.asdict(example)], "")


@pytest.mark.parametrize(
    "test",
    [
        "def test_add():\n    samples = sample_inputs('cuda')\n" + indented(SPREAD),
        "class TestAdd:\n    def _check(self, device):\n        samples = sample_inputs(device)\n"
        + indented(SPREAD, 8)
        + "\n    def test_on_device(self):\n        self._check('cuda')\n",
        "def fixture_values():\n    return [sample_inputs('cuda')]\n\n@pytest.fixture(params=fixture_values())\n"
        "def samples(request):\n    return request.param\n\ndef test_add(samples):\n" + indented(SPREAD),
        "CASES = [sample_inputs('cuda')]\n\n@pytest.mark.parametrize('samples', CASES)\ndef test_add(samples):\n"
        + indented(SPREAD),
    ],
)
def test_inputs_come_from_running_what_both_sides_share(test):
    files = {"tests/samples.py": SAMPLES}
    text = HEAD + "from tests.samples import sample_inputs\n\n" + REFERENCE + test
    tree, linker, (item,) = found_in(text, SCALED, **files)
    assert item.shared == ("args_0", "args_1")
    assert "_C.add(x) * scale" not in cut_reference(tree, linker, item)
    assert "add_kernel<<<" in cut_candidate(tree, linker, item).source
    result = searched(tree, linker, item)
    assert (result["inputs"], result["evidence"]) == (["torch.randn(3, 5)", "2.5"], "test")


def test_a_copy_that_one_side_makes_for_itself_is_no_second_input():
    body = "    x = torch.randn(4, 8)\n    a, b = x.clone(), x.clone()\n    assert torch.allclose(add(a), b + 1)\n"
    _, _, (item,) = found_in(HEAD + "def test_add():\n" + body)
    assert item.shared == ("x",)


def test_sizes_of_an_input_are_read_from_it():
    body = "    n = int('4')\n    x = torch.randn(n, 8)\n    assert torch.allclose(add(x).view(n, 8), x + 1)\n"
    _, _, (item,) = found_in(HEAD + "def test_add():\n" + body)
    assert item.shared == ("x",)
    assert "n = x.shape[0]" in item.wrapper_text


@pytest.mark.parametrize(
    "body",
    [
        "    x = torch.ones(4)\n    wanted = torch.tensor([2.0, 2.0])\n    assert torch.allclose(add(x), wanted)\n",
        "    x, y = torch.randn(4), torch.randn(4)\n    assert torch.allclose(add(x), y + 1)\n",
        "    x = torch.randn(4)\n    assert torch.allclose(add(x), x + torch.rand_like(x))\n",
        "    x = torch.randn(4)\n    assert torch.allclose(add(x), add(x) + 0)\n",
        "    x = torch.randn(4)\n    y = add(x)\n    assert torch.allclose(add(y), y + 1)\n",
    ],
)
def test_sides_that_do_not_compute_the_same_from_the_same_inputs_are_no_pair(body):
    assert not found_in(HEAD + "def test_add():\n" + body)[2]


def test_integers_in_an_order_are_not_replaced_by_random_ones():
    body = "    x = sum([torch.arange(6)])\n    assert torch.allclose(add(x), x + 1)\n"
    tree, linker, (item,) = found_in(HEAD + "def test_add():\n" + body)
    assert searched(tree, linker, item)["evidence"] != "test"


def test_an_example_that_is_too_large_keeps_its_inner_sizes():
    body = "    x = torch.randn(1000, 1, 128, 96)\n    assert torch.allclose(add(x), x + 1)\n"
    tree, linker, (item,) = found_in(HEAD + "def test_add():\n" + body)
    assert searched(tree, linker, item)["inputs"] == ["torch.randn(2, 1, 128, 96)"]


def test_a_package_below_src_is_imported_by_its_own_name():
    test = (
        HEAD.replace("pkg.op", "pkg")
        + "def test_add():\n    x = torch.randn(*[4])\n    assert torch.allclose(add(x), x + 1)\n"
    )
    _, _, found = found_in(test, "import torch\nfrom ._C import add\n", "src/pkg/__init__.py")
    assert [item.wrapper.name for item in found] == ["call_add"]
