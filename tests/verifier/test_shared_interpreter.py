"""One interpreter for many threads: settings of the process last as long as the block."""

import gc
import sys

import pytest

from musadata.verifier.shared_interpreter import shared_interpreter


def state():
    return sys.getswitchinterval(), gc.get_threshold(), gc.isenabled()


def test_settings_are_those_from_before_after_an_error_too():
    before = state()
    with pytest.raises(KeyError), shared_interpreter():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[0] > before[1][0]
        raise KeyError
    assert state() == before


def test_garbage_of_the_block_is_still_collected():
    class Knot:
        alive = 0

        def __init__(self):
            Knot.alive += 1
            self.itself = self

        def __del__(self):
            Knot.alive -= 1

    with shared_interpreter():
        for _ in range(100_000):
            Knot()
        assert Knot.alive < 100_000
