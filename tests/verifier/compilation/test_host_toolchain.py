"""Compilers on sources of ours: what the machine ends is tried again, and is then an outage, never the sources' own."""

import subprocess

import pytest

from musadata.errors import MusadataError, Outage
from musadata.verifier.compilation import contained_run
from musadata.verifier.compilation.host_toolchain import find_toolchain, run_tool


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    monkeypatch.setattr(contained_run, "PAUSE_SECONDS", (0.0, 0.0, 0.0))


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def test_compiler_that_is_killed_once_is_run_again(tmp_path):
    run_tool(shell(f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; kill -9 $$"), "a.cpp")
    run_tool(
        shell(
            f"test -e {tmp_path}/third && exit 0; touch {tmp_path}/third;"
            "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"
        ),
        "a.cpp",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"again", "third"}  # both were run before they succeeded


def test_compiler_that_is_always_killed_is_an_outage():
    with pytest.raises(Outage, match="killed from outside"):
        run_tool(shell("kill -9 $$"), "a.cpp")


def test_full_disk_is_an_outage():
    with pytest.raises(Outage, match="no space left"):
        run_tool(shell("echo 'as: a.o: No space left on device' >&2; exit 1"), "a.cpp")


def test_sources_that_do_not_compile_are_a_fault_of_the_installation():
    with pytest.raises(MusadataError, match=r"a\.cpp: cannot be built") as raised:
        run_tool(shell("echo 'a.cpp:1: error: no such thing' >&2; exit 1"), "a.cpp")
    assert not isinstance(raised.value, Outage)


def test_library_exports_nothing_of_a_static_standard_library(tmp_path):
    source, library, toolchain = tmp_path / "own.cpp", tmp_path / "own.so", find_toolchain()
    source.write_text(
        '#include <sstream>\nextern "C" long own(long x) { std::ostringstream s; s << x; return s.tellp(); }'
    )
    flags = ["-shared", "-fPIC", "-static-libstdc++", *toolchain.linker_flags, *toolchain.library_flags]
    run_tool([toolchain.compiler, source, "-o", library, *flags], "own.so")
    shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert " T own" in shown and "ostringstream" not in shown and "_ZNSo" not in shown
