"""Reasons of losses say what is missing."""

import pytest

from musadata.mining.loss_reasons import loss_reason
from musadata.mining.search import search_and_prune

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def reason(body, head=HEAD):
    return search_and_prune(head + body, "Model", [], "salt")["reason"]


def module(constructor="pass", forward="return x", parameters="", inputs="x"):
    return (
        f"class Model(nn.Module):\n    def __init__(self{parameters}):\n        super().__init__()\n"
        f"        {constructor}\n\n    def forward(self, {inputs}):\n        {forward}\n"
    )


LOST = {
    "needs_file": module("self.table = open('/no/such/file').read()"),
    "outdated_code": module(forward="return torch.no_such_operator_any_more(x)"),
    "undefined_attribute": module(forward="return x * self.never_set"),
    "broken_code": module(forward="return super(nn.Linear, self).forward(x)"),
    "not_implemented": module(forward="raise NotImplementedError('later')"),
    "returns_no_tensor": module(forward="pass"),
    "takes_no_inputs": module(forward="return self.weight", inputs=""),
    "needs_structured_input": module(forward="return x.graph.edges * 2"),
    "needs_configuration": module("self.c = nn.Linear(helper.encoder.width, 8)", parameters=", helper=3"),
    "shapes_disagree": module(forward="return x.reshape(2, 3, 5, 7, 11, 13, 17)"),
    "values_refused": module(forward="return x[torch.tensor([1_000_000])]"),
    "assertion_fails": module(forward="assert x.abs().sum() == 3.25\n        return x"),
    "forward_fails": module(forward="raise RuntimeError('no luck')"),
    "init_fails": module("raise RuntimeError('no luck')"),
}


@pytest.mark.parametrize("expected", LOST)
def test_a_loss_says_what_is_missing(expected):
    assert reason(LOST[expected]) == expected


def test_inputs_of_any_name_and_abstract_methods_are_told_as_such():
    assert loss_reason("forward", "TypeError: new(): invalid data type 'str'") == "needs_structured_input"
    assert reason(module(forward="return words['p'] * 2", inputs="**words")) == "needs_structured_input"
    abstract = "class Model(nn.Module, abc.ABC):\n    @abc.abstractmethod\n    def forward(self, x): ...\n"
    assert reason(abstract, HEAD + "import abc\n\n\n") == "not_implemented"


def test_a_number_without_a_method_of_tensors_is_no_disagreement_of_shapes():
    assert loss_reason("forward", "AttributeError: 'int' object has no attribute 'dim'") == "forward_fails"


def test_a_head_without_outputs_returns_no_tensor_whatever_other_shapes_lack():
    layers = "self.c = nn.Conv2d(3, 8, 3)\n        self.head = nn.Linear(8, 0)"
    assert reason(module(layers, "return self.head(self.c(x).mean((2, 3)))")) == "returns_no_tensor"


def test_a_constructor_that_gets_a_number_for_a_list_needs_a_configuration():
    error = "TypeError: empty(): argument 'size' (position 1) must be tuple of ints, but found element of type tuple"
    assert loss_reason("init", error) == "needs_configuration"


def test_what_is_computed_from_an_absent_package_needs_the_package():
    head = "from torch import nn\nfrom some_chemistry import features\n\n\nWIDTH = len(features.table())\n\n\n"
    found = search_and_prune(head + module("self.c = nn.Linear(WIDTH, 8)"), "Model", [], "salt")
    assert found == {"reason": "needs_package", "detail": "some_chemistry.features.table"}


def test_the_failure_that_came_furthest_is_told_rather_than_one_that_was_mended():
    body = module(
        "self.embed = nn.Embedding(50, 24)",
        "x = self.embed(words)\n        raise RuntimeError('no luck')",
        inputs="words",
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert (found["reason"], found["detail"]) == ("forward_fails", "RuntimeError: no luck")


def test_a_kernel_without_a_type_is_a_matter_of_types_and_not_of_code_that_is_missing():
    error = "NotImplementedError: \"addmm_impl_cpu_\" not implemented for 'Long'"
    assert loss_reason("forward", error) == "dtypes_disagree"


def test_the_name_of_a_variable_is_no_size():
    error = "UnboundLocalError: cannot access local variable 'out_channels' where it is not associated with a value"
    assert loss_reason("init", error) == "init_fails"
