"""Dumps of files with columns mapped by the config."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.mining.miner import Miner
from musadata.records import Draft, Reject
from musadata.sandbox import Sandbox
from musadata.sources import open_source

NET = (
    "from torch import nn\nfrom .act import act\n\nclass Net(nn.Module):\n"
    "    def forward(self, x):\n        return act(x)\n"
)
ACT = "def act(x):\n    return x.tanh()\n"
COLUMNS = {"content": "text", "path": "file", "repository": "repo", "license": "licenses"}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=("torch",)) as opened:
        yield opened


def write(path, rows, **keys):
    pq.write_table(pa.Table.from_pylist(rows), path, **keys)


def row(text, file, repo="me/net", licenses=("MIT",)):
    return {"text": text, "file": file, "repo": repo, "licenses": list(licenses), "size": len(text or "")}


def open_dump(path, columns=COLUMNS):
    return open_source(SourceConfig(SourceType.PARQUET, path=str(path), columns=columns), seed=1)


def test_files_of_one_repository_in_a_row_group_can_import_each_other(tmp_path, sandbox):
    write(tmp_path / "a.parquet", [row(NET, "pkg/net.py"), row(ACT, "pkg/act.py"), row("x = 1", "y.py", "other/one")])
    source = open_dump(tmp_path)
    [draft] = [item for item in Miner(source).drafts("a.parquet#0", sandbox) if isinstance(item, Draft)]
    assert "def act(x)" in draft.reference
    assert draft.provenance.repository == "me/net"
    assert draft.provenance.license == "MIT"
    assert draft.provenance.path == "pkg/net.py"


def test_a_path_that_a_repository_has_twice_is_read_once_and_rejected_once(tmp_path, sandbox):
    first, second = (
        NET.replace("from .act import act\n", "").replace("act(x)", form) for form in ("x.exp()", "x.sin()")
    )
    write(tmp_path / "a.parquet", [row(first, "net.py"), row(second, "net.py"), row(second, "net.py", "other/one")])
    found = list(Miner(open_dump(tmp_path)).drafts("a.parquet#0", sandbox))
    drafts = [(item.provenance.repository, "exp" in item.reference) for item in found if isinstance(item, Draft)]
    assert drafts == [("me/net", True), ("other/one", False)]
    [reject] = [item for item in found if isinstance(item, Reject)]
    assert (reject.reason, reject.origin) == ("repeated_path", f"parquet:{tmp_path.name}/net.py")


def test_units_are_row_groups_in_order(tmp_path):
    write(tmp_path / "b.parquet", [row("x = 1", f"{number}.py") for number in range(5)], row_group_size=2)
    write(tmp_path / "a.parquet", [row("x = 1", "x.py")])
    assert open_dump(tmp_path).units() == ["a.parquet#0", "b.parquet#0", "b.parquet#1", "b.parquet#2"]


def test_rows_without_text_are_rejected_and_the_rest_is_read(tmp_path, sandbox):
    good = NET.replace("from .act import act\n", "").replace("act(x)", "x.exp()")
    write(tmp_path / "a.parquet", [row(None, "none.py"), row("class A(:", "bad.py"), row(good, "good.py")])
    found = list(Miner(open_dump(tmp_path)).drafts("a.parquet#0", sandbox))
    assert [item.reason for item in found if isinstance(item, Reject)] == ["syntax_error", "unreadable"]
    assert [item.name for item in found if isinstance(item, Draft)] == ["Net"]


def test_a_missing_column_is_named(tmp_path):
    write(tmp_path / "a.parquet", [{"body": "x"}])
    with pytest.raises(MusadataError, match="has no column text"):
        open_dump(tmp_path, {"content": "text"}).units()
    with pytest.raises(MusadataError, match="which column holds the text"):
        open_dump(tmp_path, {"path": "body"})
    with pytest.raises(MusadataError, match="does not know texts"):
        open_dump(tmp_path, {"texts": "body", "content": "body"})


def test_a_folder_without_parquet_or_a_broken_file_is_the_users_mistake(tmp_path):
    with pytest.raises(MusadataError, match="no Parquet files"):
        open_dump(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(MusadataError, match="cannot be read as Parquet"):
        open_dump(tmp_path).units()


@pytest.fixture
def dump(tmp_path):
    """Three files, of which the second one is cut off."""
    good = NET.replace("from .act import act\n", "").replace("act(x)", "x.exp()")
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.parquet", [row(good, f"{name}.py")])
    (tmp_path / "b.parquet").write_bytes((tmp_path / "b.parquet").read_bytes()[:-20])
    return tmp_path


def test_one_broken_file_of_several_is_rejected_and_the_rest_is_read(dump, sandbox):
    source = open_dump(dump)
    assert source.units() == ["a.parquet#0", "b.parquet", "c.parquet#0"]
    found = [item for unit in source.units() for item in Miner(source).drafts(unit, sandbox)]
    assert [item.provenance.path for item in found if isinstance(item, Draft)] == ["a.py", "c.py"]
    [reject] = [item for item in found if isinstance(item, Reject)]
    assert (reject.reason, reject.origin) == ("unreadable_parquet", f"parquet:{dump.name}/b.parquet")
    assert str(dump) not in reject.detail


@pytest.mark.parametrize("vanishes", [True, False])
def test_a_file_that_is_lost_after_it_was_listed_is_rejected(dump, vanishes):
    units = open_dump(dump).units()
    path = dump / "c.parquet"
    path.unlink() if vanishes else path.write_bytes(path.read_bytes()[:-20])
    for source in (open_dump(dump), open_dump(dump)):
        [reject] = source.read(units[-1], None)
        assert (reject.reason, reject.origin) == ("unreadable_parquet", f"parquet:{dump.name}/c.parquet#0")


def test_a_row_group_whose_data_are_damaged_is_rejected_and_the_next_one_is_read(tmp_path, sandbox):
    path = tmp_path / "a.parquet"
    good = NET.replace("from .act import act\n", "").replace("act(x)", "x.exp()")
    write(path, [row(f"# {'x' * 999}\n{good}", "one.py"), row(good, "two.py")], row_group_size=1)
    data = bytearray(path.read_bytes())
    data[100:200] = bytes(100)
    path.write_bytes(data)
    first, second = [list(Miner(open_dump(tmp_path)).drafts(f"a.parquet#{number}", sandbox)) for number in (0, 1)]
    assert [item.reason for item in first] == ["unreadable_parquet"]
    assert [item.name for item in second] == ["Net"]


def test_a_text_that_is_no_utf8_is_rejected_and_the_rows_around_it_are_read(tmp_path, sandbox):
    good = NET.replace("from .act import act\n", "").replace("act(x)", "x.exp()")
    rows = [row(good, "good.py"), row("x = 1", "odd.py")]
    texts = pa.array([good.encode(), b"x = '\xff'"], pa.binary())
    columns = {name: pa.array([one[name] for one in rows]) for name in rows[0]}
    columns["text"] = pa.StringArray.from_buffers(2, *texts.buffers()[1:])
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = list(Miner(open_dump(tmp_path)).drafts("a.parquet#0", sandbox))
    assert [item.name for item in found if isinstance(item, Draft)] == ["Net"]
    assert [(item.reason, item.origin) for item in found if isinstance(item, Reject)] == [
        ("odd_encoding", f"parquet:{tmp_path.name}/odd.py")
    ]


def test_the_revision_is_that_of_the_content_and_not_of_the_place(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "a.parquet", [row("x = 1", "a.py")])
    same = [open_dump(tmp_path / folder).revision for folder in ("one", "two")]
    write(tmp_path / "two" / "a.parquet", [row("x = 2", "a.py")])
    assert same[0] == same[1] != open_dump(tmp_path / "two").revision
