"""The command line fails in one line, starts fast, and needs torch for nothing that does not."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import musadata
from musadata.commands import cli
from musadata.commands.cli import COMMANDS, main
from musadata.errors import MusadataError


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert "usage: musadata " + command in capsys.readouterr().out


def test_the_console_command_and_the_module_are_the_same():
    project = tomllib.loads((Path(musadata.__file__).parent.parent / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["musadata"].partition(":")
    assert getattr(importlib.import_module(module), function) is main


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["query"], ["query", "x", "y", "--format", "pdf"]])
def test_wrong_usage_is_exit_code_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def raising(error: BaseException):
    def run(argv):
        raise error

    return run


def test_what_a_user_can_mend_is_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", raising(MusadataError("is\nbroken", where="file", remedy="mend it")))
    assert main([]) == 2
    assert capsys.readouterr().err == "musadata: file: is broken; mend it\n"


def test_an_interrupt_is_exit_code_130(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", raising(KeyboardInterrupt()))
    assert main([]) == 130


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr(cli, "_run", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main([])


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    command = (
        f"{sys.executable} -c \"from musadata.corpus.manifest import create_corpus; create_corpus('{tmp_path}/c')\" && "
        f"{sys.executable} -m musadata query {tmp_path}/c 'SELECT * FROM range(200000)' --format csv | head -1"
    )
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("range\n", "")


@pytest.mark.parametrize("module", ["musadata.commands.cli", "musadata.corpus.query", "musadata.commands.show"])
def test_nothing_heavy_is_imported_for_a_look_at_a_corpus(module):
    program = f"import sys, {module}; print([m for m in ('torch', 'apache_beam', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_musadata_never_imports_beam_nor_pipelines():
    for path in Path(musadata.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "import apache_beam" not in text and "from pipelines" not in text, path
