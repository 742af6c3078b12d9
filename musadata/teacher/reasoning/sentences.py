"""The longer sentences of the six steps, kept as templates in `sentences.yaml`."""

from pathlib import Path

import yaml

_SENTENCES: dict[str, str] = yaml.safe_load(Path(__file__).with_name("sentences.yaml").read_text(encoding="utf-8"))


def say(name: str, **facts: object) -> str:
    """A sentence with its facts filled in; the template may name parts of a fact, as `{out.shape}`."""
    return _SENTENCES[name].format(**facts)
