"""A source distribution or wheel from a package index, unpacked in memory; its setup never runs."""

import hashlib
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from html.parser import HTMLParser
from pathlib import Path

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.archives import ArchiveTree
from musadata.sources.code import CodeFiles
from musadata.sources.package import find_license, find_repository
from musadata.sources.protocol import Tree, UnreadableFile

USUAL_INDEX = "https://pypi.org/simple"
ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".whl")
MAX_DOWNLOAD_BYTES = 1 << 28
SECONDS = 60
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@dataclass(frozen=True)
class Release:
    """One file of a project. `sha256` is "" where the index does not say it."""

    filename: str
    url: str
    sha256: str


def open_pypi(config: SourceConfig, seed: int) -> CodeFiles:
    """One version of a project; the source distribution if there is one, for its tests and examples are evidence.

    Raises:
        MusadataError: the index cannot be reached, does not have that version, or sends another file than it promised.
    """
    where = f"pypi {config.name} {config.revision}".strip()
    index = config.url or os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX") or USUAL_INDEX
    if not config.revision:
        raise MusadataError(
            "names no version", where=where, remedy="set revision, so that a rerun reads the same files"
        )
    try:
        release = choose_release(list_releases(index, config.name), config.name, config.revision)
        tree = ArchiveTree(download(release), release.filename)
    except MusadataError as error:
        raise MusadataError(error.what, where=where, remedy="check name, revision and url") from error
    about = _metadata(tree)
    return CodeFiles(
        f"pypi:{config.name}",
        tree,
        config,
        seed,
        repository=find_repository(about),
        revision=config.revision,
        license=config.license or find_license(about),
        kernels=config.kernels,
    )


def list_releases(index: str, name: str) -> list[Release]:
    """Every file of a project, by the index's simple API (JSON, or HTML where it knows no better).

    Raises:
        MusadataError: it cannot be read.
    """
    normal = re.sub(r"[-_.]+", "-", name).lower()
    url = f"{index.rstrip('/')}/{urllib.parse.quote(normal)}/"
    body, kind = _fetch(url, ACCEPT)
    if "json" in kind:
        files = json.loads(body)["files"]
        return [
            Release(item["filename"], urllib.parse.urljoin(url, item["url"]), item.get("hashes", {}).get("sha256", ""))
            for item in files
        ]
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    return [_from_link(urllib.parse.urljoin(url, link)) for link in links.found]


def choose_release(releases: list[Release], name: str, version: str) -> Release:
    """The file to read: a source distribution before a pure wheel before any other wheel.

    Raises:
        MusadataError: there is none of that version.
    """
    found = [item for item in releases if _version_of(item.filename, name) == version]
    if not found:
        raise MusadataError(f"the index has no version {version}")

    def place(item: Release) -> tuple[bool, bool, str]:
        return item.filename.endswith(".whl"), not item.filename.endswith("-none-any.whl"), item.filename

    return min(found, key=place)


def _version_of(filename: str, name: str) -> str:
    suffix = next((suffix for suffix in ARCHIVES if filename.endswith(suffix)), None)
    if suffix is None:
        return ""
    stem = filename.removesuffix(suffix)
    pattern = re.sub(r"[-_.]+", "[-_.]+", name)
    found = re.match(rf"^{pattern}-([^-]+)" + ("(-|$)" if suffix == ".whl" else "$"), stem, re.IGNORECASE)
    return found[1] if found else ""


def download(release: Release) -> bytes:
    """The file, from the cache or the index, checked against its digest.

    Raises:
        MusadataError: it is too large, or not what the index promised.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "musadata" / "pypi"
    kept = cache / release.sha256 if release.sha256 else None
    if kept is not None and kept.exists():
        data = kept.read_bytes()
        if hashlib.sha256(data).hexdigest() == release.sha256:
            return data
    data, _ = _fetch(release.url, "*/*")
    if release.sha256 and hashlib.sha256(data).hexdigest() != release.sha256:
        raise MusadataError(f"{release.filename} is not the file that the index promised")
    if kept is not None:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(kept)
    return data


def _fetch(url: str, accept: str) -> tuple[bytes, str]:
    if not url.startswith(("https://", "http://", "file://")):
        raise MusadataError(f"{url[:100]} is no address to download from")
    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "musadata"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            data = answer.read(MAX_DOWNLOAD_BYTES + 1)
            kind = str(answer.headers.get("Content-Type", ""))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise MusadataError(f"cannot be downloaded ({getattr(error, 'reason', error)})") from error
    if len(data) > MAX_DOWNLOAD_BYTES:
        raise MusadataError(f"is larger than {MAX_DOWNLOAD_BYTES >> 20} MB")
    return data, kind


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _from_link(link: str) -> Release:
    address, _, fragment = link.partition("#")
    digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return Release(urllib.parse.unquote(address.rpartition("/")[2]), address, digest)


def _metadata(tree: Tree) -> Message:
    """METADATA or PKG-INFO, the shallowest one; empty where none can be read."""
    names = [path for path in tree.paths() if path.rpartition("/")[2] in ("METADATA", "PKG-INFO")]
    for path in sorted(names, key=lambda item: (item.count("/"), item)):
        with suppress(UnreadableFile):
            return HeaderParser().parsestr(tree.read(path).decode("utf-8", "replace"))
    return Message()
