"""Decorators that need a package which references may not import, and hand on what a function returns."""

import pytest

from musadata.mining.search import search_and_prune
from musadata.mining.slicing.imports import forbidden_imports, without_absent_decorators

HEAD = "import functools\nimport torch\nfrom pydantic import BaseModel, create_model\nfrom torch import nn\n\n\n"
CHECKED = """\
class Base(BaseModel):
    class Config:
        allowed = True


def checked(base=None):
    def decorate(function):
        fields = create_model(function.__name__, __config__=Base.Config)

        @functools.wraps(function)
        def wrapper(self, *given, **named):
            fields(**named)
            {result}

        return wrapper

    return decorate


"""
MODEL = """\
{of_class}
class Model(nn.Module):
    {decorator}
    def __init__(self, size: int = 8):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        return self.layer(x){rest}
"""
HANDED_ON = "return function(self, *given, **named)"


def source(decorator: str, result: str = HANDED_ON, of_class: str = "", rest: str = "") -> str:
    model = MODEL.format(decorator=decorator, of_class=of_class, rest=rest)
    return HEAD + CHECKED.replace("{result}", result) + model.lstrip()


@pytest.mark.parametrize(
    "text",
    [source("@checked()"), source("@checked(\n        base=None,\n    )"), source("", of_class="@create_model")],
    ids=["own", "several lines", "of the package, on a class"],
)
def test_a_module_runs_without_a_decorator_that_needs_the_package(text):
    found = search_and_prune(text, "M", [], "")
    assert "reason" not in found, found
    assert not forbidden_imports(found["definitions"])
    assert "checked" not in found["definitions"] and "create_model" not in found["definitions"]


def test_what_is_lacking_without_the_decorator_is_told():
    found = search_and_prune(source("@checked()", rest=" + torch.eye(3, 5) @ torch.eye(4)"), "M", [], "")
    assert found["reason"] == "shapes_disagree"


@pytest.mark.parametrize(
    "result",
    [
        "return function(self, *given, **named).half()",
        "out = function(self, *given)\n            return out + 1",
        "out = function(self, *given)\n            out = out * 2\n            return out",
    ],
)
def test_a_decorator_that_changes_what_is_returned_stays(result):
    text = source("@checked()", result)
    assert without_absent_decorators(text) == text


def test_a_result_that_is_only_kept_for_a_moment_is_handed_on():
    text = source("@checked()", "out = function(self, *given)\n            fields()\n            return out")
    assert "    @checked()" not in without_absent_decorators(text)


@pytest.mark.parametrize("decorator", ["@functools.lru_cache(None)", "@plain"])
def test_a_decorator_that_needs_no_package_stays(decorator):
    text = source(decorator).replace("class Base", "def plain(function):\n    return function\n\n\nclass Base")
    assert without_absent_decorators(text) == text


def test_a_kernel_that_is_launched_keeps_its_decorator():
    text = f"{HEAD}@create_model\ndef kernel(x):\n    pass\n\n\ndef launch(x):\n    kernel[(1,)](x)\n"
    assert without_absent_decorators(text) == text
