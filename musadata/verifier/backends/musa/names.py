"""CUDA's names on MUSA, and the names that have no counterpart there: data for `port`, from names.yaml."""

import re
from pathlib import Path

import yaml

_TABLES: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def _patterns(table: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(form), text) for form, text in _TABLES[table].items())


NAMES = _TABLES["names"]  # whole names; the others by FORMS, the first that fits
FORMS = _patterns("forms")
HEADERS = _TABLES["headers"]  # by name; the others by HEADER_FORMS
HEADER_FORMS = _patterns("header_forms")
REFUSED = _patterns("refused")  # with what cannot be ported
REFUSED_HEADERS = _patterns("refused_headers")

# Namespaces that hold a `cuda`; the word is somebody else's everywhere else.
CUDA_NAMESPACE_OF = frozenset({"at", "c10", "torch"})
# Enumerations of PyTorch with a member CUDA.
CUDA_MEMBER_OF = frozenset({"DeviceType", "DispatchKey", "Backend"})
DEVICE_KEY = "PrivateUse1"

# Thresholds of `__CUDA_ARCH__` that have an equal on MUSA: mp_22 for Ampere, mp_31 for Hopper.
ARCHITECTURES = {"800": "220", "900": "310"}
