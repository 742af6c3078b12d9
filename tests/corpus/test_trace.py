"""The facts about a reference from the command line."""

import json

import pytest

from musadata.commands.cli import main

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(16, 40)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_a_reference_is_traced_on_several_shapes(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    assert main(["trace", str(tmp_path / "reference.py"), "--json"]) == 0
    traces = json.loads(capsys.readouterr().out)
    assert len(traces) == 2 and traces[0]["inputs"][0]["shape"] == [16, 40]
    assert main(["trace", str(tmp_path / "reference.py")]) == 0
    assert "aten._softmax.default" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_no_reference_is_one_line(tmp_path, capsys):
    (tmp_path / "reference.py").write_text("x = 1")
    assert main(["trace", str(tmp_path / "reference.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), (b"\xff\xfe\x00", "is not UTF-8 text")])
def test_what_is_no_text_file_is_one_line(tmp_path, content, said, capsys):
    if content is not None:
        (tmp_path / "reference.py").write_bytes(content)
    assert main(["trace", str(tmp_path / "reference.py")]) == 2
    assert f"reference.py: {said}" in capsys.readouterr().err
