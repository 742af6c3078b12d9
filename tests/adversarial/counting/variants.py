"""Cheats that count their calls, each by other means: one template, and a table of what fills it."""

import textwrap
from pathlib import Path
from string import Template

import yaml

_FOLDER = Path(__file__).parent
_INDENTED = {"host": 4, "init": 4, "forward": 8}  # spaces before each line of these parts


def counting_cheats() -> dict[str, str]:
    """Whole programs by name; see `template.py.txt` and `variants.yaml`."""
    template = Template((_FOLDER / "template.py.txt").read_text(encoding="utf-8"))
    variants = yaml.safe_load((_FOLDER / "variants.yaml").read_text(encoding="utf-8"))
    defaults = variants.pop("defaults")
    return {name: _fill(template, {"name": name, **defaults, **parts}) for name, parts in variants.items()}


def _fill(template: Template, parts: dict[str, str]) -> str:
    indented = {key: textwrap.indent(parts[key], " " * spaces) for key, spaces in _INDENTED.items()}
    return template.substitute(parts, **indented)
