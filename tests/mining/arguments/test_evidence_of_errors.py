"""Corrections that errors and the code around them ask for. The searched code is ours, so it runs in this process."""

import pytest
from test_argument_search import HEAD, run, search

from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.arguments.facts import Facts
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.arguments.repairs.repair import repair


def module(constructor, forward, parameters="", inputs="x"):
    return (
        f"class Model(nn.Module):\n    def __init__(self{parameters}):\n        super().__init__()\n"
        f"{constructor}\n\n    def forward(self, {inputs}):\n{forward}\n"
    )


HEADS = {
    "padding and pooling": ("self.c = nn.Conv2d(3, 8, 3)", "F.max_pool2d(self.c(x).relu(), 3, 2)", 8 * 9 * 9),
    "three strides": (
        "self.c = nn.Sequential(nn.Conv2d(3, 4, 5), nn.MaxPool2d(2), nn.Conv2d(4, 8, 5), nn.MaxPool2d(2))",
        "F.max_pool2d(self.c(x), 3, 2)",
        8 * 6 * 6,
    ),
}


@pytest.mark.parametrize("case", HEADS)
@pytest.mark.parametrize("flattened", [".flatten(1)", ".view(-1, {features})"])
def test_images_are_as_large_as_the_head_asks_for(case, flattened):
    layers, features, count = HEADS[case]
    body = module(
        f"        {layers}\n        self.head = nn.Linear({count}, 10)",
        f"        x = {features}\n        return self.head(x{flattened.format(features=count)})",
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).shape[-1] == 10


@pytest.mark.parametrize(
    ("constructor", "forward"),
    [
        ("self.c = nn.Conv1d(12, 8, 3)", "self.c(x.chunk(2, 1)[0])"),
        ("self.c = nn.Conv2d(3, 8, 3)", "self.c(x[:, :3]) + self.c(x[:, 3:])"),
        ("self.c = nn.Linear(40, 8)", "self.c(x[..., 1:])"),
    ],
)
def test_a_layer_that_meets_a_part_of_the_channels_tells_how_many_there_are(constructor, forward):
    body = module(f"        {constructor}", f"        return {forward}")
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_the_rank_of_an_input_changes_by_what_the_message_says_is_missing():
    body = module(
        "        self.embed = nn.Embedding(50, 24)\n        self.conv = nn.Conv1d(24, 8, 3)",
        "        return self.conv(self.embed(words).permute(0, 2, 1))",
        inputs="words",
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == 3


def test_a_decoder_step_gets_tokens_and_a_state_that_fit_each_other():
    body = module(
        "        self.embed = nn.Embedding(vocab_size, hidden_size)\n"
        "        self.rnn = nn.GRU(2 * hidden_size, hidden_size)",
        "        embedded = self.embed(word).unsqueeze(0)\n"
        "        return self.rnn(torch.cat([embedded, context.mean(0, keepdim=True)], 2), state)",
        parameters=", vocab_size, hidden_size",
        inputs="word, state, context",
    )
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_an_upsampled_image_joins_a_larger_one():
    body = module(
        "        self.up = nn.Upsample(scale_factor=2)\n        self.conv = nn.Conv2d(24, 8, 3)",
        "        x = self.up(x)\n        x = torch.cat([skip.relu(), x], dim=1)\n        return self.conv(x)",
        inputs="x, skip",
    )
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_the_argument_that_the_failing_line_indexes_becomes_a_sequence():
    body = module(
        "        self.a = nn.Linear(width, int(width * kept[index] / 10) + 1)\n        self.depth = depth",
        "        return self.a(x)",
        parameters=", width, depth, kept, index",
    )
    found = search(body)
    assert "reason" not in found, found
    assert found["init"][2].startswith("(")
    assert found["init"][0].isdigit()


def test_a_long_enough_sequence_is_found_where_a_counter_indexes_it():
    body = module(
        "        self.layers = nn.ModuleList([nn.Linear(24, widths[number]) for number in range(7)])",
        "        return [layer(x) for layer in self.layers]",
        parameters=", widths=None",
    )
    found = search(body)
    assert "reason" not in found, found
    assert found["init"][0].count(",") >= 7


def test_another_option_of_a_configuration_is_tried_where_the_first_one_fails():
    body = (
        "def swish(x):\n    return x * x.sigmoid()\n\n\nACTS = {'relu': nn.Softmax2d, 'swish': swish}\n\n\n"
        + module(
            "        self.act = ACTS[cfg.afn]\n        self.c = nn.Linear(cfg.n_embd, 8)",
            "        return self.act(self.c(x)).sum(-1)",
            parameters=", cfg",
        )
    )
    found = search(body)
    assert "afn='swish'" in found.get("init", [""])[0], found


def test_what_is_gathered_or_scattered_by_is_an_integer():
    for forward in ("torch.gather(x, 1, where)", "torch.zeros(40, 60).scatter(1, where, 1.0) @ x.new_ones(60, 3)"):
        found = search(module("        self.a = 1", f"        return {forward}", inputs="x, where"))
        assert "randint" in found.get("inputs", ["", ""])[1], found


def test_what_is_cast_to_long_beside_features_is_the_number_of_a_class():
    body = module(
        "        self.c = nn.Linear(24, classes)",
        "        hot = torch.zeros(x.size(0), self.c.out_features)\n"
        "        hot.scatter_(1, target.view(-1, 1).long(), 1)\n        return self.c(x) * hot",
        parameters=", classes",
        inputs="x, target",
    )
    found = search(body)
    assert "randint" in found.get("inputs", ["", ""])[1], found


# What is found by what a failure says: a constructor, what `forward` returns, and the parameters of both.
FITTED = {
    "channels of a normalization in groups": (
        "self.norm = nn.GroupNorm(32, width)",
        "self.norm(x) * torch.ones(1, x.size(1), 1, 1)",
        ", width",
        "x",
    ),
    "channels that a view takes apart, as many as places": (
        "pass",
        "x.view(x.size(0), 3, 7, x.size(2), x.size(2)).sum(1)",
        "",
        "x",
    ),
    "a signal in place of an image": (
        "pass",
        "F.pad(x.view(x.size(0), 1, x.size(-1)), (300, 300), 'reflect')",
        "",
        "x",
    ),
    "as many places as weights": (
        "self.key, self.places = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 100, 1)",
        "torch.bmm(self.key(x).flatten(2), self.places(x).flatten(2))",
        "",
        "x",
    ),
    "two sizes that one layer asks for": (
        "self.layer, self.norm = nn.Conv2d(1, 3, (3, 2), 2), nn.LayerNorm((3, 8, 9))",
        "self.norm(self.layer(x[:, :, 5:-5, 5:-5]))",
        "",
        "x",
    ),
    "a layer in place of its class": (
        "self.parts = [act]",
        "F.linear(self.parts[0](x), torch.ones(8, x.size(-1)))",
        ", act",
        "x",
    ),
    "an operator that only its copy is compared with": (
        "self._operator = str(operator)\\n        assert self._operator in ('+', '-')",
        "x + 1 if self._operator == '+' else x - 1",
        ", operator: str",
        "x",
    ),
    "the size of an image beside its features": ("pass", "x * (size / x.size(-1))", "", "x, target=None, size=None"),
    "pairs that a loop takes apart": (
        "self.sizes = [(a / 2, b / 2) for a, b in sizes]",
        "x * self.sizes[0][0]",
        ", sizes",
        "x",
    ),
}


@pytest.mark.parametrize("case", FITTED)
def test_inputs_and_arguments_fit_by_what_a_failure_says(case):
    constructor, forward, parameters, inputs = FITTED[case]
    body = module(f"        {constructor}".replace("\\n", "\n"), f"        return {forward}", parameters, inputs)
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_sizes_shrink_together_where_what_they_make_does_not_fit_in_memory():
    wide = Attempt(("24", "3"), (Draw("randn", (5, 18, 24)),))
    error = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 2894081280 bytes"
    first = next(repair(wide, error, "", Parameters([], [], Facts(), "")))
    assert (first.init, first.draws[0].shape) == (("12", "3"), (5, 9, 12))


def test_what_a_layer_gets_is_bounded():
    body = module("        self.layer = nn.ReLU()", "        return self.layer(x.expand(1 << 26, 3))")
    bench = AttemptRunner(HEAD + body, 240)
    bench.load()
    assert bench.attempt(Attempt((), (Draw("randn", (1, 3)),))).error == "TooLarge: too many activations"
    assert bench.tries > 10


def test_arguments_that_a_constructor_refuses_are_tried_once():
    body = module(
        "        assert width == 5, 'odd'\n        self.width = width", "        return x * self.width", ", width"
    )
    bench = AttemptRunner(HEAD + body, 240)
    bench.load()
    assert bench.attempt(Attempt(("24",), (Draw("randn", (2, 3)),))).stage == "init"
    assert bench.is_refused(("24",))
    assert not bench.is_refused(("5",))
    assert search(body)["tries"] < 40
