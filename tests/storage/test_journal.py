import json
import multiprocessing
import os
import shutil
import signal
import time
import tracemalloc
from pathlib import Path

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.errors import MusadataError, Outage
from musadata.storage import journal as journal_module
from musadata.storage.journal import Journal, written_together
from musadata.storage.places import Places

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), PLAIN, max_size=8))
@settings(max_examples=40, deadline=None)
def test_whatever_was_put_is_there_when_the_journal_is_opened_again(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder, "answers") as journal:
        for key, value in records.items():
            journal.put(key, value)
    again = Journal(folder, "answers")
    assert {key: again.get(key) for key in again} == records


def test_a_key_keeps_its_first_value_and_is_written_once(tmp_path):
    with Journal(tmp_path, "answers") as journal:
        journal.put("a", 1)
        journal.put("a", 2)
    with Journal(tmp_path, "answers") as later:
        later.put("a", 3)
        assert later.get("a") == 1
    assert [path.read_bytes().count(b"\n") for path in tmp_path.iterdir()] == [1]


@given(st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_a_journal_cut_off_anywhere_loses_at_most_the_line_that_was_cut(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder, "answers") as journal:
        for index in range(5):
            journal.put(f"key{index}", {"text": "line\nbreak ✓", "index": index})
    (segment,) = folder.iterdir()
    data = segment.read_bytes()[:cut]
    segment.write_bytes(data)
    with Journal(folder, "answers") as again:
        assert len(again) in (data.count(b"\n"), data.count(b"\n") + 1)  # the newline alone may be what is missing
        again.put("new", 1)
    assert Journal(folder, "answers").get("new") == 1


def test_a_folder_name_may_hold_glob_characters(tmp_path):
    with Journal(tmp_path / "run[1]*", "answers") as journal:
        journal.put("a", 1)
    assert Journal(tmp_path / "run[1]*", "answers").get("a") == 1


def test_two_journals_of_one_folder_do_not_see_each_other(tmp_path):
    with Journal(tmp_path, "answers") as answers, Journal(tmp_path, "verdicts") as verdicts:
        answers.put("a", 1)
        verdicts.put("b", 2)
    assert list(Journal(tmp_path, "answers")) == ["a"]
    assert list(Journal(tmp_path, "verdicts")) == ["b"]


def _put_many(folder: Path, worker: int) -> None:
    with Journal(folder, "answers") as journal:
        for index in range(50):
            journal.put(f"shared{index}", index)
            journal.put(f"own{worker}-{index}", [worker, index])


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_put_many, args=(tmp_path, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    journal = Journal(tmp_path, "answers")
    assert len(journal) == 50 + 4 * 50
    assert all(journal.get(f"own{worker}-{index}") == [worker, index] for worker in range(4) for index in range(50))


def test_a_forked_process_writes_a_segment_of_its_own(tmp_path):
    journal = Journal(tmp_path, "answers")
    journal.put("parent", 1)
    child = multiprocessing.get_context("fork").Process(target=journal.put, args=("child", 2))
    child.start()
    child.join()
    journal.put("later", 3)
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(Journal(tmp_path, "answers")) == ["child", "later", "parent"]


def _put_and_die(folder: Path) -> None:
    journal = Journal(folder, "answers")
    journal.put("paid", "answer")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_record_survives_kill_9_right_after_put(tmp_path):
    child = multiprocessing.get_context("fork").Process(target=_put_and_die, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert Journal(tmp_path, "answers").get("paid") == "answer"


def test_what_is_put_together_is_known_at_once_and_written_at_the_end_of_the_block(tmp_path):
    with Journal(tmp_path, "answers") as journal:
        with written_together():
            journal.put("a", 1)
            journal.put("b", 2)
            journal.put("a", 3)
            assert (journal.get("a"), "b" in journal, len(journal)) == (1, True, 2)
            assert not list(Journal(tmp_path, "answers"))
        assert list(Journal(tmp_path, "answers")) == ["a", "b"]
        journal.put("c", 3)
        assert [journal.get(key) for key in "abc"] == [1, 2, 3]
    assert Journal(tmp_path, "answers").get("c") == 3


def test_what_could_not_be_written_together_is_forgotten(tmp_path):
    folder = tmp_path / "journal"
    with Journal(folder, "answers") as journal:
        shutil.rmtree(folder)
        with pytest.raises(Outage), written_together():
            journal.put("a", 1)
        assert journal.get("a") is None
        folder.mkdir()
        journal.put("a", 2)
    assert Journal(folder, "answers").get("a") == 2


def test_an_object_store_gets_few_whole_segments():
    url = "memory://journal-test/shard"
    with Journal(url, "answers") as journal:
        for index in range(70):
            journal.put(f"key{index}", index)
    files = fsspec.filesystem("memory")
    segments = files.glob("/journal-test/shard/*.jsonl")
    assert len(segments) == 3  # 32 + 32 + 6
    assert all(json.loads(line) for segment in segments for line in files.cat_file(segment).splitlines())
    assert len(Journal(url, "answers")) == 70


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MusadataError, match=r"file.*journal cannot be opened"):
        Journal(tmp_path / "file" / "journal", "answers")


def test_what_another_process_writes_is_known_after_a_refresh_which_reads_only_that(tmp_path, monkeypatch):
    mine, other = Journal(tmp_path, "answers"), Journal(tmp_path, "answers")
    mine.put("a", 1)
    other.refresh()
    assert other.get("a") == 1
    mine.put("b", 2)
    assert other.get("b") is None
    read, lines = [], Journal._lines

    def watched(self, segment, start):
        read.append(start)
        return lines(self, segment, start)

    monkeypatch.setattr(Journal, "_lines", watched)
    other.refresh()
    other.refresh()
    assert (other.get("b"), read) == (2, [len(b'{"key":"a","value":1}\n')])


def test_segments_in_folders_below_are_read_and_the_oldest_counts(tmp_path):
    """As older versions left them: a folder for each shard."""
    for folder, value in (("b", "first"), ("a", "second")):
        with Journal(tmp_path / folder, "answers") as journal:
            journal.put("key", value)
    with Journal(tmp_path, "answers") as journal:
        assert journal.get("key") == "first"
        journal.put("new", {"text": "line\nbreak ✓"})
    assert sorted(Journal(tmp_path, "answers")) == ["key", "new"]
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_a_segment_that_vanishes_is_as_if_it_had_never_been(tmp_path):
    with Journal(tmp_path, "answers") as journal:
        journal.put("a", 1)
    later = Journal(tmp_path, "answers")
    next(tmp_path.iterdir()).unlink()
    assert later.get("a") is None
    later.put("a", 2)
    assert Journal(tmp_path, "answers").get("a") == later.get("a") == 2


@given(st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_line_that_was_overwritten_costs_its_own_key_alone(tmp_path_factory, noise):
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder, "answers") as journal:
        for index in range(3):
            journal.put(f"key{index}", "x" * 50)
    (segment,) = folder.iterdir()
    lines = segment.read_bytes().splitlines(keepends=True)
    noise = noise.replace(b"\n", b" ")
    segment.write_bytes(lines[0] + noise + lines[1][len(noise) :] + lines[2])
    with Journal(folder, "answers") as again:
        assert [again.get("key0"), again.get("key2")] == ["x" * 50] * 2
        again.get("key1")
        again.put("key1", "again")
    assert Journal(folder, "answers").get("key1") is not None or noise


def test_an_object_store_has_a_lone_record_within_two_seconds():
    url = "memory://journal-late"
    journal = Journal(url, "answers")
    journal.put("a", 1)
    assert (journal.get("a"), len(journal), len(Journal(url, "answers"))) == (1, 1, 0)
    deadline = time.monotonic() + 2
    while len(Journal(url, "answers")) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Journal(url, "answers").get("a") == 1
    journal.put("b", 2)
    journal.close()
    assert [Journal(url, "answers").get(key) for key in "ab"] == [1, 2]


def test_a_journal_that_cannot_be_written_late_says_so_at_the_end(monkeypatch):
    journal = Journal("memory://journal-refused", "answers")
    refuse = lambda *_: (_ for _ in ()).throw(OSError(28, "no space"))  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(journal._files, "pipe_file", refuse, raising=False)
        journal.put("a", 1)
        journal._write_late()
        with pytest.raises(MusadataError, match="no space"):
            journal.flush()
    journal.flush()
    assert Journal("memory://journal-refused", "answers").get("a") == 1


def test_a_record_that_could_not_be_written_is_written_soon(monkeypatch):
    monkeypatch.setattr(journal_module, "_BUFFERED_SECONDS", 0.02)
    journal, refused = Journal("memory://journal-again", "answers"), []
    write = journal._files.pipe_file

    def refuse_once(*arguments):
        if not refused:
            refused.append(arguments)
            raise OSError(28, "no space")
        write(*arguments)

    monkeypatch.setattr(journal._files, "pipe_file", refuse_once, raising=False)
    journal.put("a", 1)
    deadline = time.monotonic() + 10
    while len(Journal("memory://journal-again", "answers")) == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert refused
    assert Journal("memory://journal-again", "answers").get("a") == 1


def test_places_hold_forty_bytes_a_record_and_find_each():
    places = Places()
    count = 200_000
    tracemalloc.start()
    for number in range(count):
        places.scan(b'"key%d"' % number, number % 7, number * 10, 10)
    places.scan(b'"key5"', 1, 1, 1)  # a later record of a key that is known
    places.sort()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(places) == count
    assert all(places.find(b'"key%d"' % number) == (number % 7, number * 10, 10) for number in range(0, count, 997))
    assert places.find(b'"nokey"') is None
    assert held < 50 * count
    places.drop(b'"key5"')
    assert (places.find(b'"key5"'), len(places)) == (None, count - 1)
    places.add(b'"key5"', 9, 9, 9)
    assert (places.find(b'"key5"'), len(places)) == ((9, 9, 9), count)
