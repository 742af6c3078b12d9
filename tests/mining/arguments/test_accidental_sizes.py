"""Sizes that fit by accident: a batch as large as the channels, squares, and masks with the channels of an image."""

import ast
import re

from musadata.mining.search import search_arguments

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def shapes(body: str) -> tuple[list[tuple[int, ...]], list[int]]:
    """The shapes of the inputs and the numbers of the constructor that are found for a module."""
    found = search_arguments(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found
    calls = [next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)) for text in found["inputs"]]
    read = [tuple(int(ast.unparse(item)) for item in call.args) for call in calls]
    return read, [int(text) for text in found["init"] if text.isdigit()]


def test_an_input_whose_first_size_is_that_of_a_scale_gets_a_batch():
    body = (
        "class Model(nn.Module):\n    def __init__(self, features):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(1, features, 1, 1))\n\n"
        "    def forward(self, x):\n        return self.scale * (x - x.mean(1, keepdim=True))\n"
    )
    (shape,), (features,) = shapes(body)
    assert len(shape) == 4 and shape[1] == features != shape[0]


def test_rows_and_features_of_several_inputs_are_told_apart():
    body = (
        "class Model(nn.Module):\n    def __init__(self, rows, width):\n        super().__init__()\n"
        "        self.linear, self.mix = nn.Linear(width, width), nn.Conv1d(rows, rows, 1)\n\n"
        "    def forward(self, x, residual):\n        return self.mix(self.linear(x)) * residual\n"
    )
    (first, second), (rows, width) = shapes(body)
    assert first == second and first[1:] == (rows, width) and rows != width


def test_rows_of_one_input_are_not_taken_for_several_inputs():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n\n"
        "    def forward(self, x):\n        first, second = x\n        return first * second\n"
    )
    found = search_arguments(HEAD + body, "Model", [], "salt")
    assert found["reason"] == "needs_structured_input" and "values to unpack (expected 2)" in found["detail"]


def test_rows_of_a_result_are_not_taken_for_several_results():
    for call in ("self.layer(x)", "self.layer.forward(x)"):
        body = (
            "class Model(nn.Module):\n    def __init__(self, layer):\n        super().__init__()\n"
            "        self.layer = layer\n\n"
            f"    def forward(self, x):\n        x, loss = {call}\n        return x * loss\n"
        )
        assert search_arguments(HEAD + body, "Model", [], "salt")["reason"] == "needs_structured_input"


def test_parts_of_one_tensor_are_unpacked():
    body = (
        "class Model(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.layer = nn.Linear(width, 3 * width)\n\n"
        "    def forward(self, x):\n        q, k, v = self.layer(x).unflatten(-1, (3, -1)).movedim(-2, 0)\n"
        "        return F.scaled_dot_product_attention(q, k, v)\n"
    )
    (shape,), (width,) = shapes(body)
    assert shape[-1] == width


def test_a_number_for_each_row_is_a_vector():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 8, 3, padding=1)\n\n"
        "    def forward(self, image, scale):\n        return self.conv(image * scale[:, None, None, None])\n"
    )
    (image, scale), _ = shapes(body)
    assert scale == image[:1]


def test_a_class_for_each_row_stays_one_for_each_row():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n\n"
        "    def forward(self, x, target):\n"
        "        hot = torch.zeros_like(x).scatter_(1, target.unsqueeze(1), 1)\n"
        "        return (hot * x.log_softmax(1)).sum()\n"
    )
    found = search_arguments(HEAD + body, "Model", [], "salt")
    x, target = (re.findall(r"\d+", text) for text in found["inputs"])
    assert target[-1] == x[0], found


def test_images_are_as_large_as_a_fixed_number_of_features_asks_for():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv, self.head = nn.Conv2d(1, 50, 5, stride=6), nn.Linear(800, 10)\n\n"
        "    def forward(self, x):\n        return self.head(self.conv(x).view(-1, 800))\n"
    )
    (image,), _ = shapes(body)
    sides = [(side - 5) // 6 + 1 for side in image[2:]]
    assert image[0] > 1 and 50 * sides[0] * sides[1] == 800


def test_a_batch_is_not_folded_into_fixed_rows_of_features():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 1, 4, stride=4)\n\n"
        "    def forward(self, x):\n        return self.conv(x).view(-1, 64).softmax(-1)\n"
    )
    (image,), _ = shapes(body)
    assert (image[2] // 4) * (image[3] // 4) == 64


def test_an_argument_that_is_called_an_activation_is_one():
    body = (
        "class Model(nn.Module):\n    def __init__(self, width, activation: nn.Module):\n        super().__init__()\n"
        "        self.linear, self.activation = nn.Linear(width, width), activation\n\n"
        "    def forward(self, x):\n        return self.activation(self.linear(x))\n"
    )
    found = search_arguments(HEAD + body, "Model", [], "salt")
    assert found["init"][1] == "nn.GELU()", found
