"""Which of the processes for references a candidate gets."""

from contextlib import ExitStack

from musadata.verifier.trusted import baseline_pool


class Process:
    def __init__(self):
        self.reference, self.events = "", []

    def launch(self):
        self.events.append("launch")

    def release(self, keep):
        self.events.append("release")

    def close(self):
        self.events.append("close")


def take_from(eager, reference, alone=False):
    """A process, and what gives it back."""
    stack = ExitStack()
    return stack.enter_context(eager.taken(reference, alone)), stack.close


def test_a_reference_is_served_by_the_process_that_served_it_last():
    eager = baseline_pool._Eager(Process)
    (first, give_first), (second, give_second) = take_from(eager, "a"), take_from(eager, "b")
    assert first is not second
    assert (first.events, second.events) == (["launch"], [])  # the others start when they are needed,
    assert eager._free[-1].events == ["launch"]  # but one ahead where several are
    assert eager._free[-2].events == []
    first.reference, second.reference = "a", "b"
    give_second()
    give_first()
    assert take_from(eager, "b")[0] is second


def test_whoever_has_the_device_alone_has_the_others_free_what_they_keep():
    eager = baseline_pool._Eager(Process)
    (_, give_back), _ = take_from(eager, "a"), take_from(eager, "b")
    give_back()
    held = take_from(eager, "c", alone=True)
    assert sum(process.events.count("release") for process in eager._all) == len(eager._free) and held


def test_what_is_prepared_takes_parts_of_a_devices_memory():
    assert [baseline_pool._parts_of(size) for size in (1, 4 << 30, (4 << 30) + 1)] == [1, 1, 2]
