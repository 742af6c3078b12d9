"""Precompiled headers hold their templates instantiated, where the compiler can be made to do so."""

import subprocess
from pathlib import Path

import pytest

from musadata.errors import Outage
from musadata.verifier.compilation import precompile
from musadata.verifier.compilation.host_toolchain import find_toolchain

HEADER = """#pragma once
template <class T> T twice(T x) { return x + x; }
inline int four() { return twice(2); }
"""


def instantiated_later(folder: Path, unit: str = "") -> list[str]:
    """What the compiler instantiates or compiles of a unit that begins with the header."""
    (folder / "unit.cpp").write_text(unit)
    command = [find_toolchain().compiler, "-Q", "-c", "-include", "prelude.h", "unit.cpp"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.partition("Analyzing")[0].splitlines() if "twice" in line]


def test_templates_that_a_header_uses_are_not_instantiated_again(tmp_path):
    precompile.precompile(find_toolchain(), HEADER, [], tmp_path)
    assert instantiated_later(tmp_path) == []
    assert instantiated_later(tmp_path, "long six() { return twice(3l); }") != []


@pytest.mark.parametrize("plugin", ["not C++", "int plugin_is_GPL_compatible;"])
def test_compiler_that_does_not_take_the_plugin_precompiles_the_header_nevertheless(tmp_path, monkeypatch, plugin):
    source = tmp_path / "plugin.cpp"
    source.write_text(plugin)
    monkeypatch.setattr(precompile, "PLUGIN", source)
    precompile.precompile(find_toolchain(), HEADER, [], tmp_path)
    assert (tmp_path / "prelude.h.gch").is_file()
    assert instantiated_later(tmp_path) != []


def test_header_that_the_compiler_would_not_take_is_made_again_without_the_plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(precompile, "_is_used", lambda *_: False)
    precompile.precompile(find_toolchain(), HEADER, [], tmp_path)
    assert instantiated_later(tmp_path) != []


def test_outage_says_nothing_about_the_plugin(tmp_path, monkeypatch):
    asked = []

    def run_tool(command, what):
        asked.append(what)
        raise Outage("was killed from outside")

    monkeypatch.setattr(precompile, "run_tool", run_tool)
    with pytest.raises(Outage):
        precompile.precompile(find_toolchain(), HEADER, [], tmp_path)
    assert len(asked) == 1
