import json
import multiprocessing
import os
import signal
from pathlib import Path

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.errors import MusadataError
from musadata.storage.journal import Journal, JournalIndex

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


def test_what_is_forgotten_goes_from_disk_and_the_rest_stays(tmp_path):
    for index in range(3):  # three segments
        with Journal(tmp_path, "answers") as journal:
            journal.put(f"old/{index}", index)
            journal.put(f"new/{index}", index)
    with Journal(tmp_path, "answers") as journal:
        journal.forget(lambda key: key.startswith("old/"))
        journal.put("new/3", 3)
        assert sorted(journal) == ["new/0", "new/1", "new/2", "new/3"]
    assert {key: Journal(tmp_path, "answers").get(key) for key in journal} == {
        f"new/{index}": index for index in range(4)
    }
    assert not any(b"old/" in path.read_bytes() for path in tmp_path.iterdir())


def _open_and_forget(folder: Path, worker: int) -> None:
    for index in range(30):
        with Journal(folder, "answers") as journal:
            journal.forget(lambda key: not key.startswith("new/"))
            journal.put(f"old/{worker}-{index}", index)


def test_processes_that_forget_at_the_same_time_lose_nothing_that_was_there(tmp_path):
    with Journal(tmp_path, "answers") as journal:
        for index in range(50):
            journal.put(f"new/{index}", index)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_open_and_forget, args=(tmp_path, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert {f"new/{index}" for index in range(50)} <= set(Journal(tmp_path, "answers"))


def test_what_another_folder_knows_is_found_there_once_and_then_at_home(tmp_path):
    with Journal(tmp_path / "0-of-3", "answers") as one, Journal(tmp_path / "1-of-2", "answers") as other:
        one.put("a", {"text": "line\nbreak ✓"})
        one.put("b", 1)
        other.put("c", [2])
    with Journal(tmp_path / "0-of-3", "verdicts") as verdicts:
        verdicts.put("d", 3)
    with Journal(tmp_path / "2-of-3", "answers", JournalIndex(tmp_path, "answers")) as journal:
        assert [journal.get(key) for key in "acd"] == [{"text": "line\nbreak ✓"}, [2], None]
    assert sorted(Journal(tmp_path / "2-of-3", "answers")) == ["a", "c"]


def test_of_several_folders_with_a_key_the_oldest_segment_counts(tmp_path):
    for folder, value in (("b", "first"), ("a", "second")):
        with Journal(tmp_path / folder, "answers") as journal:
            journal.put("key", value)
    assert JournalIndex(tmp_path, "answers").get("key") == "first"


@given(st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_an_index_over_a_journal_cut_off_anywhere_finds_what_the_journal_itself_does(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("journals")
    with Journal(folder / "0", "answers") as journal:
        for number in range(5):
            journal.put(f"key{number}", {"text": "line\nbreak ✓", "number": number})
    (segment,) = (folder / "0").iterdir()
    segment.write_bytes(segment.read_bytes()[:cut])
    journal, index = Journal(folder / "0", "answers"), JournalIndex(folder, "answers")
    assert [index.get(f"key{number}") for number in range(5)] == [journal.get(f"key{number}") for number in range(5)]


def test_a_segment_that_vanishes_behind_an_index_is_as_if_it_had_never_been(tmp_path):
    with Journal(tmp_path / "0", "answers") as journal:
        journal.put("a", 1)
    index = JournalIndex(tmp_path, "answers")
    assert index.get("a") == 1
    (segment,) = (tmp_path / "0").iterdir()
    segment.unlink()
    assert index.get("a") is None
    assert JournalIndex(tmp_path / "nothing", "answers").get("a") is None


def test_an_index_reads_an_object_store():
    url = "memory://journal-index-test"
    for shard in range(3):
        with Journal(f"{url}/{shard}", "answers") as journal:
            for number in range(40):
                journal.put(f"{shard}-{number}", number)
    index = JournalIndex(url, "answers")
    assert [index.get(f"{shard}-{number}") for shard in range(3) for number in range(40)] == [*range(40)] * 3
