"""How calls are timed: on a device without the host's share of them."""

import time

import pytest
import torch

from musadata.verifier.backends.cuda.cuda_backend import find_device
from musadata.verifier.sandboxed.measure import Stopwatch, Turns, hold_sets


class Watch(Stopwatch):
    """Keeps the lead of every call, whose host takes what it is told."""

    def __init__(self, *host_ms):
        super().__init__("cpu", 0)
        self.leads, self._host_ms = [], list(host_ms)

    def time(self, forward, lead_ms=0.0):
        self.leads.append(lead_ms)
        self.host_ms = self._host_ms[min(len(self.leads), len(self._host_ms)) - 1]
        return super().time(forward, lead_ms)


def leads(*host_ms, calls=12, **options):
    watch = Watch(*host_ms)
    turns = Turns(torch.relu, *hold_sets([{"0": torch.ones(4)}], [None]), **options)
    turns.measure(watch, 1)
    turns.measure(watch, calls - 1)
    assert turns.led_ms == pytest.approx(sum(watch.leads[1:]))
    return watch.leads


def test_host_that_is_quick_needs_no_lead():
    assert leads(0.02) == [0.0] * 12


def test_lead_is_twice_what_the_host_needs_at_the_least_once_that_is_known():
    found = leads(5.0, 0.3, 0.1, 0.2)
    assert found[:8] == [0.0] * 8
    assert found[8:] == [pytest.approx(2 * 0.1 - 0.05)] * 4


def test_lead_has_an_end_and_is_not_learned_from_calls_that_wait_for_it():
    assert leads(*[0.4] * 8, 0.01)[8:] == [0.5] * 4
    assert leads(*[0.4] * 8, 0.01, longest_lead_ms=5.0)[8:] == [pytest.approx(0.75)] * 4


@pytest.mark.gpu
@pytest.mark.skipif(find_device() is None, reason="no CUDA device")
def test_slow_host_does_not_count():
    def forward(x):
        for _ in range(4):
            end = time.perf_counter() + 4e-5
            while time.perf_counter() < end:
                pass
            x = x + 1.0
        return x

    turns, watch = (
        Turns(forward, *hold_sets([{"0": torch.ones(4, device="cuda")}], [None])),
        Stopwatch("cuda", 256 << 20),
    )
    before, after = turns.measure(watch, 9)[1:8], turns.measure(watch, 20)
    assert sorted(after)[10] < 0.04 < sorted(before)[3]
