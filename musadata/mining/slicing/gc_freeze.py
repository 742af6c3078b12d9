"""Syntax trees kept out of the cyclic garbage collector's rounds.

They hold no cycles, so reference counts free them; but they are millions of objects, and the collector visits each of
them again and again. On timm that took as long as everything else that slicing does: 4.0 s with it, 2.0 s without.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_AFTER = 24_000_000  # characters parsed between two full rounds, which find what does hold cycles


class _Parsed:
    characters = 0  # since the last full round


@contextmanager
def gc_frozen(characters: int) -> Iterator[None]:
    """What is made inside is left to reference counting, until the next full round.

    Args:
        characters: size of the source that is parsed inside.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _Parsed.characters += characters
        if _Parsed.characters > COLLECT_AFTER:
            _Parsed.characters = 0
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        if was_enabled:
            gc.enable()
