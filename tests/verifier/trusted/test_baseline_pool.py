"""Which of the processes for references a candidate gets."""

import threading

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


def test_a_reference_is_served_by_the_process_that_served_it_last():
    eager = baseline_pool._Eager(Process)
    first, second = eager.take("a", alone=False), eager.take("b", alone=False)
    assert first is not second
    assert (first.events, second.events) == (["launch"], [])  # the others start when they are needed
    first.reference, second.reference = "a", "b"
    eager.give_back(second, alone=False)
    eager.give_back(first, alone=False)
    assert eager.take("b", alone=False) is second


def test_whoever_needs_all_memory_waits_for_the_others_and_is_not_overtaken():
    eager = baseline_pool._Eager(Process)
    held = [eager.take("a", alone=False) for _ in range(baseline_pool._AT_ONCE - 1)]
    order = []

    def take(name, alone):
        process = eager.take(name, alone)
        order.append(name)
        eager.give_back(process, alone)

    alone = threading.Thread(target=take, args=("alone", True))
    alone.start()
    while not eager._waiting_for_all:
        pass
    late = threading.Thread(target=take, args=("late", False))  # one is free, but not for it
    late.start()
    late.join(0.1)
    assert order == []
    for process in held:
        eager.give_back(process, alone=False)
    alone.join(30)
    late.join(30)
    assert order == ["alone", "late"]
    assert sum(process.events.count("release") for process in held) >= len(held) - 1  # what they kept on the device
