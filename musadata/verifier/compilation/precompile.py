"""Precompiling the headers with which candidates begin."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from musadata.errors import MusadataError, Outage
from musadata.verifier.compilation.host_toolchain import Toolchain, run_tool

PLUGIN = Path(__file__).with_name("instantiate.cpp")
_INSTANTIATE = "#pragma musadata instantiate\n"  # without the plugin it means nothing


def precompile(toolchain: Toolchain, text: str, flags: Sequence[str], folder: Path) -> None:
    """Write `text` to the header prelude.h in `folder` and precompile it.

    GCC leaves the templates that a precompiled header uses uninstantiated, and instantiates them in every compilation
    that includes it: that was 0.16 of 0.5 CPU seconds for a candidate, and 7 of 12 with PyTorch's own headers. So they
    are instantiated here, by a plugin; a compiler that does not take it precompiles the header as it would by itself.

    Raises:
        MusadataError: the compiler cannot build the header.
        Outage: the machine fails under it, which says nothing about the plugin.
    """
    header = folder / "prelude.h"
    header.write_text(text + _INSTANTIATE)
    command: list[str | Path] = [toolchain.compiler, *flags, "-x", "c++-header", header, "-o", f"{header}.gch"]
    plugin = folder / "instantiate.so"
    try:
        run_tool([toolchain.compiler, "-shared", "-fPIC", PLUGIN, "-o", plugin], PLUGIN.name)
        run_tool([*command, f"-fplugin={plugin}"], header.name)
    except Outage:
        raise
    except MusadataError:
        run_tool(command, header.name)
    else:
        if not _is_used(toolchain, header, flags):
            run_tool(command, header.name)
    finally:
        plugin.unlink(missing_ok=True)


def _is_used(toolchain: Toolchain, header: Path, flags: Sequence[str]) -> bool:
    """Whether the compiler takes the precompiled form of `header` when it has no plugin."""
    command = [toolchain.compiler, *flags, "-H", "-fsyntax-only", "-include", header, "-x", "c++", os.devnull]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, errors="replace", check=False
    )
    return done.returncode == 0 and f"! {header}.gch" in done.stderr
