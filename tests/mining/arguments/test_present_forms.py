"""Code of older versions of PyTorch, Python and NumPy, in the form that computes the same today."""

import pytest
import torch
from test_evidence_of_errors import module
from torch.nn import functional as F

from musadata.mining.arguments.present_forms import in_present_form
from musadata.mining.search import search_and_prune
from tests.mining.slicing.test_slicing import cut, run

LINEAR = "        self.layer = nn.Linear(8, 8)"


def mined(constructor: str, forward: str, inputs: str = "x") -> tuple[dict, torch.nn.Module, list]:
    """The result of the search, a model with its arguments, and its inputs."""
    source = f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n{module(constructor, forward)}"
    found = search_and_prune(source.replace("forward(self, x)", f"forward(self, {inputs})"), "M", [], "")
    assert "reason" not in found, found
    space = {"torch": torch, "nn": torch.nn, "F": F}
    exec(found["definitions"], space)
    torch.manual_seed(0)
    model = space["Model"](*[eval(text, dict(space)) for text in found["init"]])
    return found, model, [eval(text, dict(space)) for text in found["inputs"]]


def test_masks_of_bytes_are_masks_of_booleans():
    forward = "        mask = torch.ones_like(x).byte().triu(1)\n        y = self.layer(x).masked_fill(mask, -1)\n"
    forward += "        return y.masked_fill(\n            (mask + 0),\n            2,\n        )"
    _, model, [x] = mined(LINEAR, forward)
    assert torch.equal(model(x), model.layer(x).masked_fill(torch.ones_like(x).triu(1).bool(), 2))


def test_a_mask_that_is_taken_from_one_is_inverted():
    _, model, [x] = mined(LINEAR, "        mask = x > 0\n        return self.layer(x) * (1 - mask).float()")
    assert torch.equal(model(x), model.layer(x) * (x <= 0))


def test_the_number_in_an_array_is_an_item():
    constructor = f"{LINEAR}\n        import numpy as np\n        self.scale = np.asscalar(np.ones(1) * 3)"
    _, model, [x] = mined(constructor, "        return self.layer(x) * self.scale")
    assert torch.equal(model(x), model.layer(x) * 3)


def test_a_tensor_without_dimensions_gives_its_number():
    forward = "        size = self.layer(x).abs().mean()\n        return x / size.data[0]"
    _, model, [x] = mined(LINEAR, forward)
    assert torch.allclose(model(x), x / model.layer(x).abs().mean())


def test_spectra_have_their_parts_in_a_last_dimension():
    constructor = "        self.window = nn.Parameter(torch.ones(16))"
    forward = "        parts = torch.stft(x, 16, 4, 16, self.window,)\n        return parts[..., 0] - parts[..., 1]"
    _, model, [x] = mined(constructor, forward)
    parts = torch.stft(x, 16, 4, 16, torch.ones(16), return_complex=True)
    assert torch.allclose(model(x), parts.real - parts.imag, atol=1e-5)


@pytest.mark.parametrize("half", ["x.shape[1] / 2", "torch.div(x.size(1), 2).item()", "(x.shape[1] + 1) / 2"])
def test_bounds_of_slices_were_quotients_of_integers(half):
    forward = f"        half = {half}\n        y = self.layer(x)\n        return y[:, :half] * y[:, half:]"
    _, model, [x] = mined(LINEAR, forward)
    y = model.layer(x)
    assert torch.equal(model(x), y[:, : x.shape[1] // 2] * y[:, x.shape[1] // 2 :])


@pytest.mark.parametrize("onesided", ["", ", onesided=False"])
def test_transforms_took_the_number_of_dimensions(onesided):
    forward = f"        parts = torch.rfft(x, 2{onesided})\n"
    forward += f"        return torch.irfft(parts * 2, 2{onesided}" + (
        "" if onesided else ", signal_sizes=x.shape[-2:]"
    )
    _, model, [x] = mined(LINEAR, forward + ")")
    assert torch.allclose(model(x), 2 * x, atol=1e-4)


def test_what_is_not_contiguous_is_reshaped():
    forward = "        y = self.layer(x).transpose(1, 2)\n        return y.view(y.size(0), -1) + x.view(x.size(0), -1)"
    _, model, [x] = mined(LINEAR, forward)
    assert model(x).shape == (x.shape[0], x[0].numel())


def test_an_index_that_was_a_quotient_of_integers_is_one():
    forward = (
        "        _, places = self.layer(x).view(-1).topk(4)\n        rows = places / x.size(-1)\n        return x[rows]"
    )
    _, model, [x] = mined(LINEAR, forward)
    assert torch.equal(model(x), x[model.layer(x).view(-1).topk(4)[1] // x.shape[-1]])


def test_solutions_and_eigenvectors_are_those_of_linalg():
    forward = "        a = x.t() @ x + torch.eye(x.size(1))\n        y, _ = torch.solve(x.t(), a)\n"
    forward += "        values, _ = torch.symeig(a, eigenvectors=True)\n        return y.sum(1) * values"
    _, model, [x] = mined(LINEAR, forward)
    a = x.t() @ x + torch.eye(x.shape[1])
    assert torch.allclose(model(x), torch.linalg.solve(a, x.t()).sum(1) * torch.linalg.eigvalsh(a), atol=1e-3)


def test_other_errors_change_nothing():
    assert in_present_form("x = 1 - y\n", "RuntimeError: shapes", 1) == "x = 1 - y\n"


MOVED = """
import collections
from collections import Sequence
from torch._six import container_abcs, inf, string_classes
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        kinds = (collections.Iterable, Sequence, container_abcs.Mapping, string_classes)
        return x.clamp(max=inf) + sum(isinstance("text", kind) for kind in kinds)
"""


def test_what_has_moved_is_imported_from_where_it_is():
    text = cut({"net.py": MOVED}, "net.py", "Net")
    assert "_six" not in text
    assert run(text)["Model"]()(torch.zeros(2)).tolist() == [3, 3]


@pytest.mark.parametrize("made", ["8 / 2", "half", "(half + 4) / 2"])
def test_widths_of_layers_were_quotients_of_integers(made):
    constructor = f"        half = 8 / 2\n        self.share = 8 / 16\n        self.layer = nn.Linear(8, {made})"
    _, model, _ = mined(constructor, "        return self.layer(x) * self.share")
    assert model.layer.out_features == 4
    assert model.share == 0.5


def test_paddings_were_quotients_of_integers():
    constructor = "        self.share = 8 / 16\n        self.padding = (5 - 1) / 2\n"
    constructor += "        self.conv = nn.Conv2d(3, 4, 5, 1, self.padding)"
    _, model, _ = mined(constructor, "        return self.conv(x) * self.share")
    assert model.conv.padding == (2, 2)
    assert model.share == 0.5


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        ("x.reshape(-1, 2, width / 2)", lambda x: x.reshape(-1, 2, x.size(-1) // 2)),
        ("sum(x[..., :1] for _ in range(width / 2))", lambda x: x[..., :1] * (x.size(-1) // 2)),
    ],
)
def test_counts_were_quotients_of_integers(forward, told):
    _, model, [x] = mined(LINEAR, f"        width = x.size(-1)\n        return self.layer(x).sum() + {forward}")
    assert torch.allclose(model(x), model.layer(x).sum() + told(x), rtol=1e-4)


def test_names_of_parts_have_no_points():
    constructor = "        for i in range(2):\n            self.add_module('norm.%d' % i, nn.Linear(8, 8))"
    _, model, [x] = mined(constructor, "        return getattr(self, 'norm.%d' % 1)(x)")
    assert torch.equal(model(x), model.norm_1(x))


def test_views_and_iterators_were_lists():
    forward = "        sizes = map(int, [3, 4])\n        table = {'a': 2}\n"
    forward += "        return self.layer(x) * sizes[1] * table.values()[0] * sum(v for _, v in table.iteritems())"
    _, model, [x] = mined(LINEAR, forward)
    assert torch.equal(model(x), model.layer(x) * 4 * 2 * 2)


@pytest.mark.parametrize(
    ("imported", "mark"),
    [
        ("from dataclasses import dataclass", "dataclass"),
        ("from dataclasses import (\n    dataclass,\n    field as of,\n)", "dataclass()"),
        ("import dataclasses", "dataclasses.dataclass"),
    ],
)
def test_parts_of_a_configuration_are_made_for_each(imported, mark):
    source = f"{imported}\nimport torch\nfrom torch import nn\n\n\n@{mark}\nclass Part:\n    width: int = 8\n\n\n"
    source += f"@{mark}\nclass Whole:\n    part: Part = Part(width=4)\n    depth: int = 2\n\n\n"
    source += module("        self.layer = nn.Linear(Whole().part.width, 3)", "        return self.layer(x)")
    found = search_and_prune(source, "M", [], "")
    assert "reason" not in found, found
    space: dict = {"torch": torch}
    exec(found["definitions"], space)
    assert space["Model"]().layer.in_features == 4


def test_a_default_that_a_field_names_is_made_for_each():
    source = "from dataclasses import dataclass, field\nimport torch\nfrom torch import nn\n\n\n"
    source += "@dataclass\nclass Part:\n    width: int = 8\n\n\n"
    source += "@dataclass\nclass Whole:\n    part: Part = field(default=Part(width=4), metadata={'help': ''})\n\n\n"
    source += module("        self.layer = nn.Linear(Whole().part.width, 3)", "        return self.layer(x)")
    found = search_and_prune(source, "M", [], "")
    assert "reason" not in found, found
    space: dict = {"torch": torch}
    exec(found["definitions"], space)
    assert space["Model"]().layer.in_features == 4


@pytest.mark.parametrize("filled", ["self.layer.weight[0] = 3", "self.layer.weight.fill_(3)", "w[0].fill_(3)"])
def test_parameters_were_filled_in_place(filled):
    constructor = f"        self.layer = nn.Linear(8, 3)\n        w = self.layer.weight\n        {filled}"
    _, model, _ = mined(constructor, "        return self.layer(x)")
    assert torch.equal(model.layer.weight[0], torch.full((8,), 3.0))


def test_an_object_in_place_of_a_configuration_is_asked_for_its_attributes():
    constructor = "        self.scale = c.scale if 'scale' in c else 3\n        self.layer = nn.Linear(8, c.width)\n"
    constructor += "        if 'width' not in c:\n            raise ValueError('no width')"
    source = module(constructor, "        return self.layer(x) * self.scale").replace(
        "__init__(self", "__init__(self, c"
    )
    found = search_and_prune(f"import torch\nfrom torch import nn\n\n\n{source}", "M", [], "")
    assert "reason" not in found, found
    assert "getattr(c, 'scale', 3)" in found["definitions"] and found["init"][0].startswith("SimpleNamespace(width=")


def test_a_configuration_that_need_not_have_anything_is_an_object_without_attributes():
    constructor = "        self.scale = config.scale if 'scale' in config else 3\n" + LINEAR
    source = module(constructor, "        return self.layer(x) * self.scale")
    source = source.replace("__init__(self", "__init__(self, config")
    found = search_and_prune(f"import torch\nfrom torch import nn\n\n\n{source}", "M", [], "")
    assert found["init"] == ["SimpleNamespace()"]
