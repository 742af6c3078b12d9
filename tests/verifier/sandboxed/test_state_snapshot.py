import functools
import hashlib
import itertools
import logging
import types
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from musadata.verifier.sandboxed.state_snapshot import take_snapshot

PROGRAM = types.ModuleType("musadata_candidate")


class Holder:
    calls = 0


Holder.__module__ = PROGRAM.__name__


class Slotted:
    __slots__ = ("calls",)


class Log(list[int]):
    calls = 0


def remember(seen: list[int] = []) -> None:  # noqa: B006 (what is tested)
    seen.append(1)


def count_in_closure() -> Callable[[], None]:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    return count


def drain(values: Any) -> Callable[[], None]:
    def draw() -> None:
        next(values)

    return draw


def bump(holder: Any, name: str = "calls") -> Callable[[], None]:
    def add() -> None:
        setattr(holder, name, getattr(holder, name, 0) + 1)

    return add


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def changes(value: Any, call: Callable[[], object]) -> list[str]:
    """The places that differ after a call, in a program that holds `value`."""
    program = types.ModuleType(PROGRAM.__name__)
    vars(program)["value"] = value
    before = take_snapshot(program, torch.nn.Module(), {}).values
    call()
    after = take_snapshot(program, torch.nn.Module(), {}).values
    return sorted(name for name in after if after[name] != before.get(name))


NESTED: dict[str, list[int]] = {"calls": [0]}
CASES: dict[str, tuple[Any, Callable[[], None]]] = {
    "nested": (NESTED, lambda: NESTED["calls"].__setitem__(0, NESTED["calls"][0] + 1)),
    "default": (remember, remember),
    "closure": ((count := count_in_closure()), count),
    "partial": ((held := functools.partial(print, Holder())), bump(held.args[0])),
    "iterator": ((numbers := itertools.count()), drain(numbers)),
    "list iterator": ((some := iter([1, 2, 3])), drain(some)),
    "generator": ((steps := (n for n in range(9))), drain(steps)),
    "object": ((own := Holder()), bump(own)),
    "class": (Holder, bump(Holder)),
    "tensor's attribute": ((tensor := torch.zeros(2)), bump(tensor)),
    "slot": ((slotted := Slotted()), bump(slotted)),
    "attribute of a list": ((log := Log()), bump(log)),
    "key": ((keyed := {0: None}), lambda: keyed.update({keyed.popitem()[0] + 1: None})),
    "bytes": ((some_bytes := bytearray(1)), lambda: some_bytes.append(some_bytes.pop() + 1)),
    "end of a long list": ((long := [0] * 100), lambda: long.append(long.pop() + 1)),
    "wrapped dictionary": ((wrapped := UserDict(calls=0)), lambda: wrapped.update(calls=wrapped["calls"] + 1)),
    "exception": ((unraised := ValueError(0)), lambda: setattr(unraised, "args", (unraised.args[0] + 1,))),
    "range": ((ranged := [range(0)]), lambda: ranged.append(range(len(ranged.pop()) + 1))),
    "cycle": ((turns := itertools.cycle([0, 0])), drain(turns)),
    "enumerate": ((numbered := enumerate(itertools.repeat(None))), drain(numbered)),
    "hash": ((hashed := hashlib.sha256()), lambda: hashed.update(b"|")),
    "seed": ((noise := torch.Generator()), lambda: noise.manual_seed(noise.initial_seed() + 1)),
    "loose module": ((loose := torch.nn.Identity()), bump(loose)),
    "offset": (
        (views := [torch.zeros(9)[:1]]),
        lambda: views.append(torch.zeros(9)[views.pop().storage_offset() + 1 :][:1]),
    ),
    "extension": ((extension := types.ModuleType("relu_ext")), bump(extension)),
}


@pytest.mark.parametrize("name", CASES)
def test_count_is_seen_wherever_python_keeps_it(name: str) -> None:
    value, call = CASES[name]
    assert changes(value, call) == ["value of the program"]


def test_nothing_is_seen_where_nothing_counts() -> None:
    scratch = torch.zeros(4)
    assert changes([scratch, Holder(), torch, {"size": 4}, float("nan")], lambda: scratch[0].add_(1)) == []


def test_file_that_grows_is_seen(tmp_path: Path) -> None:
    assert changes(None, lambda: (tmp_path / "calls").write_text("|")) == ["a file"]


def test_file_that_is_written_again_is_seen(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("1")
    assert changes(None, lambda: (tmp_path / "calls").write_text("2")) == ["a file"]


def test_folder_and_link_are_seen(tmp_path: Path) -> None:
    assert changes(None, (tmp_path / "call").mkdir) == ["a file"]
    assert changes(None, lambda: (tmp_path / "link").symlink_to("nowhere")) == ["a file"]


def test_setting_of_pytorch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert changes(None, lambda: monkeypatch.setattr(torch.backends, "calls", 1, raising=False)) == [
        "PyTorch's settings"
    ]


def test_hook_that_is_taken_away_again_is_seen() -> None:
    module = torch.nn.Identity()
    assert changes(None, lambda: module.register_forward_hook(print).remove()) == ["PyTorch's settings"]


def test_level_of_a_logger_that_nobody_holds_is_seen() -> None:
    logging.getLogger("relu").setLevel(1)
    assert changes(None, lambda: logging.getLogger("relu").setLevel(2)) == ["relu of Python's loggers"]


def test_random_numbers_that_are_drawn_are_seen() -> None:
    assert changes(None, lambda: torch.rand(1)) == ["the state of random numbers"]


def test_contents_of_a_tensor_on_the_host_are_told_apart() -> None:
    program = types.ModuleType(PROGRAM.__name__)
    vars(program)["value"] = [torch.zeros(2)]
    before = take_snapshot(program, torch.nn.Module(), {}).contents
    assert take_snapshot(program, torch.nn.Module(), {}).contents == before
    vars(program)["value"][0].fill_(1.0)
    assert take_snapshot(program, torch.nn.Module(), {}).contents != before


def test_environment_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert changes(None, lambda: monkeypatch.setenv("CALLS", "|")) == ["the environment"]


def test_a_program_that_changes_nothing_is_the_same_however_memory_is_reused() -> None:
    """What the walk makes on its way, as copies of attributes, is gone soon, and its place another's."""
    holders = [Holder() for _ in range(20)]
    for holder in holders:
        vars(holder)["calls"] = 3
    kept: list[object] = []
    assert [changes(holders, lambda: kept.append([{} for _ in range(len(kept) % 7)])) for _ in range(40)] == [[]] * 40
