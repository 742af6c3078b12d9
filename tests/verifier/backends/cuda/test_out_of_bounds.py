"""What is written where nothing is allocated; the arithmetic of ranges anywhere, the rest on a device."""

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from musadata.verifier.backends.cuda import out_of_bounds
from musadata.verifier.backends.cuda.cuda_backend import find_device
from musadata.verifier.backends.cuda.out_of_bounds import OutOfBoundsWatch, _tensor, _without

on_device = pytest.mark.skipif(find_device() is None, reason="no CUDA device")
RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(RANGES, RANGES)
def test_what_is_left_of_ranges_is_what_no_other_touches(ranges, taken):
    left = _without(ranges, taken)
    covered = {at for low, high in taken for at in range(low, high)}
    for low, high in ranges:
        wanted = set(range(low, high)) - covered
        assert wanted <= {at for start, end in left for at in range(start, end)}
    assert all(start < end and not covered & set(range(start, end)) for start, end in left)


def test_memory_that_the_call_has_given_back_is_not_read(monkeypatch):
    looked_at = []

    class Pattern:
        def __ne__(self, other):
            return torch.zeros(1, dtype=torch.bool)

    memory = out_of_bounds._Memory((), (), (
        {"action": "segment_free", "addr": 100, "size": 50},
        {"action": "alloc", "addr": 200, "size": 10},
        {"action": "oom", "device_free": 0, "size": 10},
    ))  # fmt: skip
    monkeypatch.setattr(out_of_bounds, "_look", lambda: memory)
    monkeypatch.setattr(out_of_bounds, "_record_history", lambda enabled: None)
    monkeypatch.setattr(out_of_bounds, "_tensor", lambda low, high: looked_at.append((low, high)) or Pattern())
    monkeypatch.setattr(torch.cuda, "use_mem_pool", lambda pool: contextlib.nullcontext())
    watch = object.__new__(OutOfBoundsWatch)
    watch._events, watch._pattern, watch._pool = 0, 0xFF, None
    assert watch._find([(100, 150), (200, 220), (300, 310)]) == []
    assert looked_at == [(210, 220), (300, 310)]


@pytest.fixture
def watch():
    torch.empty(8 << 20, device="cuda")  # a segment that stays
    return OutOfBoundsWatch()


def write(tensor, offset, count):
    end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
    _tensor(end + offset, end + offset + count).fill_(1)


@pytest.mark.gpu
@on_device
@pytest.mark.parametrize("size", [1, 100, 400, 1785, 4096, 71680])
def test_a_write_past_the_end_of_an_old_or_a_new_tensor_is_found(watch, size):
    old = torch.ones(size, dtype=torch.uint8, device="cuda")
    for offset in (0, 8):
        watch.begin(0xFF)
        new = torch.ones(size, dtype=torch.uint8, device="cuda")
        write(new, offset, 4)
        (found,) = watch.end()
        assert found == f"a write {offset} bytes past the end of a {size}-byte device allocation"
        if size % 512:  # else it hits the next block, which may be anybody's
            watch.begin(0x7B)
            write(old, 0, 4)
            assert watch.end() == [f"a write 0 bytes past the end of a {size}-byte device allocation"]
        del new


@pytest.mark.gpu
@on_device
def test_what_pytorch_and_temporary_tensors_do_is_no_overrun(watch):
    x = torch.randn(333, 77, device="cuda")
    for _ in range(3):
        watch.begin(0xFF)
        for size in (7000, 5000, 33, 900_001):
            scratch = torch.randn(size, device="cuda")
            scratch = scratch.sort().values.cumsum(0)
            del scratch
        y = torch.softmax(x @ x.T, dim=1)
        z = torch.cat([y, y[:, ::2]], dim=1).contiguous().clone()
        torch.empty_like(z).normal_()
        assert watch.end() == []
    assert watch.end() == []
