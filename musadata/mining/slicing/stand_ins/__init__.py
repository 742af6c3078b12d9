"""A few things, written anew, that much public code takes from packages which a reference may not import.

Each text stands for a module of that name in trees that do not hold the package itself. Of 303 classes of
External-Attention-pytorch 106 needed `DropPath`, `to_2tuple` or `trunc_normal_` of timm; of 204 of
flash-fft-conv 22 needed opt_einsum's `contract`.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path


@cache
def _texts() -> dict[str, str]:
    files = sorted(Path(__file__).parent.glob("*.txt"))
    return {f"{file.stem.replace('.', '/')}.py": file.read_text(encoding="utf-8") for file in files}


def stand_ins(paths: Collection[str]) -> dict[str, str]:
    """Path -> text of the modules that stand in for packages of which a tree of these paths holds nothing."""
    held = {part.removesuffix(".py") for path in paths for part in path.split("/")}
    return {path: text for path, text in _texts().items() if path.split("/")[0].removesuffix(".py") not in held}
