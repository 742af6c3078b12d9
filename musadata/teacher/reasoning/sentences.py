"""The longer sentences of the six steps, kept as templates in `sentences.yaml`."""

from pathlib import Path
from zlib import crc32

import yaml

_SENTENCES: dict[str, str | list[str]] = yaml.safe_load(
    Path(__file__).with_name("sentences.yaml").read_text(encoding="utf-8")
)


def say(name: str, seed: object = "", **facts: object) -> str:
    """A sentence with its facts filled in; the template may name parts of a fact, as `{out.shape}`.

    Of several ways to say it, the seed chooses one, or without one the facts do.
    """
    templates = _SENTENCES[name]
    if isinstance(templates, str):
        return templates.format(**facts)
    key = str(seed or templates[0].format(**facts))
    return templates[crc32(key.encode()) % len(templates)].format(**facts)
