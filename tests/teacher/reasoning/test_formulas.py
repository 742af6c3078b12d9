"""The formulas of step 2, evaluated: what they give is what the reference computes."""

import itertools
import math
import re

import pytest
import torch

from musadata.config import TeacherConfig
from musadata.teacher.claims.steps import parse_steps
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.protocol import Request, RequestKind
from tests.tracing.examples import example, traces_of

_LINE = re.compile(r"- `(?P<made>[^=`]+)(?: = |` = (?:(?P<sign>\w+|Σ) over (?P<over>.+) of )?`)(?P<value>[^`]+)`")
_KNOWN = {"exp": math.exp, "log": math.log, "rsqrt": lambda x: x**-0.5, "tanh": math.tanh}
_KNOWN |= {"gelu": lambda x: x * (1 + math.erf(x / 2**0.5)) / 2}
_COMBINED = {"Σ": math.fsum, "max": max, None: lambda values: values[0]}


@pytest.fixture(scope="module")
def teacher():
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        yield teacher


def formulas(name, teacher):
    text = teacher.answer(Request(RequestKind.REASON, example(name), traces_of(name), ())).text
    text = next(step.text for step in parse_steps(text) if step.step == "scalar mathematics")
    return [line for line in text.splitlines() if re.match(r"- `\w+[\[` ]", line)]  # without those of functions


def evaluate(lines, point, tensors):
    """What the last line stores at a point of the kernel's loops."""
    known = _KNOWN | tensors | point
    value = math.nan
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match is not None, line
        ends = dict(re.findall(r"`(\w+) < (\d+)`", match["over"] or ""))
        code = compile(re.sub(r"(?<=[a-z])\.(?=[a-z])", "_", match["value"]), line, "eval")
        places = itertools.product(*(range(int(end)) for end in ends.values()))
        values = [eval(code, {}, known | dict(zip(ends, step, strict=True))) for step in places]
        value = _COMBINED[match["sign"]]([float(one) for one in values])
        known[match["made"]] = value
    return value


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("gelu_chain", ("row", "col")),
        ("linear", ("row", "col")),
        ("softmax", ("row", "col")),
        ("layer_norm", ("b", "row", "col")),
        ("matmul", ("row", "col")),
        ("embedding", ("b", "row", "col")),
        ("sum_of_products", ()),
    ],
)
def test_formulas_give_what_the_reference_computes(name, places, teacher):
    scope = {}
    exec(example(name).reference, scope)
    model = scope["Model"]()
    shapes = {spec.name: spec for spec in traces_of(name)[0].inputs}
    draw = torch.Generator().manual_seed(3)
    inputs = {
        one: torch.randint(int(spec.high), spec.shape, generator=draw)
        if spec.dtype == "int64"
        else torch.randn(spec.shape, generator=draw)
        for one, spec in shapes.items()
    }
    tensors = inputs | {one.replace(".", "_"): tensor.detach() for one, tensor in model.named_parameters()}
    expected = model(*inputs.values()).detach()
    lines = formulas(name, teacher)
    points = [tuple(size * part // 3 for size in expected.shape) for part in (0, 1, 2)]
    for point in points:
        found = evaluate(lines, dict(zip(places, point, strict=True)), tensors)
        assert found == pytest.approx(float(expected[point]), rel=1e-4, abs=1e-5)
