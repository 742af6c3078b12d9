"""What is left of a reference when what its own arguments never run is taken out."""

import ast
import textwrap
from dataclasses import asdict

import pytest

from musadata.config import SourceConfig, SourceType, TasksConfig
from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.miner import Miner
from musadata.mining.pruning.execution_watch import Log, instrument, paths_of
from musadata.mining.pruning.proving import other_shapes, prune_and_prove
from musadata.mining.pruning.survey import Survey
from musadata.mining.search import search_and_prune
from musadata.mining.slicing.evidence import Example
from musadata.records import Draft, Task
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.tasks.probe import PRELOAD, probe

HEAD = "import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
INPUT = (Draw("randn", (4, 6)),)


def pruned(body: str, *init: str, draws: tuple[Draw, ...] = INPUT) -> str:
    source = HEAD + textwrap.dedent(body).strip("\n") + "\n"
    return prune_and_prove(source, Attempt(init, draws)).source


def model(forward: str, init: str = "pass", signature: str = "self", top: str = "", arguments: str = "self, x") -> str:
    """A `Model` with the given bodies."""
    lines = [
        *textwrap.dedent(top).strip("\n").splitlines(),
        "class Model(nn.Module):",
        f"    def __init__({signature}):",
        "        super().__init__()",
        *textwrap.indent(textwrap.dedent(init).strip("\n"), " " * 8).splitlines(),
        "",
        f"    def forward({arguments}):",
        *textwrap.indent(textwrap.dedent(forward).strip("\n"), " " * 8).splitlines(),
    ]
    return "\n".join(lines)


def test_methods_functions_and_imports_that_never_run_go():
    text = pruned("""
        def load_pretrained(path):
            return torch.load(path)

        class Model(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.linear = nn.Linear(width, width)
                self.apply(self._init_weights)

            def _init_weights(self, module):
                if isinstance(module, nn.Linear):
                    nn.init.ones_(module.weight)

            def reset_classifier(self, path):
                self.load_state_dict(load_pretrained(path))

            def forward(self, x):
                return self.linear(x)
    """, "6")  # fmt: skip
    assert "reset_classifier" not in text
    assert "load_pretrained" not in text
    assert "import math" not in text
    assert "_init_weights" in text


def test_a_branch_that_the_constructor_decides_goes_with_its_condition_and_the_flag_behind_it():
    text = pruned(
        model(
            """
            x = self.linear(x)
            if self.norm is not None:
                x = self.norm(x)
            return x
            """,
            """
            self.linear = nn.Linear(width, width)
            # Only large models have one.
            if use_norm:
                self.norm = nn.LayerNorm(width)
            else:
                self.norm = None
            """,
            "self, width, use_norm=False",
        ),
        "6",
    )
    assert text.partition("class ")[2] == textwrap.dedent("""\
        Model(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.linear = nn.Linear(width, width)

            def forward(self, x):
                x = self.linear(x)
                return x
    """)


def test_a_constructor_argument_that_nothing_reads_any_more_is_no_longer_given():
    body = model("return F.relu(x) * self.scale", "self.scale = 2.0 if large else 3.0", "self, large")
    left = prune_and_prove(HEAD + body + "\n", Attempt(("False",), INPUT))
    assert left.attempt.init == ()
    assert "def __init__(self):" in left.source
    assert "self.scale = 3.0" in left.source


@pytest.mark.parametrize(
    "forward",
    [
        "if x.shape[0] > 100:\n    x = x * 2\nreturn F.relu(x)",
        "if x.sum() > 1e6:\n    x = x * 2\nreturn F.relu(x)",
        "pad = (3 - x.shape[1] % 3) % 3\nif pad:\n    x = F.pad(x, (0, pad))\nreturn F.relu(x)",
        "y = F.relu(x)\nreturn y[:100] if len(x) > 100 else y",
        "if self.rows != len(x):\n    self.rows = len(x)\nreturn F.relu(x) * self.rows",
        "return self.helper(x, x.shape[0] > 100)",
        "f = lambda n: 2 if n > 100 else 1\nreturn F.relu(x) * f(len(x))",
    ],
)
def test_a_branch_that_inputs_decide_stays_even_if_it_was_never_taken(forward):
    helper = "\n    def helper(self, x, large):\n        if large:\n            x = x * 2\n        return F.relu(x)\n"
    body = model(forward, "self.rows = 4") + (helper if "helper" in forward else "")
    left = [part for part in ("x = x * 2", "F.pad", "y[:100]", "self.rows = len(x)", "2 if n") if part in body]
    text = pruned(body)
    assert left
    assert all(part in text for part in left)


def test_what_only_such_a_branch_calls_stays():
    text = pruned(
        model(
            "if x.shape[0] > 100:\n    x = self.shrink(x)\nreturn F.relu(x)",
            top="def halve(x):\n    return x / 2\n\n\n",
        )
        + "\n\n    def shrink(self, x):\n        return halve(x)\n"
    )
    assert "def shrink" in text
    assert "def halve" in text


def test_a_forward_that_only_such_a_branch_calls_stays():
    top = """
        class Halve(nn.Module):
            def forward(self, x):
                return x / 2

    """
    forward = "if x.shape[0] > 100:\n    x = self.halve(x)\nreturn F.relu(x)"
    text = pruned(model(forward, "self.halve = Halve()\nself.never = 1", top=top))
    assert "return x / 2" in text
    assert "never" not in text


def test_an_argument_that_is_never_given_decides_its_branch():
    text = pruned(
        model("if mask is not None:\n    x = x.masked_fill(mask, 0)\nreturn F.relu(x)", arguments="self, x, mask=None")
    )
    assert "mask" not in text


def test_what_only_training_does_goes_and_dropout_stays():
    text = pruned(
        model(
            "if self.training:\n    x = x + torch.randn_like(x)\nreturn F.dropout(F.relu(x), 0.5, self.training)",
        )
    )
    assert "randn_like" not in text
    assert "F.dropout(F.relu(x), 0.5, self.training)" in text


def test_a_chain_of_conditions_leaves_what_was_chosen():
    chain = """
        if kind == "relu":
            self.act = nn.ReLU()
        elif kind == "gelu":
            self.act = nn.GELU()
        else:
            raise ValueError(kind)
    """
    for kind, other in (("relu", "GELU"), ("gelu", "ReLU")):
        text = pruned(model("return self.act(x)", chain, "self, kind"), repr(kind))
        assert "if" not in text
        assert "raise" not in text
        assert other not in text


def test_of_a_condition_only_what_is_not_settled_is_asked():
    text = pruned(model("if self.strict and len(x) > 100:\n    return x\nreturn F.relu(x)", "self.strict = True"))
    assert "if len(x) > 100:" in text
    assert "strict" not in text


def test_entries_of_a_table_that_are_never_looked_up_are_removed_with_what_they_name():
    top = """
        class Swish(nn.Module):
            def forward(self, x):
                return x * torch.sigmoid(x)

        class Mish(nn.Module):
            def forward(self, x):
                return x * torch.tanh(F.softplus(x))

        LAYERS = dict(
            swish=Swish,
            mish=Mish,
        )
    """
    text = pruned(model("return self.act(x)", "self.act = LAYERS[kind]()", "self, kind='mish'", top))
    assert "mish=Mish" in text
    assert "wish" not in text


def test_the_device_of_an_input_stays_where_tensors_are_made_on_it():
    top = """
        def steps(count, device):
            return torch.arange(count, device=device)

    """
    text = pruned(model("device = x.device\nreturn x * steps(x.shape[1], device=device)", top=top))
    assert "torch.arange(count, device=device)" in text
    assert "steps(x.shape[1], device=device)" in text


def test_a_table_is_cut_even_if_something_that_goes_had_looked_at_all_of_it():
    top = """
        LAYERS = {
            "relu": nn.ReLU,
            "gelu": nn.GELU,
        }
        KINDS = sorted(LAYERS)

    """
    text = pruned(model("return self.act(x)", "self.act = LAYERS[kind]()", "self, kind='relu'", top))
    assert '"relu": nn.ReLU' in text
    assert "GELU" not in text


def test_a_call_that_loses_all_its_arguments_over_several_lines_keeps_its_parentheses():
    top = """
        def scale(
                device=None,
                dtype=None,
        ):
            return 2.0

    """
    init = "self.scale = scale(\n    device=device,\n    dtype=dtype,\n)"
    text = pruned(model("return F.relu(x) * self.scale", init, "self, device=None, dtype=None", top))
    assert "self.scale = scale()\n" in text


def test_a_function_whose_name_is_only_that_of_an_attribute_or_an_argument_goes():
    top = """
        def drop_path(x):
            return x

    """
    init = "self.drop_path = nn.Identity() if drop_path else nn.ReLU()"
    text = pruned(model("return self.drop_path(x)", init, "self, drop_path=0.0", top))
    assert "def drop_path" not in text
    assert "self.drop_path = nn.ReLU()" in text


def test_texts_over_several_lines_keep_their_spaces():
    text = pruned(
        model(
            "return F.relu(x) * self.scale",
            'if wide:\n    self.scale = len("""a\n      b""")\nelse:\n    self.scale = 1',
            "self, wide=True",
        )
    )
    assert 'self.scale = len("""a\n' in text


def test_comments_and_layout_of_what_stays_are_the_authors():
    body = model("# Keeps the sign.\ny = F.relu( x )  # not x\nreturn y", "if wide:\n    pass", "self, wide=False")
    text = pruned(body)
    assert "        # Keeps the sign.\n        y = F.relu( x )  # not x\n" in text


def test_a_reference_that_runs_all_of_itself_is_left_as_it_is():
    body = "class Model(nn.Module):\n    def forward(self, x):\n        return F.relu(x)\n"
    source = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n" + body
    assert prune_and_prove(source, Attempt((), INPUT)).source == source


def test_what_does_not_behave_the_same_without_its_parts_is_left_as_it_is():
    # Looks at its own code: without the method that never runs it is another module.
    body = model("return F.relu(x) * len(dir(type(self)))") + "\n\n    def never(self):\n        return 1\n"
    assert "def never" in pruned(body)


def test_the_same_input_gives_the_same_text():
    body = model("return self.act(x)", "self.act = nn.ReLU() if kind else nn.GELU()", "self, kind=True")
    assert pruned(body) == pruned(body)


def test_instrumented_code_tells_conditions_and_loops():
    source = textwrap.dedent("""\
        def pick(n):
            for _ in range(n): pass
            if n > 1 and n < 9: return [i for i in range(n)]
            elif not n:
                return "é" if n else None
            return n

        pick(0); pick(5)
        """)
    survey = Survey(ast.parse(source))
    log = Log(paths_of(survey))
    exec(instrument(source, survey), log.space())
    seen = {ast.unparse(site).split(":")[0]: log.outcomes.get(number) for number, site in enumerate(survey.sites)}
    assert seen == {
        "for _ in range(n)": {False, True},
        "n > 1 and n < 9": {False, True},
        "n > 1": {False, True},
        "n < 9": {True},
        "not n": {True},
        "n": {False},
    }


def test_other_shapes_change_equal_sizes_together():
    attempt = Attempt(("6",), (Draw("randn", (4, 6)), Draw("randn", (6,))))
    assert [[draw.shape for draw in one.draws] for one in other_shapes(attempt)] == [[(6, 6), (6,)], [(4, 8), (8,)]]
    large = [[draw.shape for draw in one.draws] for one in other_shapes(attempt, 32)]
    assert large == [[(128, 6), (6,)], [(4, 192), (192,)]]


PACKAGE = '''
import torch
from torch import nn


class Gate(nn.Module):
    """Scales channels by what a small network makes of their means."""

    def __init__(self, dim, ratio=4, norm_layer=None, bias=True, device=None, dtype=None):
        super().__init__()
        dd = {"device": device, "dtype": dtype}
        self.ratio = ratio
        self.reduce = nn.Linear(dim, dim, bias=bias, **dd)
        self.norm = norm_layer(dim) if norm_layer is not None else None
        if ratio > 100:
            raise ValueError(ratio)

    def set_ratio(self, ratio):
        self.ratio = ratio

    def forward(self, x):
        gate = self.reduce(x)
        if self.norm is not None:
            gate = self.norm(gate)
        return x * gate.sigmoid()
'''


def test_a_mined_module_is_pruned_in_the_sandbox_and_passes_the_probe(tmp_path):
    (tmp_path / "gate.py").write_text(PACKAGE)
    source = open_source(SourceConfig(SourceType.DIRECTORY, path=str(tmp_path), license="MIT"), seed=1)
    miner = Miner(source)
    with Sandbox(preload=PRELOAD) as sandbox:
        [draft] = [item for unit in source.units() for item in miner.drafts(unit, sandbox)]
        assert isinstance(draft, Draft)
        task = probe(draft, TasksConfig(decontaminate=()), sandbox, seed=0)
    assert isinstance(task, Task)
    assert task.reference.partition("def get_inputs")[0] == textwrap.dedent('''\
        import torch
        from torch import nn


        class Model(nn.Module):
            """Scales channels by what a small network makes of their means."""

            def __init__(self, dim, bias=True):
                super().__init__()
                self.reduce = nn.Linear(dim, dim, bias=bias)

            def forward(self, x):
                gate = self.reduce(x)
                return x * gate.sigmoid()


        ''')


def test_texts_of_an_enum_with_its_own_representation_are_no_obstacle():
    top = """
    from enum import Enum


    class Mode(str, Enum):
        NEAREST = "nearest"
        LINEAR = "linear"

        def __repr__(self):
            return self.value
    """
    forward = """
    if self.mode == Mode.LINEAR:
        return x * 2
    return x + 1
    """
    text = pruned(model(forward, "self.mode = mode", "self, mode=Mode.NEAREST", top))
    assert "x * 2" not in text and "x + 1" in text


IDLE = """
class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def _forward(self, x):
        return x * self.scale * 2

    def forward(self, x):
        return torch.cat([self._forward(x)], 1)


class Doubled(Branch):
    def forward(self, x):
        return x * self.scale{more}


class Other(nn.Module):
    def _forward(self, x):
        return x + 1

    def forward(self, x):
        return self._forward(x)
"""


@pytest.mark.parametrize("more", ["", " + super().forward(x)", " + self._forward(x)"])
def test_methods_that_subclasses_override_go_unless_something_names_them(more):
    init = "self.first = Doubled()\nself.second = Other()"
    text = pruned(model("return self.second(self.first(x))", init, top=IDLE.format(more=more)))
    assert ("torch.cat" in text) == ("forward(x)" in more and "_" not in more)
    assert ("self.scale * 2" in text) == bool(more)
    assert "x + 1" in text


OPTIMIZER = """
class optim:  # torch's own takes a second to load
    class Adam:
        def __init__(self, params, lr):
            self.params = list(params)

        def zero_grad(self):
            pass
"""


@pytest.mark.parametrize(("stepped", "left"), [("", False), ("self.optimizer.zero_grad()\n", True)])
def test_optimizers_that_nothing_reads_go(stepped, left):
    init = "self.linear = nn.Linear(6, 6)\nself.optimizer = optim.Adam(self.linear.parameters(), lr=float(lr))"
    text = pruned(model(stepped + "return self.linear(x)", init, "self, lr", OPTIMIZER), "0.1")
    assert ("optim" in text) == left


HANDED_ON = """
class Master:
    def __init__(self, callback):
        self.callback = callback

    def run(self, x):
        return self.callback(x)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.master = Master(self._reduce)

    def _reduce(self, x):
        return x + 7.5

    def __replicated__(self, x):
        return self.master.run(x)

    def forward(self, x):
        return {forward}
"""


@pytest.mark.parametrize(("forward", "left"), [("x * self.scale", False), ("self.master.run(x) * self.scale", True)])
def test_a_method_that_is_handed_on_and_never_entered_goes_with_what_holds_it(forward, left):
    text = pruned(model("return self.norm(x)", "self.norm = Norm()", top=HANDED_ON.format(forward=forward)))
    assert ("class Master" in text) == ("7.5" in text) == left
    assert "__replicated__" not in text


def test_what_only_several_processes_do_goes():
    top = """
        from torch import distributed

        def get_world_size():
            if not distributed.is_available():
                return 1
            if not distributed.is_initialized():
                return 1
            return distributed.get_world_size()

        def spread(x):
            return x - x.mean()
    """
    text = pruned(model("if get_world_size() == 1:\n    return x + 1\nreturn spread(x)", top=top))
    assert "spread" not in text


def test_of_very_many_later_assignments_those_that_something_reads_stay():
    settings = "\n".join(f"cfg.unread_{number} = {number}" for number in range(150))
    top = (
        f"from types import SimpleNamespace\n\ncfg = SimpleNamespace()\ncfg.scale = 3.0\n{settings}\ncfg.shift = 1.0\n"
    )
    text = pruned(model("return x * cfg.scale + cfg.shift", top=top))
    assert "cfg.scale = 3.0" in text and "cfg.shift = 1.0" in text and "unread" not in text


LAYERS = """
class Scale(nn.Module):
    def forward(self, x):
        return x * 2

class Shift(nn.Module):
    def forward(self, x):
        return helper(x)

def helper(x):
    return x + 1
"""


def test_a_condition_on_what_the_model_holds_goes_with_its_branch():
    left = pruned(
        model(
            """
            if not self.is_ready:
                x = x + 1
            return x * 2
            """,
            "self.register_buffer('is_ready', torch.ones(()))",
        )
    )
    assert "x + 1" not in left


@pytest.mark.parametrize(("limit", "is_lost"), [(8000, True), (2, False)])
def test_a_reference_of_which_most_statements_never_run_is_none(limit, is_lost):
    rare = "\n".join(f"    x = x * {number}" for number in range(2, 9))
    source = HEAD + model(f"if x.shape[-1] > {limit}:\n{rare}\nreturn F.relu(x)") + "\n"
    example = asdict(Example(inputs=("torch.randn(4, 6)",)))
    assert (search_and_prune(source, "Model", [example], "").get("reason") == "mostly_unrun") is is_lost


@pytest.mark.parametrize(("made", "stays"), [("Criterion(kind)", False), ("settle(Criterion(kind))", True)])
def test_what_a_function_makes_and_nothing_reads_goes_where_the_model_does_not_change(made, stays):
    top = f"""
        class Criterion(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.kind = kind

        def settle(module):
            torch.manual_seed(5)
            return module

        def build_loss(kind):
            return {made}
    """
    left = pruned(model("return self.f(x)", "self.loss = build_loss('mse')\nself.f = nn.Linear(6, 4)", top=top) + "\n")
    assert ("build_loss" in left) is stays
    assert "nn.Linear(6, 4)" in left


def test_inner_functions_without_a_use_go_and_so_does_what_binds_a_name_to_itself():
    init = "def zero(x):\n    return x * 0\n\ndef one(x):\n    return x + 1\n\nself.f = one"
    left = pruned(model("x = x\nreturn self.f(x)", init) + "\n")
    assert "zero" not in left
    assert "def one" in left
    assert "x = x\n" not in left


def test_a_pair_that_is_computed_from_itself_is_not_taken_for_overwritten():
    forward = "row, column = x[0], x[1]\nrow, column = torch.sin(row), torch.cos(column)\nreturn row + column"
    text = pruned(model(forward, top="def unused():\n    pass\n\n"))
    assert "row, column = x[0], x[1]" in text and "unused" not in text
