"""What a forward dispatches is seen, also from within operators of its own and where PyTorch turns all modes off."""

import pytest
import torch

from musadata.verifier.backends.device_records import Records
from musadata.verifier.sandboxed.dispatch_watch import DispatchWatch, count_moved, count_moved_or_pinned


@torch.library.custom_op("musadata_test::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x) / 2


def watched(function, *arguments):
    watch = DispatchWatch()
    with torch.no_grad(), watch:
        function(*arguments)
    return watch


def test_operators_are_seen_from_within_an_operator_of_the_candidates_own():
    assert {"aten.sigmoid.default", "aten.div.Tensor"} <= watched(halve, torch.ones(4)).operators


def test_operator_of_its_own_gives_its_result_and_its_errors():
    with torch.no_grad(), DispatchWatch():
        assert torch.equal(halve(torch.zeros(3)), torch.full((3,), 0.25))
        with pytest.raises(RuntimeError, match="hidden"):
            raising(torch.zeros(3))


@torch.library.custom_op("musadata_test::raising", mutates_args=())
def raising(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("hidden")


def test_printing_a_tensor_of_a_device_moves_its_values_to_the_host():
    assert watched(str, torch.empty(100, device="meta")).to_host == 100
    assert watched(str, torch.ones(100)).to_host == 0


def write_rows(x: torch.Tensor) -> None:
    x.zero_()
    for row in x:
        row.fill_(2.0)
    x[0] = x[1]
    x[1:, 1:] = x[:-1, :-1].clone()  # a whole tensor


def test_writes_into_parts_of_tensors_are_counted_and_those_of_whole_ones_are_not():
    assert watched(write_rows, torch.ones(5, 4)).parts == 6


def test_printing_is_as_before_once_nobody_watches():
    watched(str, torch.ones(2))
    assert str(torch.ones(2)) == "tensor([1., 1.])"


def test_pinned_memory_counts_only_where_nothing_else_has_read_from_the_device():
    records, watch = Records((), host_bytes=6, pinned_bytes=400), DispatchWatch()
    assert (count_moved(records, watch), count_moved_or_pinned(records, watch)) == (2, 100)
