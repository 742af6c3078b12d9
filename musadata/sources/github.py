"""Repositories from a GitHub search, mined at the commit that they had when they were found."""

import json
import os
import urllib.parse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.records import Reject
from musadata.sources.git import open_git
from musadata.sources.protocol import CodeFile, reject_draft
from musadata.sources.rest import RestClient
from musadata.storage import files

if TYPE_CHECKING:
    from musadata.sandbox import Caller

USUAL_API = "https://api.github.com"
PAGE = 100
WINDOW = 1000  # results that one search shows at the most, whatever its total
CODE = "code:"  # a query that starts with this searches files instead of repositories


@dataclass(frozen=True)
class Repository:
    """One repository at one commit."""

    name: str  # "owner/name"
    url: str
    commit: str
    stars: int
    license: str


@dataclass(frozen=True)
class Cursor:
    """Progress of a search: the next page ("" at the end), and the number of stars that bounds the current window."""

    query: str
    next_url: str
    below_stars: int
    seen_in_window: int = 0


def open_github(config: SourceConfig, seed: int) -> "GitHubRepositories":
    """The repositories of a search.

    What was found is kept in the file `config.path`: the first run searches, later ones and other workers read it.

    Raises:
        MusadataError: no file is named, the search fails, or it finds nothing.
    """
    where = f"github {config.name}"
    if not config.path:
        raise MusadataError("names no file for what is found", where=where, remedy="set path, so that reruns agree")
    client = RestClient(Path(f"{config.path}.http"), token=os.environ.get("GITHUB_TOKEN", ""))
    found = Discovery(client, config.url or USUAL_API, Path(config.path)).run(config.name, config.count or WINDOW)
    if not found:
        raise MusadataError("finds no repository", where=where, remedy="search for something else")
    return GitHubRepositories(config, seed, found)


class GitHubRepositories:
    """Units are repositories at a commit ("owner/name@sha"), each mined as a git source of its own."""

    def __init__(self, config: SourceConfig, seed: int, found: list[Repository]):
        self._config, self._seed = config, seed
        self._found = {f"{item.name}@{item.commit}": item for item in found}
        self.origin, self.revision = f"github:{config.name}", ""  # each unit names its commit

    def units(self) -> list[str]:
        return sorted(self._found)

    def read(self, unit: str, sandbox: "Caller") -> Iterator[CodeFile | Reject]:
        """The files of one repository; one reject if it has gone or holds nothing."""
        item = self._found[unit]
        config = replace(
            self._config,
            kind=SourceType.GIT,
            url=item.url,
            revision=item.commit,
            license=item.license or self._config.license,
        )
        try:
            source = open_git(config, self._seed)
        except MusadataError as error:
            yield reject_draft("unreachable_repository", error.what, f"git:{item.url}")
            return
        for path in source.units():
            yield from source.read(path, sandbox)


class Discovery:
    """A search that can be stopped and resumed after any page.

    Results are a file of JSON lines with a cursor file beside it; both are written before the next page is requested.
    """

    def __init__(self, client: RestClient, api: str, path: Path):
        self._client, self._api, self._path = client, api.rstrip("/"), path
        self._cursor_path = path.with_name(path.name + ".cursor")

    def run(self, query: str, most: int) -> list[Repository]:
        """At most `most` repositories, in the order in which they were found.

        Raises:
            MusadataError: the API refuses, or cannot be reached after several tries.
        """
        found = self._read()
        cursor = self._read_cursor(query) or Cursor(query, self._first_page(query, 0), 0)
        names = {item.name for item in found}
        while cursor.next_url and len(found) < most:
            items, following = self._client.page(cursor.next_url)
            fresh: list[Repository] = []
            for item in items:
                repository = self._repository(item.get("repository", item))
                if repository is not None and repository.name not in names:
                    names.add(repository.name)
                    fresh.append(repository)
            cursor = self._advance(cursor, items, following, bool(fresh))
            self._write(fresh, cursor)
            found += fresh
        return found[:most]

    def _first_page(self, query: str, below_stars: int) -> str:
        kind = "code" if query.startswith(CODE) else "repositories"
        terms = query.removeprefix(CODE).strip() + (f" stars:<={below_stars}" if below_stars else "")
        order = "" if kind == "code" else "&sort=stars&order=desc"
        return f"{self._api}/search/{kind}?q={urllib.parse.quote_plus(terms)}&per_page={PAGE}{order}"

    def _advance(self, cursor: Cursor, items: list[dict[str, Any]], following: str, fresh: bool) -> Cursor:
        """The next page, or the next window of stars where a search has shown all that it shows."""
        seen = cursor.seen_in_window + len(items)
        if following and seen < WINDOW:
            return replace(cursor, next_url=following, seen_in_window=seen)
        stars = int(items[-1].get("stargazers_count", 0)) if items else 0
        exhausted = (
            seen < WINDOW or not stars or cursor.query.startswith(CODE) or (stars == cursor.below_stars and not fresh)
        )
        if exhausted:
            return replace(cursor, next_url="", seen_in_window=0)
        return Cursor(cursor.query, self._first_page(cursor.query, stars), stars)

    def _repository(self, item: dict[str, Any]) -> Repository | None:
        name = item.get("full_name", "")
        branch = item.get("default_branch") or "HEAD"
        commit = self._client.text(f"{self._api}/repos/{name}/commits/{branch}", "application/vnd.github.sha")
        if not name or commit is None:
            return None  # renamed, emptied or taken down since the search index saw it
        spdx = (item.get("license") or {}).get("spdx_id") or ""
        url = item.get("clone_url") or f"https://github.com/{name}.git"
        stars = int(item.get("stargazers_count", 0))
        return Repository(name, url, commit.strip(), stars, "" if spdx == "NOASSERTION" else spdx)

    def _read(self) -> list[Repository]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]  # the last line may have been cut off by a crash
        if len(whole) < len(lines):
            self._path.write_text("".join(whole), encoding="utf-8")
        try:
            return [Repository(**json.loads(line)) for line in whole]
        except (ValueError, TypeError) as error:
            raise MusadataError("is not a list of repositories", where=str(self._path), remedy="remove it") from error

    def _read_cursor(self, query: str) -> Cursor | None:
        if not self._cursor_path.exists():
            return None
        cursor = Cursor(**json.loads(self._cursor_path.read_text(encoding="utf-8")))
        if cursor.query != query:
            raise MusadataError("belongs to another search", where=str(self._path), remedy="name another path")
        return cursor

    def _write(self, fresh: list[Repository], cursor: Cursor) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(item), sort_keys=True) + "\n" for item in fresh)
            file.flush()
            os.fsync(file.fileno())
        files.write_atomic(str(self._cursor_path), json.dumps(asdict(cursor), sort_keys=True).encode())
