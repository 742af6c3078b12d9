"""Distributions from a package index, hostile archives included. The index is a local server."""

import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.mining.miner import Miner
from musadata.records import Draft
from musadata.sandbox import Sandbox
from musadata.sources import archives, open_source
from musadata.sources.archives import ArchiveTree
from musadata.sources.protocol import UnreadableFile
from musadata.sources.releases import Release, choose_release

NET = b"from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x.tanh()\n"
METADATA = (
    b"Metadata-Version: 2.1\nName: demo-net\nVersion: 1.0\nLicense-Expression: MIT\n"
    b"Project-URL: Source, https://github.com/me/demo\n\nText\n"
)


def tar(files, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return out.getvalue()


def wheel(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def reason(tree, path):
    with pytest.raises(UnreadableFile) as caught:
        tree.read(path)
    return caught.value.reason


def test_files_are_read_without_unpacking():
    tree = ArchiveTree(tar({"demo-1.0/net.py": NET, "demo-1.0/data.bin": b"x"}), "demo-1.0.tar.gz")
    assert tree.paths() == ["net.py"]
    assert tree.read("net.py") == NET


@pytest.mark.parametrize("path", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "..\\evil.py", "C:/evil.py"])
def test_members_that_escape_are_rejected_and_the_rest_is_kept(path):
    for make, name in ((tar, "x.tar.gz"), (wheel, "x.whl")):
        tree = ArchiveTree(make({path: NET, "good.py": NET}), name)
        assert len(tree.faults) == 1
        assert reason(tree, tree.faults[0]) == "escapes_archive"
        assert tree.read("good.py") == NET


def test_links_are_not_followed():
    tree = ArchiveTree(tar({"good.py": NET}, links=[("link.py", "/etc/passwd")]), "x.tar.gz")
    assert tree.paths() == ["good.py"]


def test_a_bomb_is_rejected_as_a_whole(monkeypatch):
    monkeypatch.setattr(archives, "MAX_TOTAL_BYTES", 1 << 20)
    for make, name in ((tar, "x.tar.gz"), (wheel, "x.whl")):
        tree = ArchiveTree(make({"a.py": NET, "zeros.bin": bytes(1 << 21)}), name)
        assert tree.paths() == [name]
        assert reason(tree, name) == "archive_bomb"


def test_too_many_members_are_a_bomb(monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 10)
    tree = ArchiveTree(wheel({f"{number}.py": b"" for number in range(20)}), "x.whl")
    assert reason(tree, "x.whl") == "archive_bomb"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not really", b"\x1f\x8b broken", NET])
def test_what_is_no_archive_is_rejected(data):
    for name in ("x.whl", "x.tar.gz"):
        assert reason(ArchiveTree(data, name), name) == "bad_archive"


def test_a_truncated_archive_is_rejected():
    whole = tar({"a.py": NET * 50, "b.py": bytes(range(256)) * 400})
    assert reason(ArchiveTree(whole[: len(whole) // 2], "x.tar.gz"), "x.tar.gz") == "bad_archive"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_data_inside_a_wheel_are_rejected(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a.py", NET * 50)
    data = bytearray(out.getvalue())
    for place in range(40, 80):
        data[place] ^= 0xFF
    assert reason(ArchiveTree(bytes(data), "x.whl"), "x.whl") == "bad_archive"


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", ""])
def test_every_compression_of_a_source_distribution_is_read(suffix):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{suffix}") as archive:
        info = tarfile.TarInfo("net.py")
        info.size = len(NET)
        archive.addfile(info, io.BytesIO(NET))
    assert ArchiveTree(out.getvalue(), f"x.tar.{suffix}").read("net.py") == NET


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_unpacks_to_too_much_is_a_bomb(kind, monkeypatch):
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 1 << 16)
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 1 << 20
    data = gzip.compress(header.tobuf() + b"a" * header.size)
    assert reason(ArchiveTree(data, "x.tar.gz"), "x.tar.gz") == "archive_bomb"


def test_folders_without_end_are_a_bomb(monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 10)
    folder = tarfile.TarInfo("d")
    folder.type = tarfile.DIRTYPE
    assert reason(ArchiveTree(gzip.compress(folder.tobuf() * 20), "x.tar.gz"), "x.tar.gz") == "archive_bomb"


def test_source_distributions_are_preferred_and_versions_matched_whole():
    names = [
        "demo_net-1.0-py3-none-any.whl",
        "demo-net-1.0.tar.gz",
        "demo-net-1.0.1.tar.gz",
        "demo-net-extra-1.0.tar.gz",
    ]
    releases = [Release(name, f"https://x/{name}", "") for name in names]
    assert choose_release(releases, "demo.net", "1.0").filename == "demo-net-1.0.tar.gz"
    with pytest.raises(MusadataError):
        choose_release(releases, "demo.net", "2.0")


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tar({"demo-net-1.0/PKG-INFO": METADATA, "demo-net-1.0/demo/net.py": NET, "demo-net-1.0/setup.py": b"1/0"})
    served = {"archive": archive, "digest": hashlib.sha256(archive).hexdigest(), "json": True, "requests": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            served["requests"] += 1
            if self.path.endswith(".tar.gz"):
                self._send(served["archive"], "application/octet-stream")
            elif not self.path.endswith("/demo-net/"):
                self.send_error(404)
            elif served["json"]:
                listing = {"filename": "demo-net-1.0.tar.gz", "url": "../files/demo-net-1.0.tar.gz"}
                listing["hashes"] = {"sha256": served["digest"]}
                self._send(json.dumps({"files": [listing]}).encode(), "application/vnd.pypi.simple.v1+json")
            else:
                link = f'<a href="../files/demo-net-1.0.tar.gz#sha256={served["digest"]}">x</a>'
                self._send(link.encode(), "text/html")

        def _send(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served["url"] = f"http://127.0.0.1:{server.server_port}/simple"
    yield served
    server.shutdown()


def open_index(index, name="Demo_Net", revision="1.0"):
    return open_source(SourceConfig(SourceType.PYPI, name=name, revision=revision, url=index["url"]), seed=1)


@pytest.mark.parametrize("json_api", [True, False])
def test_a_distribution_is_read_with_its_licence_and_repository(index, json_api):
    index["json"] = json_api
    source = open_index(index)
    assert source.units() == ["demo/net.py", "setup.py"]
    provenance = source.provenance("demo/net.py", "3-5")
    assert (provenance.license, provenance.repository) == ("MIT", "https://github.com/me/demo")
    assert provenance.revision == "1.0"


def test_an_unpacked_distribution_gives_the_same_modules_in_any_order(index, tmp_path):
    """Its folder is no identifier, and its own code imports itself by the package's name."""
    files = {
        "demo-net-1.0/PKG-INFO": METADATA,
        "demo-net-1.0/demo/__init__.py": b"from demo.shared.parts import double\n",
        "demo-net-1.0/demo/shared.py": b"raise SystemExit  # the package of this name hides it\n",
        "demo-net-1.0/demo/shared/__init__.py": b"",
        "demo-net-1.0/demo/shared/parts.py": b"def double(x):\n    return x * 2\n",
        "demo-net-1.0/demo/v1.5/net.py": NET.replace(b"class", b"from demo import double\n\nclass", 1).replace(
            b"x.tanh()", b"double(x).tanh()"
        ),
        "demo-net-1.0/tools/other.py": NET.replace(
            b"class Net", b"from demo.shared import parts\n\nclass Other", 1
        ).replace(b"x.tanh()", b"parts.double(x)"),
    }
    index["archive"] = tar(files)
    index["digest"] = hashlib.sha256(index["archive"]).hexdigest()
    for path, data in files.items():
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / path).write_bytes(data)
    folders = [tmp_path / "code", tmp_path / "code" / "demo-net-1.0"]
    sources = [open_source(SourceConfig(SourceType.DIRECTORY, path=str(folder)), seed=1) for folder in folders]
    found = set()
    with Sandbox(preload=("torch",)) as sandbox:
        for source in (open_index(index), *sources):
            for units in (source.units(), source.units()[::-1]):
                miner = Miner(source)
                drafts = [item for unit in units for item in miner.drafts(unit, sandbox) if isinstance(item, Draft)]
                found.add(tuple(sorted((item.name, item.reference) for item in drafts)))
    assert [[name for name, _ in drafts] for drafts in found] == [["Net", "Other"]]


def test_a_file_that_is_not_what_was_promised_is_refused(index):
    index["digest"] = "0" * 64
    with pytest.raises(MusadataError, match="not the file"):
        open_index(index)


def test_a_second_worker_asks_the_index_nothing(index):
    open_index(index)
    before = index["requests"]
    open_index(index)
    assert index["requests"] == before


def test_a_damaged_cache_is_filled_again(index, tmp_path):
    open_index(index)
    for kept in (tmp_path / "cache" / "musadata" / "pypi").iterdir():
        kept.write_bytes(b"{}")
    assert open_index(index).units() == ["demo/net.py", "setup.py"]


def test_unknown_names_and_versions_are_the_users_mistake(index):
    for name, revision in (("nothing", "1.0"), ("demo-net", "9.9"), ("demo-net", "")):
        with pytest.raises(MusadataError):
            open_index(index, name, revision)
