"""Programs come out of replies of every form, and where there is none the reason is one clear sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.verifier.extract import MAX_CHARACTERS, extract

PROGRAM = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
NESTED = 'DOC = """\n```\nusage\n```\n"""\n' + PROGRAM


@pytest.mark.parametrize(
    "reply",
    [
        PROGRAM,
        f"Here it is:\n\n```python\n{PROGRAM}```\n\nDone.",
        f"```py\n{PROGRAM}```",
        f"```\n{PROGRAM}```",
        f"~~~python\n{PROGRAM}~~~",
        f"````markdown\ntext\n````\n```python\n{PROGRAM}```",
        f"First try:\n```python\nclass Old: pass\n```\nBetter:\n```python\n{PROGRAM}```",
        f"```cpp\nint x;\n```\n```python\n{PROGRAM}```",
        f"<think>```python\nclass ModelNew: draft\n```</think>\n```python\n{PROGRAM}```",
        "```python\r\n" + PROGRAM.replace("\n", "\r\n") + "```",
        "\ufeff" + PROGRAM,
    ],
)
def test_program_is_found(reply):
    found = extract(reply)
    assert found.finding is None
    assert found.source.strip() == PROGRAM.strip()


def test_last_of_several_programs_counts():
    second = PROGRAM.replace("return x", "return x + 0")
    assert extract(f"```python\n{PROGRAM}```\nNo, rather:\n```python\n{second}```").source == second


def test_program_in_several_blocks_is_joined():
    head, tail = PROGRAM.split("\n\n\n")
    reply = f"Imports:\n```python\n{head}\nimport math\n```\nModel:\n```python\nK = math.pi\n```\n```python\n{tail}```"
    assert "class ModelNew" in extract(reply).source


def test_fences_inside_a_string_do_not_end_the_program():
    assert extract(f"```python\n{NESTED}```").source == NESTED


def test_line_says_where_the_program_starts_in_the_reply():
    assert extract(f"one\ntwo\n```python\n{PROGRAM}```").line == 4


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("", "extract.unreadable"),
        ("  \n", "extract.unreadable"),
        ("\0" * 100, "extract.unreadable"),
        ("x" * (MAX_CHARACTERS + 1), "extract.unreadable"),
        ("\ud800", "extract.unreadable"),
        ("I cannot do that.", "extract.no_code"),
        ("```python\nclass Model: pass\n```", "extract.no_model"),
        ("```python\nclass ModelNew(:\n```", "extract.syntax"),
        (f"```python\n{PROGRAM}", "extract.truncated"),
        ("```python\nclass ModelNew:\n    def forward(self, x):\n        return (x", "extract.truncated"),
        ("```cpp\nstruct ModelNew {};\n```", "extract.no_model"),
        ("```python\nsource = 'cut off before the class", "extract.truncated"),
        ("<think>a ModelNew would need", "extract.truncated"),
        ('class ModelNew:\n    source = """\n__global__ void k() {', "extract.truncated"),
        ("class ModelNew:\n    def forward(self, x):\n        return (x", "extract.truncated"),
        ("class ModelNew:\n    x = (1\n" + "y = 2\n" * 20, "extract.syntax"),
    ],
)
def test_reason_is_named_where_there_is_no_program(reply, rule):
    found = extract(reply)
    assert found.source == "" or rule == "extract.truncated"
    if found.finding is None:  # a block that only lacks its closing fence may still be whole
        assert rule == "extract.truncated"
        assert found.source.strip() == PROGRAM.strip()
    else:
        assert found.finding.rule == rule


@given(st.text(alphabet="`~ \npythonModelNew(class):", max_size=200))
def test_no_reply_makes_extraction_fail(reply):
    found = extract(reply)
    assert bool(found.source) != bool(found.finding)


def test_deeply_nested_program_is_refused_not_a_crash():
    assert extract("class ModelNew: pass\nx = " + "(" * 5000 + ")" * 5000).finding is not None
