"""Files of a project on a package index, and what a distribution's metadata says of it."""

import hashlib
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from email.parser import HeaderParser
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path
from typing import IO

from musadata.errors import MusadataError
from musadata.sources.licenses import metadata_license
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.storage import files

USUAL_INDEX = "https://pypi.org/simple"
ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".whl")
MAX_DOWNLOAD_BYTES = 1 << 28
SECONDS = 60  # without an answer
MAX_SECONDS = 600  # for one file
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
REPOSITORY = re.compile(r"^https?://(github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/[\w.\-]+/[\w.\-]+/?$")
Metadata = Message | metadata.PackageMetadata


@dataclass(frozen=True)
class Release:
    """One file of a project. `sha256` is "" where the index does not say it."""

    filename: str
    url: str
    sha256: str


def usual_index() -> str:
    """The address of the index that pip or uv would ask."""
    return os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX") or USUAL_INDEX


def fetch_release(index: str, name: str, version: str, *, wheel: bool = False) -> tuple[Release, bytes]:
    """One file of a version, and its bytes. What was fetched once needs no network again.

    Args:
        wheel: prefer a wheel, which holds what users import and nothing else, to the source distribution.

    Raises:
        MusadataError: the index cannot be reached, does not have that version, or sends another file than it promised.
    """
    key = hashlib.sha256(f"{index}\n{name}\n{version}\n{wheel}".encode()).hexdigest()[:24]
    kept = _cache() / f"{key}.json"
    known = _read_release(kept)
    release = known or choose_release(list_releases(index, name), name, version, wheel=wheel)
    data = download(release)
    if known is None and release.sha256:
        files.write_atomic(str(kept), json.dumps(asdict(release)).encode())
    return release, data


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "musadata" / "pypi"


def _read_release(kept: Path) -> Release | None:
    """A release that was chosen before; None if there is none, or its record is damaged."""
    with suppress(OSError, ValueError, TypeError):
        return Release(**json.loads(kept.read_text(encoding="utf-8")))
    return None


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


def choose_release(releases: list[Release], name: str, version: str, *, wheel: bool = False) -> Release:
    """The file to read: a source distribution before a pure wheel before any other wheel; with `wheel` it comes last.

    Raises:
        MusadataError: there is none of that version.
    """
    found = [item for item in releases if _version_of(item.filename, name) == version]
    if not found:
        raise MusadataError(f"the index has no version {version}")

    def place(item: Release) -> tuple[bool, bool, str]:
        is_wheel = item.filename.endswith(".whl")
        return is_wheel is not wheel, not item.filename.endswith("-none-any.whl"), item.filename

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
    kept = _cache() / release.sha256 if release.sha256 else None
    if kept is not None and kept.exists():
        data = kept.read_bytes()
        if hashlib.sha256(data).hexdigest() == release.sha256:
            return data
    data, _ = _fetch(release.url, "*/*")
    if release.sha256 and hashlib.sha256(data).hexdigest() != release.sha256:
        raise MusadataError(f"{release.filename} is not the file that the index promised")
    if kept is not None:
        files.write_atomic(str(kept), data)
    return data


def _fetch(url: str, accept: str) -> tuple[bytes, str]:
    if not url.startswith(("https://", "http://", "file://")):
        raise MusadataError(f"{url[:100]} is no address to download from")
    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "musadata"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            data = _read_bounded(answer)
            kind = str(answer.headers.get("Content-Type", ""))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise MusadataError(f"cannot be downloaded ({getattr(error, 'reason', error)})") from error
    if len(data) > MAX_DOWNLOAD_BYTES:
        raise MusadataError(f"is larger than {MAX_DOWNLOAD_BYTES >> 20} MB")
    return data, kind


def _read_bounded(answer: IO[bytes]) -> bytes:
    """What a server sends, up to one byte more than is allowed.

    Raises:
        TimeoutError: it takes too long.
    """
    end, data = time.monotonic() + MAX_SECONDS, bytearray()
    while len(data) <= MAX_DOWNLOAD_BYTES:
        part = answer.read(1 << 20)
        if not part:
            break
        if time.monotonic() > end:
            raise TimeoutError(f"more than {MAX_SECONDS} s")
        data += part
    return bytes(data)


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


def find_metadata(tree: Tree) -> Message:
    """METADATA or PKG-INFO, the shallowest one; empty where none can be read."""
    names = [path for path in tree.paths() if path.rpartition("/")[2] in ("METADATA", "PKG-INFO")]
    for path in sorted(names, key=lambda item: (item.count("/"), item)):
        with suppress(UnreadableFile):
            return HeaderParser().parsestr(tree.read(path).decode("utf-8", "replace"))
    return Message()


def find_repository(about: Metadata) -> str:
    """The public repository among the links of a distribution's metadata, "" if there is none."""
    links = [entry.partition(",")[2].strip() for entry in about.get_all("Project-URL") or []]
    links += about.get_all("Home-page") or []
    return next((link.rstrip("/") for link in links if REPOSITORY.match(link)), "")


def find_license(about: Metadata) -> str:
    """The licence that a distribution's metadata name."""
    expression, field = ("".join(about.get_all(name) or []) for name in ("License-Expression", "License"))
    return metadata_license(expression, field, about.get_all("Classifier") or [])
