"""Reimplementations of a few functions that much public code imports from packages which references may not import.

Each text replaces the module of that name in trees that do not contain the package. Of 303 classes of
External-Attention-pytorch 106 needed `DropPath`, `to_2tuple` or `trunc_normal_` of timm; of 204 of flash-fft-conv 22
needed opt_einsum's `contract`; of 595 lost classes of 13 repositories 22 needed einops' `pack` and 7 packaging; of 22
of vector-quantize-pytorch 6 needed einops with computed patterns; of 38 of BLIP 8 needed timm's `PatchEmbed` or
transformers; of 149 of SegmenTron 40 needed six; of 30 of UNITER 12
needed apex' layer norm. Of 150 repositories 16 make windows by scipy, mostly with librosa.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

from musadata.sources.dependencies import PLACE

# Also where a release is at hand: its classes load, save and generate, and so need most of the package.
_AUTO = ("models/auto/configuration_auto", "models/auto/modeling_auto")
_LIGHTER = ("modeling_utils", "configuration_utils", "utils/generic", *_AUTO)
LIGHTER = tuple(f"transformers/{name}.py" for name in _LIGHTER)


@cache
def _texts() -> dict[str, str]:
    files = sorted(Path(__file__).parent.glob("*.txt"))
    return {f"{file.stem.replace('.', '/')}.py": file.read_text(encoding="utf-8") for file in files}


def stand_ins(paths: Collection[str]) -> dict[str, str]:
    """Path -> text of the replacement modules for packages that a tree with these paths does not contain."""
    held = {part.removesuffix(".py") for path in paths for part in path.split("/")}
    return {path: text for path, text in _texts().items() if path.split("/")[0].removesuffix(".py") not in held}


def lighter_text(path: str) -> str:
    """Definitions that take the place of those of the same names in a file of a dependency; "" if there are none."""
    inner = path.removeprefix(f"{PLACE}/")
    return _texts()[inner] if inner != path and inner in LIGHTER else ""
