"""Whoever is timed has the device alone, and gets it even while others come and go."""

import threading
import time

from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeats, released


def test_many_share_and_one_is_alone(tmp_path):
    locks = [DeviceLock(tmp_path, "GPU-1/a") for _ in range(3)]
    locks[0].share()
    locks[1].share()
    alone = threading.Event()

    def take_alone():
        with released(locks[2]):
            locks[2].take_alone()
            alone.set()

    thread = threading.Thread(target=take_alone)
    thread.start()
    assert not alone.wait(0.2)
    locks[0].release()
    assert not alone.wait(0.2)
    locks[1].release()
    assert alone.wait(30)
    thread.join(30)
    locks[0].share()  # and nobody holds it any more
    locks[0].release()


def test_no_more_take_a_seat_than_there_are(tmp_path):
    seats = [DeviceSeats(tmp_path, "GPU-1/a", 2) for _ in range(12)]
    lock, sitting, most = threading.Lock(), 0, 0

    def sit(seat):
        nonlocal sitting, most
        with released(seat):
            seat.take()
            with lock:
                sitting += 1
                most = max(most, sitting)
            time.sleep(0.02)
            with lock:
                sitting -= 1

    threads = [threading.Thread(target=sit, args=(seat,)) for seat in seats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (sitting, most) == (0, 2)


def test_who_wants_many_seats_is_not_overtaken_and_gets_no_more_than_there_are(tmp_path):
    first, large, late, more = (DeviceSeats(tmp_path, "gpu", 3, "memory") for _ in range(4))
    first.take(2)
    first.take_free(5)  # one is left
    order = []

    def take(name, seats, count):
        seats.take(count)
        order.append((name, len(seats._held)))
        seats.release()

    threads = [threading.Thread(target=take, args=one) for one in (("large", large, 10), ("late", late, 1))]
    threads[0].start()
    while waiting_is_not_at_the_gate(tmp_path, "gpu.memory-gate"):
        pass
    threads[1].start()
    threads[1].join(0.1)
    assert order == []
    more.take_free(1)
    assert not more._held
    first.release()
    for thread in threads:
        thread.join(30)
    assert order == [("large", 3), ("late", 1)]


def test_who_waits_for_being_alone_is_not_overtaken(tmp_path):
    first, waiting, late = (DeviceLock(tmp_path, "gpu") for _ in range(3))
    order = []
    first.share()

    def wait():
        waiting.take_alone()
        order.append("alone")
        waiting.release()

    def come_late():
        late.share()
        order.append("late")
        late.release()

    threads = [threading.Thread(target=wait)]
    threads[0].start()
    while waiting_is_not_at_the_gate(tmp_path):
        pass
    threads.append(threading.Thread(target=come_late))
    threads[1].start()
    assert order == []
    first.release()
    for thread in threads:
        thread.join(30)
    assert order == ["alone", "late"]


def waiting_is_not_at_the_gate(folder, name="gpu.gate"):
    import fcntl

    with (folder / name).open("wb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_who_shares_lets_one_that_waits_go_first(tmp_path):
    sharing, other, waiting = (DeviceLock(tmp_path, "gpu") for _ in range(3))
    order = []
    sharing.share()
    sharing.give_way()  # nobody waits
    other.share()

    def wait():
        waiting.take_alone()
        order.append("alone")
        waiting.give_way()  # it is alone already
        order.append("still alone")
        waiting.release()

    thread = threading.Thread(target=wait)
    thread.start()
    while waiting_is_not_at_the_gate(tmp_path):
        pass
    other.release()
    sharing.give_way()
    order.append("sharing again")
    thread.join(30)
    assert order == ["alone", "still alone", "sharing again"]
    sharing.release()


def test_who_holds_nothing_has_no_way_to_give(tmp_path):
    DeviceLock(tmp_path, "gpu").give_way()
    alone = DeviceLock(tmp_path, "gpu")
    with released(alone):
        alone.take_alone()  # the first holds nothing still
