"""Which of the processes for references a candidate gets."""

import threading
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


def take_from(eager, reference, need):
    """A process, and what gives it back."""
    stack = ExitStack()
    return stack.enter_context(eager.taken(reference, need)), stack.close


def test_a_reference_is_served_by_the_process_that_served_it_last():
    eager = baseline_pool._Eager(Process, 100)
    (first, give_first), (second, give_second) = take_from(eager, "a", 10), take_from(eager, "b", 10)
    assert first is not second
    assert (first.events, second.events) == (["launch"], [])  # the others start when they are needed,
    assert eager._free[-1].events == ["launch"]  # but one ahead where several are
    assert eager._free[-2].events == []
    first.reference, second.reference = "a", "b"
    give_second()
    give_first()
    assert take_from(eager, "b", 10)[0] is second


def test_whoever_needs_all_memory_waits_for_the_others_and_is_not_overtaken():
    eager = baseline_pool._Eager(Process, 100)
    held = [take_from(eager, "a", 5) for _ in range(baseline_pool._AT_ONCE - 1)]
    order = []

    def take(name, need):
        _, give_back = take_from(eager, name, need)
        order.append((name, eager._used))
        give_back()

    large = threading.Thread(target=take, args=("large", 10**6))
    large.start()
    while not eager._queue:
        pass
    late = threading.Thread(target=take, args=("late", 1))  # there is room, but others came first
    late.start()
    late.join(0.1)
    assert order == []
    for _, give_back in held:
        give_back()
    large.join(30)
    late.join(30)
    assert order == [("large", 100), ("late", 1)]
    assert sum(process.events.count("release") for process, _ in held) >= len(held) - 1  # what they kept on the device


def test_memory_that_turns_out_to_be_needed_is_kept_from_those_that_come_later():
    eager = baseline_pool._Eager(Process, 100)
    baseline, give_back = take_from(eager, "a", 10)
    eager.grow(baseline, 70)
    taken = threading.Event()

    def take():
        take_from(eager, "b", 30)
        taken.set()

    threading.Thread(target=take, daemon=True).start()
    assert not taken.wait(0.1)
    give_back()
    assert taken.wait(30)
