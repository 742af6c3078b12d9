"""Which ATen operators a forward may dispatch."""

import pytest

from musadata.verifier.rules.aten_operators import is_allowed


@pytest.mark.parametrize(
    ("operator", "allowed"),
    [
        ("aten.empty.memory_format", True),
        ("aten::copy_", True),
        ("aten.view.default", True),
        ("aten.zero_.default", True),
        ("aten.add.Tensor", False),
        ("aten.mm.default", False),
        ("aten._assert_async.msg", True),
    ],
)
def test_list_of_operators_is_read_by_base_name(operator, allowed):
    assert is_allowed(operator) is allowed
