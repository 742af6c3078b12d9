"""Finding arguments by evidence and by what errors say. The searched code is ours, so it runs in this process."""

from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from musadata.mining.arguments.attempt_execution import AttemptRunner, Result
from musadata.mining.arguments.attempts import Attempt, Draw, integers, shrunk, with_integers
from musadata.mining.arguments.facts import Facts
from musadata.mining.arguments.filling import cheap_filling
from musadata.mining.arguments.growth import MAX_MODULES
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.arguments.repairs.repair import repair
from musadata.mining.arguments.stated_sizes import resize
from musadata.mining.arguments.task_sizes import _smaller
from musadata.mining.search import _Repaired, search_and_prune, search_arguments, warm_up

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def search(body, examples=(), salt="salt"):
    return search_arguments(HEAD + body, "Model", list(examples), salt)


def run(body, found):
    space: dict = {"SimpleNamespace": SimpleNamespace}
    exec(HEAD + body, space)
    model = space["Model"](*[eval(text, space) for text in found["init"]])
    return model(*[eval(text, space) for text in found["inputs"]])


def test_names_and_error_messages_lead_to_inputs_that_fit():
    body = (
        "class Model(nn.Module):\n    def __init__(self, in_channels, hidden):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(in_channels, hidden, 3)\n        self.norm = nn.GroupNorm(6, hidden)\n\n"
        "    def forward(self, x):\n        return self.norm(self.conv(x))\n"
    )
    found = search(body)
    assert "reason" not in found
    assert run(body, found).dim() == 4


def test_two_inputs_of_different_widths_are_told_apart():
    body = (
        "class Model(nn.Module):\n    def __init__(self, query_dim, context_dim):\n        super().__init__()\n"
        "        self.q = nn.Linear(query_dim, 16)\n        self.k = nn.Linear(context_dim, 16)\n\n"
        "    def forward(self, x, context):\n        return self.q(x) @ self.k(context).transpose(1, 2)\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == 3


def test_token_inputs_become_integers():
    body = (
        "class Model(nn.Module):\n    def __init__(self, vocab_size, dim):\n        super().__init__()\n"
        "        self.embed = nn.Embedding(vocab_size, dim)\n\n"
        "    def forward(self, x):\n        return self.embed(x).relu()\n"
    )
    found = search(body)
    assert "randint" in found["inputs"][0]
    run(body, found)


def test_a_configuration_object_is_made_from_the_attributes_that_are_read():
    body = (
        "class Model(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)\n"
        "        self.p = config.dropout_prob\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n"
    )
    found = search(body)
    assert "SimpleNamespace" in found["init"][0]


def test_dropout_is_turned_off_where_the_constructor_can():
    body = (
        "class Model(nn.Module):\n    def __init__(self, dim, dropout=0.1):\n        super().__init__()\n"
        "        self.drop = nn.Dropout(dropout)\n        self.fc = nn.Linear(dim, dim)\n\n"
        "    def forward(self, x):\n        return self.drop(self.fc(x))\n"
    )
    assert search(body)["init"][1] == "0.0"


def test_an_oversized_example_is_shrunk_before_it_is_tried():
    body = "class Model(nn.Module):\n    def forward(self, x):\n        return x.softmax(1)\n"
    example = {
        "init": [],
        "init_keywords": [],
        "inputs": ["torch.empty(20, 1600, 50, 100)"],
        "input_keywords": [],
        "evidence": "docstring",
    }
    found = search(body, [example])
    assert found["evidence"] == "docstring"
    assert run(body, found).numel() <= 1 << 16


def test_a_module_that_never_works_is_given_up_with_the_last_error():
    found = search("class Model(nn.Module):\n    def forward(self, x):\n        raise RuntimeError('no luck')\n")
    assert (found["reason"], found["detail"]) == ("forward_fails", "RuntimeError: no luck")


def test_code_that_does_not_import_is_given_up():
    assert search("1 / 0\n")["reason"] == "import_fails"


def test_different_modules_get_different_sizes():
    body = "class Model(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
    assert len({search(body, salt=str(number))["inputs"][0] for number in range(8)}) > 2


def test_target_kinds_are_kept():
    body = "class Model(nn.Module):\n    def forward(self, x, target):\n        return F.cross_entropy(x, target)\n"
    example = {
        "init": [],
        "init_keywords": [],
        "inputs": ["torch.randn(3, 5)", "torch.empty(3, dtype=torch.long).random_(5)"],
        "input_keywords": [],
        "evidence": "docstring",
    }
    found = search(body, [example])
    assert "randint" in found["inputs"][1]
    rows, classes = eval(found["inputs"][0], {"torch": torch}).shape
    target = eval(found["inputs"][1], {"torch": torch})
    assert target.shape == (rows,)
    assert int(target.max()) < classes


def test_a_tree_of_modules_that_would_never_be_built_is_given_up_at_once():
    body = (
        "class Model(nn.Module):\n    built = 0\n    def __init__(self, levels):\n        super().__init__()\n"
        "        Model.built += 1\n"
        "        self.parts = nn.ModuleList(Model(levels - 1) for _ in range(2) if levels)\n\n"
        "    def forward(self, x):\n        return x\n"
    )
    bench = AttemptRunner(HEAD + body, 240)
    bench.load()
    result = bench.attempt(Attempt(("24",), (Draw("randn", (2, 2)),)))
    assert (result.stage, result.error) == ("init", "TooLarge: too many modules")
    assert bench.space["Model"].built < 2 * MAX_MODULES


@pytest.mark.parametrize(
    ("made", "kept", "times"),
    [
        ("{}", "self.seen.setdefault('first', x.shape)", 1),
        ("[x.shape for x in ()]", "(self.seen.append(x.shape), self.seen[0])[1]", 1),
        ("nn.Module()", "vars(self.seen).setdefault('first', x.shape)", 1),
        ("Own()", "self.seen.setdefault('first', x.shape)", 3),  # its methods may do more than a dictionary's
        ("0", "x.shape", 1),
    ],
)
def test_what_a_module_remembers_of_one_input_is_gone_for_the_next(made, kept, times):
    body = (
        "class Own(dict):\n    pass\n\n\n"
        "class Model(nn.Module):\n    built = 0\n    def __init__(self):\n        super().__init__()\n"
        f"        Model.built += 1\n        self.seen, self.scale = {made}, nn.Parameter(torch.ones(()) / 2)\n\n"
        f"    def forward(self, x):\n        return x.expand({kept}) * self.scale\n"
    )
    bench = AttemptRunner(HEAD + body, 240)
    bench.load()
    assert all(bench.attempt(Attempt((), (Draw("randn", (size, 3)),))).ok for size in (4, 5, 6))
    assert bench.space["Model"].built == times


def test_a_buffer_that_a_call_writes_to_is_put_back():
    body = (
        "class Model(nn.Module):\n    built = 0\n    def __init__(self):\n        super().__init__()\n"
        "        Model.built += 1\n        self.register_buffer('calls', torch.zeros(()))\n\n"
        "    def forward(self, x):\n        self.calls += 1\n        return x / (2 - self.calls)\n"
    )
    bench = AttemptRunner(HEAD + body, 240)
    bench.load()
    assert all(bench.attempt(Attempt((), (Draw("randn", (size, 3)),))).finite for size in (4, 5, 6))
    assert bench.space["Model"].built == 1


@pytest.mark.parametrize(
    ("shapes", "error", "wanted"),
    [
        (
            [(3, 24, 16, 20)],
            "expected input[3, 24, 16, 20] to have 3 channels, but got 24 channels instead",
            [(3, 3, 16, 20)],
        ),
        ([(5, 18, 24)], "mat1 and mat2 shapes cannot be multiplied (90x24 and 36x8)", [(5, 18, 36)]),
        ([(5, 6), (5, 6)], "mat1 and mat2 shapes cannot be multiplied (5x24 and 16x8)", [(5, 4), (5, 4)]),
        (
            [(2, 24, 8, 8), (2, 24, 8, 8)],
            "The size of tensor a (16) must match the size of tensor b (8) at non-singleton dimension 3",
            [(2, 24, 8, 8), (2, 24, 16, 16)],
        ),
        (
            [(4, 6), (3, 4, 6)],
            "of tensor a (72) must match the size of tensor b (6) at non-singleton dimension 1",
            [(4, 6), (6,)],
        ),
        ([(2, 3, 8, 8)], "Kernel size can't be greater than actual input size", [(2, 3, 16, 16)]),
        ([(3, 4, 16, 20)], "mat1 and mat2 shapes cannot be multiplied (3x1280 and 1024x8)", [(3, 4, 16, 16)]),
        (
            [(3, 24, 16, 20)],
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            "[3, 24, 16, 20] and num_groups=32",
            [(3, 32, 16, 20)],
        ),
    ],
)
def test_the_size_that_an_error_asks_for_is_tried_early(shapes, error, wanted):
    attempt = Attempt((), tuple(Draw("randn", shape) for shape in shapes))
    tried = [[draw.shape for draw in other.draws] for other in list(resize(attempt, f"RuntimeError: {error}"))[:4]]
    assert wanted in tried


def test_a_network_of_many_parameters_is_corrected_more_than_once():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv, self.norm = nn.Conv2d(3, 8, 7, stride=4), nn.BatchNorm2d(8)\n"
        "        self.pool, self.fc = nn.Conv2d(8, 4, 5), nn.Linear(16384, 1024)\n\n"
        "    def forward(self, x):\n        return self.pool(self.norm(self.conv(x)))\n"
    )
    assert "reason" not in search(body)


def test_what_runs_only_on_repeated_numbers_is_not_found_to_run():
    """Large parameters are filled cheaply during the search, so what it finds is tried once more without."""
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.randn(50000))\n\n"
        "    def forward(self, x):\n        if len(self.weight.unique()) > 5000:\n            raise ValueError('odd')\n"
        "        return x * self.weight[0]\n"
    )
    found = search(body)
    assert (found["reason"], found["detail"]) == ("forward_fails", "ValueError: odd")


def test_cheaply_filled_numbers_have_the_right_spread_and_leave_torch_as_it_was():
    before = torch.randn, torch.rand, torch.Tensor.normal_, torch.Tensor.uniform_
    with cheap_filling():
        normal, uniform = torch.randn(300, 500), torch.empty(70000).uniform_(-2, 2)
        assert torch.randn(3).shape == (3,)
        rows = torch.nn.Linear(300, 300).weight
    assert abs(float(normal.std()) - 1) < 0.05
    assert float(uniform.abs().max()) <= 2
    assert len(rows.unique(dim=0)) == 300
    assert before == (torch.randn, torch.rand, torch.Tensor.normal_, torch.Tensor.uniform_)


def test_warming_up_leaves_random_numbers_as_they_were():
    before = torch.get_rng_state()
    warm_up()
    assert torch.equal(before, torch.get_rng_state())


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=5))
def test_integers_of_an_expression_can_be_replaced(numbers):
    text = f"nn.Linear({', '.join(map(str, numbers))}, bias=True, eps=1e-5)"
    assert integers(text) == numbers
    changed = [number + 1 for number in numbers]
    assert integers(with_integers(text, list(changed))) == changed


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4), st.sampled_from(["randn", "rand", "sign", "bool"]))
def test_an_attempt_survives_taking_its_values_out_and_putting_them_back(shape, kind):
    attempt = Attempt(("(3, 4)", "'same'"), (Draw(kind, tuple(shape)), Draw("randint", (2,), 9, "int64")))
    assert attempt.with_values(attempt.values()) == attempt
    assert max(shrunk(attempt, 48).values()) <= 48


@pytest.mark.parametrize(
    "init, body, hints",
    [
        ("self, d_model, n_heads", "self.a = nn.MultiheadAttention(d_model, n_heads, batch_first=True)", {}),
        ("self, configs", "assert configs.task_name in ('short', 'long')\nself.a = nn.Linear(configs.d_model, 8)", {}),
        ("self, flow", "if flow not in ('left', 'right'):\n    raise ValueError(flow)\nself.a = nn.Linear(24, 8)", {}),
        ("self, spatial_dims, n", "self.a = {2: nn.Conv2d, 3: nn.Conv3d}[spatial_dims](n, 8, 3)", {}),
        ("self, *, width, depth=1", "self.a = nn.Linear(width, depth)", {}),
        ("self, layers", "self.a = nn.Linear(layers[0], layers[1])", {"layers": "Sequence[int]"}),
        ("self, thing", "self.a = thing(24)", {"thing": "type[nn.Module]"}),
        ("self, how", "self.a = {'up': nn.Linear}[how](24, 24)", {"how": "Literal['up', 'down']"}),
        ("self, config", "net = config.model.net\nself.a = nn.Linear(net.width, net.out_width)", {}),
        ("self, cfg", "self.a = nn.Linear(cfg.get('width'), cfg['depth'])", {}),
        ("self, size, step", "assert size % 7 == 0\nassert step > 5\nself.a = nn.Linear(size, step)", {}),
        ("self, cfg", "n = (cfg.depth - 2) // 6\nassert n * 6 + 2 == cfg.depth\nself.a = nn.Linear(cfg.depth, 8)", {}),
        ("self, n, mask=None", "assert mask is not None, 'mask is needed'\nself.a = nn.Linear(n, mask)", {}),
    ],
)
def test_what_the_code_says_of_a_parameter_beats_its_name(init, body, hints):
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    forward = "        out = self.a(x)\n        return out[0] if isinstance(out, tuple) else out\n"
    if "Multihead" in body:
        forward = "        return self.a(x, x, x)[0]\n"
    head = f"class Model(nn.Module):\n    def __init__({init}):\n        super().__init__()\n"
    text = f"{head}{lines}\n    def forward(self, x):\n{forward}"
    found = search_and_prune(HEAD + text, "Model", [], "salt", {"Model": {"annotations": hints}})
    assert "reason" not in found, found
    space: dict = {"SimpleNamespace": SimpleNamespace}
    exec(found["definitions"], space)
    model = space["Model"](*[eval(item, space) for item in found["init"]])
    model(*[eval(item, space) for item in found["inputs"]])


def test_what_kwargs_hand_to_the_base_class_is_a_parameter():
    body = (
        "class Base(nn.Module):\n    def __init__(self, dim, width):\n        super().__init__()\n"
        "        self.a = nn.Linear(dim, width)\n\n    def forward(self, x):\n        return self.a(x)\n\n\n"
        "class Model(Base):\n    def __init__(self, scale, **kwargs):\n        super().__init__(**kwargs)\n"
        "        self.scale = scale\n\n    def forward(self, x):\n        return self.scale * super().forward(x)\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found
    assert len(found["init"]) == 3


def test_what_args_hand_to_the_base_class_is_guessed():
    body = (
        "class Model(nn.Conv2d):\n    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n\n"
        "    def forward(self, x):\n        return super().forward(x).relu()\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found


def test_the_first_cause_is_reported_and_not_the_last_correction():
    body = (
        "class Model(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        if not isinstance(width, int):\n            raise TypeError('no tuple')\n        self.w = width\n\n"
        "    def forward(self, x):\n        raise RuntimeError(f'{x.dim()} is not iterable')\n"
    )
    found = search(body)
    assert found["reason"] == "forward_fails"
    assert "is not iterable" in found["detail"]


@pytest.mark.parametrize(
    "body",
    [
        "    def __init__(self, resolution, dim):\n        super().__init__()\n"
        "        self.resolution, self.fc = resolution, nn.Linear(dim, dim)\n        self.side = resolution\n\n"
        "    def forward(self, x):\n        height, width = self.side\n"
        "        return self.fc(x).unflatten(1, (height, width))\n",
        "    def __init__(self, configs):\n        super().__init__()\n"
        "        channels, height = configs.in_shape\n        self.fc = nn.Linear(channels, height)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n",
    ],
)
def test_a_parameter_that_is_unpacked_later_is_a_sequence(body):
    body = f"class Model(nn.Module):\n{body}"
    found = search(body)
    assert "reason" not in found, found
    assert "(" in found["init"][0]


def test_work_is_counted_where_a_dispatch_mode_is_refused():
    body = (
        "from torch.utils._python_dispatch import _get_current_dispatch_mode\n\n\n"
        "class Model(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.fc = nn.Linear(dim, dim)\n\n"
        "    def forward(self, x):\n        if _get_current_dispatch_mode() is not None:\n"
        "            raise NotImplementedError('no rule')\n        return self.fc(x)\n"
    )
    runner = AttemptRunner(HEAD + body, 240)
    runner.load()
    assert runner.operations(Attempt(("24",), (Draw("randn", (2, 24)),))) == 2 * 24 * 24


@pytest.mark.parametrize(
    ("layers", "arguments", "code"),
    [
        (
            "self.conv = nn.Conv2d(3, 8, 3, padding=1)",
            "x",
            "(y := self.conv(x)) + torch.cat([F.interpolate(F.max_pool2d(y, 16), scale_factor=16), y], dim=1)[:, 8:]",
        ),
        ("self.words = nn.Embedding(9, 8)", "x, y", "self.words(x) + self.words(y)"),
    ],
)
def test_halved_images_and_tokens_are_found(layers, arguments, code):
    body = (
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {layers}\n\n"
        f"    def forward(self, {arguments}):\n        return {code}\n"
    )
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_required_arguments_that_kwargs_hand_to_another_class_are_parameters():
    inner = (
        "class Inner(nn.Module):\n    def __init__(self, *, width, depth=1):\n        super().__init__()\n"
        "        self.a = nn.Linear(width, depth)\n\n    def forward(self, x):\n        return self.a(x)\n\n\n"
    )
    outer = (
        "class Model(nn.Module):\n    def __init__(self, groups=2, **kwargs):\n        super().__init__()\n"
        "        self.parts = nn.ModuleList([Inner(**kwargs) for _ in range(groups)])\n\n"
        "    def forward(self, x):\n        return sum(part(x) for part in self.parts)\n"
    )
    found = search_and_prune(HEAD + inner + outer, "Model", [], "salt")
    assert "reason" not in found, found


def test_an_optional_input_that_the_code_asks_for_is_given():
    body = (
        "class Model(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.a = nn.Linear(dim, dim)\n\n    def forward(self, x, scale=None, context=None):\n"
        "        assert context is not None, 'context must be given'\n        return self.a(x) + context\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found
    assert found["inputs"][1] == "None"
    assert len(found["inputs"]) == 3


def test_a_residual_block_gets_as_many_channels_as_it_adds():
    body = (
        "class Model(nn.Module):\n    def __init__(self, inplanes, planes):\n        super().__init__()\n"
        "        self.a, self.b = nn.Conv2d(inplanes, planes, 1), nn.Conv2d(planes, 4 * planes, 1)\n\n"
        "    def forward(self, x):\n        return self.b(self.a(x)) + x\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found
    assert int(found["init"][0]) == 4 * int(found["init"][1])


def test_an_image_is_as_large_as_a_pooling_layer_needs():
    body = (
        "class Model(nn.Module):\n    def __init__(self, num_classes=100):\n        super().__init__()\n"
        "        self.a, self.pool = nn.Conv2d(3, 4, 3, stride=16, padding=1), nn.AvgPool2d(7, stride=1)\n"
        "        self.head = nn.Linear(4, num_classes)\n\n"
        "    def forward(self, x):\n        return self.head(self.pool(self.a(x)).mean((2, 3)))\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "reason" not in found, found
    assert found["tries"] < 40


def test_numbers_that_are_cut_to_rows_of_a_table_are_several_rows():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.hour, self.day = nn.Embedding(4, 8), nn.Embedding(7, 8)\n\n"
        "    def forward(self, mark):\n        mark = mark.long()\n"
        "        return self.hour(mark[:, :, 1]) + self.day(mark[:, :, 0])\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert "randint" in found["inputs"][0]


@pytest.mark.parametrize(
    ("name", "default"), [("layer_scale_init_value", "1e-6"), ("gamma", "0.0"), ("init_scale", "0.0")]
)
def test_a_branch_that_a_tiny_scale_closes_is_opened(name, default):
    body = (
        f"class Model(nn.Module):\n    def __init__(self, dim, drop=None, {name}={default}):\n"
        "        super().__init__()\n        self.a = nn.Linear(dim, dim)\n"
        f"        self.gamma = nn.Parameter({name} * torch.ones(dim))\n\n"
        "    def forward(self, x):\n        return x + self.gamma * self.a(x)\n"
    )
    found = search_and_prune(HEAD + body, "Model", [], "salt")
    assert found["init"][-1] == "0.5", found


def test_a_bottleneck_keeps_several_units():
    body = (
        "class Model(nn.Module):\n    def __init__(self, channel, reduction=16):\n        super().__init__()\n"
        "        self.down = nn.Linear(channel, channel // reduction)\n"
        "        self.up = nn.Linear(channel // reduction, channel)\n\n"
        "    def forward(self, x):\n        a, b, c, d = x.shape\n"
        "        return x * self.up(F.relu(self.down(x.mean((2, 3))))).view(a, b, 1, 1)\n"
    )
    assert int(search(body)["init"][0]) % 64 == 0


def test_a_costly_module_keeps_images_larger_than_its_kernels():
    body = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(192, 512, 5, padding=2)\n\n"
        "    def forward(self, x):\n        return self.conv(x)\n"
    )
    assert min(run(body, search(body)).shape[2:]) >= 6


STATISTICS = (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.main = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.Conv2d(4, 4, 4, 4))\n"
    "        self.expand = nn.Linear(64, 96)\n        self.classify = nn.Linear(160, 8)\n\n"
    "    def forward(self, x, z):\n        out = self.expand(self.main(x).flatten(1))\n"
    "        return self.classify(torch.cat([out, z], -1))\n"
)
GRAPH = (
    "class Model(nn.Module):\n    def __init__(self, in_features):\n        super().__init__()\n"
    "        self.w = nn.Parameter(torch.randn(in_features, 4))\n\n"
    "    def forward(self, x, adj):\n        edge = adj.nonzero().t()\n        h = torch.mm(x, self.w)\n"
    "        return h[edge[0]] + h[edge[1]]\n"
)
OPTIONAL = (
    "class Model(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
    "        if config.pretrained is not None:\n"
    "            self.table = nn.Embedding.from_pretrained(config.pretrained)\n"
    "        else:\n            self.table = nn.Embedding(config.n_vocab, 8)\n"
    "        self.device = config.device\n\n"
    "    def forward(self, tokens):\n        return self.table(tokens).to(self.device)\n"
)
NESTED = (
    "class Model(nn.Module):\n    def __init__(self, hp):\n        super().__init__()\n"
    "        self.fc = nn.Linear(hp.embedder.mels, 8)\n\n    def forward(self, x):\n        return self.fc(x)\n"
)
APPLIED = (
    "class Model(nn.Module):\n    def __init__(self, features, dim):\n        super().__init__()\n"
    "        self.features = features\n        self.fc = nn.Linear(dim, 8)\n\n"
    "    def forward(self, x):\n        return self.fc(self.features(x))\n"
)
LOSS = (
    "class Model(nn.Module):\n    def forward(self, logits, labels):\n"
    "        return F.cross_entropy(logits, labels.long(), reduction='none').pow(2).mean()\n"
)
QUERIES = (
    "class Model(nn.Module):\n    def forward(self, x, query_embed):\n        n, c, h, w = x.shape\n"
    "        queries = query_embed.unsqueeze(1).repeat(1, n, 1)\n        return queries.sum() + x.flatten(2)\n"
)


@pytest.mark.parametrize("body", [LOSS, QUERIES, STATISTICS, GRAPH, OPTIONAL, NESTED, APPLIED])
def test_values_of_the_wrong_kind_or_rank_are_replaced_by_what_the_code_does_with_them(body):
    found = search_and_prune(HEAD + body, "Net", [], "salt")
    assert "reason" not in found, found


@pytest.mark.parametrize(
    ("arguments", "layers", "code", "rank"),
    [
        ("dim, norm_layer", "nn.Conv2d(dim, dim, 3, padding=1), norm_layer(dim)", "nn.BatchNorm2d", 4),
    ],
)
def test_what_is_normalized_is_no_dimension_that_fits_by_accident(arguments, layers, code, rank):
    body = (
        f"class Model(nn.Module):\n    def __init__(self, {arguments}):\n        super().__init__()\n"
        f"        self.net = nn.Sequential({layers})\n\n    def forward(self, x):\n        return self.net(x)\n"
    )
    found = search(body)
    assert run(body, found).dim() == rank
    assert code in " ".join(found["init"])


NESTED = (
    "class Encoder(nn.Module):\n    def __init__(self, vocab_size, dim):\n        super().__init__()\n"
    "        self.words = nn.Embedding(vocab_size, dim)\n        self.places = nn.Embedding(64, dim)\n\n"
    "    def forward(self, seq, pos):\n        b, n = seq.shape\n"
    "        return self.words(seq) + self.places(pos)\n\n\n"
    "class Model(nn.Module):\n    def __init__(self, vocab_size, dim):\n        super().__init__()\n"
    "        self.encoder = Encoder(vocab_size, dim)\n\n"
    "    def forward(self, features, a, b):\n        return features @ self.encoder(a, b).mean(1).t()\n"
)


def test_a_failure_names_the_inputs_whose_memory_it_reads_also_in_inner_modules():
    runner = AttemptRunner(HEAD + NESTED, 10)
    runner.load()
    tokens = Draw("randint", (3, 7), 8, "int64")
    draws = (Draw("randn", (3, 24)), tokens, Draw("randn", (3, 7)))
    failed = runner.attempt(Attempt(("50", "24"), draws))
    assert not failed.ok and failed.operands == (1, 2), failed
    ranked = runner.attempt(Attempt(("50", "24"), (draws[0], Draw("randn", (3, 7, 2)), tokens)))
    assert "unpack" in ranked.error and ranked.operands == (1,), ranked


def test_inputs_of_inner_modules_get_their_own_ranks_and_types():
    found = search(NESTED)
    assert "reason" not in found, found
    assert run(NESTED, found).dim() == 2


def test_corrections_of_inputs_that_a_failing_line_does_not_read_come_last():
    draws = (Draw("randn", (5, 18, 24)), Draw("randn", (5, 18, 24)))
    attempt = Attempt((), draws)
    error = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (90x24 and 2x64)"
    repaired = list(repair(attempt, error, "", Parameters((), (), Facts(), ""), (1,)))
    assert repaired[0].draws == (draws[0], Draw("randn", (5, 18, 2)))


@pytest.mark.parametrize(
    "constructor, call",
    [
        (
            "opt):\n        super().__init__()\n        self.e = nn.Embedding(50, 24)\n"
            "        if opt.get('table', None) is not None: self.e.weight = nn.Parameter(opt['table'])",
            "x): return self.e(x)",
        ),
        (
            "table: torch.Tensor, tune: bool):\n        super().__init__()\n        self.e = nn.Embedding(50, 24)\n"
            "        self.fill(table, tune)\n\n    def fill(self, table, tune=True):\n"
            "        if table is not None: self.e.weight = nn.Parameter(table, requires_grad=tune)",
            "x): return self.e(x)",
        ),
        (
            "opt):\n        super().__init__()\n        self.opt = opt; self.r = nn.GRU(opt.dim, opt.dim)\n\n"
            "    def start(self, batch_size=None):\n"
            "        if batch_size is None: batch_size = self.opt.batch_size\n"
            "        return torch.zeros(1, batch_size, self.opt.dim)",
            "x): return self.r(x, self.start(x.size(1)))[0]",
        ),
        (
            "cfg):\n        super().__init__()\n"
            "        self.l = nn.Linear(cfg['head']['width'], cfg['head']['classes'])",
            "x): return self.l(x)",
        ),
        (
            "shape):\n        super().__init__()\n        assert len(shape) == 1\n"
            "        self.w = nn.Parameter(torch.ones(shape))",
            "x): return x * self.w",
        ),
        (
            "planes):\n        super().__init__()\n        assert type(planes) == list and len(planes) == 2\n"
            "        self.l = nn.Linear(*planes)",
            "x): return self.l(x)",
        ),
        (
            "planes, kernel_size, padding):\n        super().__init__()\n        \n"
            "        self.c = nn.Conv1d(planes, planes, kernel_size, padding=padding)",
            "x): return x + self.c(x)[:, :, : -2]",
        ),
        (
            "temps):\n        super().__init__()\n        self.temps = torch.ones(20)",
            "x, epoch): return x / self.temps[epoch + 0]",
        ),
        (
            "n):\n        super().__init__()",
            "x, target): return (x * x).sum(3).sum(2) + (target - x).abs().sum(3).sum(2)",
        ),
        (
            "n):\n        super().__init__()",
            "x):\n        n = x.size(0)\n        return x.sum(1, keepdim=True).expand(n, n)",
        ),
        ("n):\n        super().__init__()", "x): return x.view(x.size(0), 1, 3) * 2"),
        (
            "dim):\n        super().__init__()\n        self.n = nn.BatchNorm1d(1); self.l = nn.Linear(dim, dim)",
            "x): return self.n(self.l(x)) + self.l(x.squeeze(1)).sum()",
        ),
        (
            "layer):\n        super().__init__()\n        self.layer = layer\n"
            "        self.a = nn.Parameter(torch.ones(layer.out_features, 1))",
            "x): return self.layer(x) * self.a.sum()",
        ),
        (
            "base):\n        super().__init__()\n"
            "        if not isinstance(base, nn.Linear): raise NotImplementedError(type(base))\n"
            "        self.base = base",
            "x): return self.base(x).relu()",
        ),
        (
            "*args, scale=2.0, **kwargs):\n        super().__init__()\n"
            "        self.c = nn.Conv1d(*args, **kwargs); self.scale = scale",
            "x): return self.c(x) * self.scale",
        ),
        (
            "width, kind=None, act=None):\n        super().__init__()\n"
            "        self.l = nn.Linear(width, width); self.act = act(); self.kind = kind",
            "x):\n        if self.kind == 'add': return self.act(self.l(x)) + x\n        raise NotImplementedError",
        ),
        (
            "n):\n        super().__init__()",
            "x, kind):\n        if kind == 'up': return x * 2\n        raise ValueError(kind)",
        ),
        (
            "dim):\n        super().__init__()\n        self.l = nn.Linear(dim, dim)",
            "x, slf_mask=None):\n        b, n, d = x.shape\n        scores = x @ self.l(x).transpose(1, 2)\n"
            "        return scores.masked_fill(self.spread(slf_mask), 0.0)\n\n"
            "    def spread(self, mask):\n        return mask.repeat(1, 1, 1)",
        ),
    ],
)
def test_what_the_code_does_with_an_argument_tells_its_kind(constructor, call):
    body = f"class Model(nn.Module):\n    def __init__(self, {constructor}\n\n    def forward(self, {call}\n"
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).numel()


def test_lengths_of_padded_sequences_fit_their_batch():
    body = (
        "class Model(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.rnn = nn.GRU(dim, dim, batch_first=True)\n\n"
        "    def forward(self, x, lengths):\n"
        "        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.tolist(), batch_first=True)\n"
        "        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]\n"
    )
    found = search(body)
    assert "reason" not in found, found
    x, lengths = (eval(text) for text in found["inputs"])
    assert len(x) == len(lengths) and lengths.max() <= x.shape[1]


def test_batches_of_inputs_that_belong_together_stay_equal():
    body = (
        "class Model(nn.Module):\n    def forward(self, x, target):\n"
        "        rows = (target > -100).sum(1).nonzero().squeeze()\n"
        "        return x.index_select(0, rows) * target.index_select(0, rows)\n"
    )
    found = search(body)
    x, target = (eval(text) for text in found["inputs"])
    assert len(x) == len(target)


def test_a_message_about_an_empty_tensor_states_no_size():
    attempt = Attempt(("24",), (Draw("randn", (2, 24, 6, 10)),))
    error = (
        "RuntimeError: Given groups=1, weight of size [4, 24, 1, 1], expected input[2, 0, 6, 10] to have 24 channels, "
    )
    assert not list(resize(attempt, error + "but got 0 channels instead"))


def test_a_normalization_that_is_made_for_convolutions_is_one_of_images():
    body = (
        "class Model(nn.Module):\n    def __init__(self, planes, BatchNorm):\n        super().__init__()\n"
        "        self.conv, self.bn = nn.Conv2d(planes, planes, 3), BatchNorm(planes)\n\n"
        "    def forward(self, x):\n        return self.bn(self.conv(x))\n"
    )
    assert search(body)["init"][1] == "nn.BatchNorm2d"


@pytest.mark.parametrize(
    ("arguments", "init", "inputs", "forward"),
    [
        (  # a layer behind others has the width that it meets
            "in_channels, channels, fc_channels",
            "self.rnn = nn.GRU(in_channels, channels, batch_first=True, bidirectional=True)\n"
            "        self.fc = nn.Linear(fc_channels, 8)",
            "x",
            "self.fc(z)",
        ),
        (
            "width",
            "self.lstm = nn.LSTM(width, 8, num_layers=3)",
            "x, first",
            "self.lstm(x)[0] if first is None else self.lstm(x, first)[0]",
        ),
        ("wn", "self.conv = nn.Sequential(wn(nn.Conv2d(3, 8, 3)), nn.ReLU())", "x", "self.conv(x)"),
    ],
)
def test_widths_behind_layers_objects_first_states_and_wrappers_are_found(arguments, init, inputs, forward):
    body = (
        f"class Model(nn.Module):\n    def __init__(self, {arguments}):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, {inputs}):\n"
        + "        z, _ = self.rnn(x)\n" * ("rnn" in init)
        + f"        return {forward}\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).numel()


@pytest.mark.parametrize("read", ["h.{}", "h[{!r}]", "config['generator'][{!r}]"])
def test_sequences_in_configurations_are_found_by_what_is_made_of_them(read):
    block = (
        "class Block(nn.Module):\n    def __init__(self, width, dilation):\n        super().__init__()\n"
        "        self.convs = nn.ModuleList(\n            nn.Conv1d(width, width, 3, dilation=step, padding=step)\n"
        "            for step in (dilation[0], dilation[2])\n        )\n\n"
        "    def forward(self, x):\n        for conv in self.convs:\n            x = x + conv(F.relu(x))\n"
        "        return x\n\n"
    )
    names = ("upsample_rates", "resblock_dilation_sizes", "initial_channel")
    rates, dilations, width = (read.format(name) for name in names)
    model = (
        f"\nclass Model(nn.Module):\n    def __init__(self, {read[: read.index('[') if '[' in read else 1]}):\n"
        f"        super().__init__()\n        rates = {rates}\n        dilations = {dilations}\n"
        f"        width = {width}\n        self.count = len(dilations)\n"
        "        self.ups = nn.ModuleList(nn.ConvTranspose1d(width, width, rate, rate) for rate in rates)\n"
        "        self.blocks = nn.ModuleList(Block(width, item) for item in dilations)\n\n"
        "    def forward(self, x):\n        for up in self.ups:\n            x = up(x)\n"
        "        return sum(block(x) for block in self.blocks) / self.count\n"
    )
    found = search(block + model)
    assert "reason" not in found, found
    assert run(block + model, found).dim() == 3
    assert "(1, 3, " in found["init"][0]


def test_a_layer_that_a_method_was_handed_gets_the_channels_that_it_meets():
    body = (
        "class Model(nn.Module):\n    def __init__(self, in_channels, out_channels, vocab_size):\n"
        "        super().__init__()\n        self.embed = nn.Embedding(vocab_size, 24)\n"
        "        self.conv = nn.Conv2d(in_channels, out_channels, (3, 24))\n\n"
        "    def block(self, x, layer):\n        return layer(x).relu()\n\n"
        "    def forward(self, tokens):\n        return self.block(self.embed(tokens).unsqueeze(1), self.conv)\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert found["init"][0] == "1"


def test_a_missing_key_of_a_configuration_is_added():
    body = (
        "def width_of(settings):\n    return settings['width']\n\n\n"
        "class Model(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.linear = nn.Linear(config['inputs'], width_of(config))\n\n"
        "    def forward(self, x):\n        return self.linear(x)\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert "'width': " in found["init"][0]


def test_a_sequence_has_as_many_items_as_a_constructor_indexes():
    body = (
        "class Model(nn.Module):\n    def __init__(self, inplanes, outplanes, dilat, scales=4):\n"
        "        super().__init__()\n        width = inplanes // scales\n        self.scales = scales\n"
        "        self.convs = nn.ModuleList([\n"
        "            nn.Conv2d(width, width, 3, dilation=dilat[i], padding=dilat[i]) for i in range(scales)\n"
        "        ])\n        self.out = nn.Conv2d(inplanes, outplanes, 1)\n\n"
        "    def forward(self, x):\n        parts = torch.chunk(x, self.scales, 1)\n"
        "        return self.out(torch.cat([conv(part) for conv, part in zip(self.convs, parts)], 1))\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == 4


def test_a_default_stands_for_a_name_that_an_example_does_not_bind():
    body = (
        "class Model(nn.Module):\n    def __init__(self, width, share=0.01):\n        super().__init__()\n"
        "        self.layer, self.share = nn.Linear(width, width), share\n\n"
        "    def forward(self, x):\n        return self.layer(x) * self.share\n"
    )
    example = {"init": ["8", "share"], "init_keywords": [], "inputs": [], "input_keywords": [], "evidence": "file"}
    assert search(body, [example])["init"][1] == "0.01"


def test_shares_stand_for_numbers_of_which_there_is_no_logarithm():
    body = "class Model(nn.Module):\n    def forward(self, p):\n        return torch.log(p) - torch.log1p(-p)\n"
    found = search(body)
    assert found["inputs"][0].startswith("torch.rand("), found
    assert run(body, found).isfinite().all()


def test_a_sequence_of_sequences_gets_more_items():
    error = "IndexError: tuple index out of range"
    attempt = Attempt(("((1, 3), (1, 3))",), ())
    found = [one.init[0] for one in repair(attempt, error, "", Parameters((), (), Facts(), ""))]
    assert "((1, 3), (1, 3), (1, 3), )" in found


def test_a_failure_inside_a_part_is_corrected_before_one_at_its_call():
    near, far = Result(False, stage="forward", place=(12,)), Result(False, stage="forward", place=(12, 4))
    waiting = _Repaired()
    waiting.push(Attempt(("1",), ()), near, 0)
    waiting.push(Attempt(("2",), ()), far, 5)
    assert waiting.pop().init == ("2",)


def test_widths_that_no_input_has_are_those_of_published_models():
    found = search(
        "class Model(nn.Module):\n    def __init__(self, dim, hidden_dim):\n        super().__init__()\n"
        "        self.up, self.down = nn.Linear(dim, hidden_dim + 1), nn.Linear(hidden_dim + 1, dim)\n\n"
        "    def forward(self, x):\n        return self.down(self.up(x).relu())\n"
    )
    assert min(map(int, found["init"])) >= 256


def test_features_grow_though_a_sequence_is_as_long_by_accident():
    found = search(
        "class Model(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.proj = nn.Conv1d(dim, dim, 1)\n\n    def forward(self, x):\n        return self.proj(x)\n"
    )
    assert int(found["init"][0]) >= 256


def test_no_size_is_smaller_than_one_that_is_to_shrink():
    assert all(smaller < size for size in range(2, 400) for smaller in _smaller(size))


def test_a_function_that_the_constructor_calls_with_two_sizes_is_a_layer():
    found = search(
        "from typing import Callable\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self, dim, make: Callable):\n        super().__init__()\n"
        "        self.net = make(dim, dim)\n\n    def forward(self, x):\n        return self.net(x)\n"
    )
    assert found["init"][1] == "nn.Linear"
