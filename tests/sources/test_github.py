"""Discovery against a local server that behaves like the API, its limits and failures included."""

import http.server
import json
import re
import threading
import urllib.parse

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.records import Reject
from musadata.sources import github, open_source
from musadata.sources.github import Discovery
from musadata.sources.rest import RestClient


class Api:
    """A small GitHub: repositories with stars, pages, a window of results, ETags, limits, and faults to order."""

    def __init__(self, count=7):
        self.repositories = [(f"me/r{number}", 1000 - number) for number in range(count)]
        self.faults: list[tuple[int, dict[str, str]]] = []  # served before anything else
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.gone: set[str] = set()
        self.cut_off = False
        self.window = 1000

    def answer(self, path, headers):
        parts = urllib.parse.urlsplit(path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(parts.query).items()}
        if parts.path.startswith("/repos/"):
            name = parts.path.removeprefix("/repos/").partition("/commits/")[0]
            if name in self.gone:
                return 404, {}, b"{}"
            return self._tagged(headers, name.encode().hex().ljust(40, "0").encode(), {})
        bound = re.search(r"stars:<=(\d+)", query["q"])
        matching = [item for item in self.repositories if not bound or item[1] <= int(bound[1])][: self.window]
        page, size = int(query.get("page", "1")), int(query["per_page"])
        items = [self._item(*item) for item in matching[(page - 1) * size : page * size]]
        more = page * size < len(matching)
        link = f'<{self.url}/search/repositories?{urllib.parse.urlencode({**query, "page": page + 1})}>; rel="next"'
        body = json.dumps({"total_count": len(self.repositories), "items": items}).encode()
        return self._tagged(headers, body, {"Link": link} if more else {})

    def _tagged(self, headers, body, extra):
        tag = f'"{hash(body)}"'
        if headers.get("If-None-Match") == tag:
            return 304, {}, b""
        return 200, {"ETag": tag, **extra}, body

    def _item(self, name, stars):
        license = {"spdx_id": "MIT"}
        return {"full_name": name, "stargazers_count": stars, "default_branch": "main", "license": license}

    def searches(self):
        return [path for path, _ in self.requests if path.startswith("/search/")]


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(github, "PAGE", 3)
    state = Api()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state.requests.append((self.path, dict(self.headers)))
            if state.cut_off:
                state.cut_off = False
                self.connection.close()
                return
            status, extra, body = (*state.faults.pop(0), b"") if state.faults else state.answer(self.path, self.headers)
            self.send_response(status)
            for name, value in extra.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()


@pytest.fixture
def waits():
    return []


def discover(api, tmp_path, waits, most=100, query="topic:cuda"):
    client = RestClient(tmp_path / "http", token="secret", sleep=waits.append, now=lambda: 1000.0)
    return Discovery(client, api.url, tmp_path / "found.jsonl").run(query, most)


def names(found):
    return [item.name for item in found]


def test_all_pages_are_read_in_order_with_commit_and_licence(api, tmp_path, waits):
    found = discover(api, tmp_path, waits)
    assert names(found) == [f"me/r{number}" for number in range(7)]
    assert found[0].license == "MIT"
    assert len(found[0].commit) == 40
    assert all(headers["Authorization"] == "Bearer secret" for _, headers in api.requests)


def test_a_second_run_reads_what_the_first_one_found(api, tmp_path, waits):
    first = discover(api, tmp_path, waits)
    api.requests.clear()
    assert discover(api, tmp_path, waits) == first
    assert api.requests == []


def test_a_search_that_was_cut_off_goes_on_at_the_page_where_it_was(api, tmp_path, waits):
    assert len(discover(api, tmp_path, waits, most=3)) == 3
    with (tmp_path / "found.jsonl").open("a") as file:
        file.write('{"name": "half a li')
    api.requests.clear()
    assert names(discover(api, tmp_path, waits)) == [f"me/r{number}" for number in range(7)]
    assert all("page=1&" not in path for path in api.searches())
    assert len(api.searches()) == 2


def test_the_rate_limit_is_waited_out(api, tmp_path, waits):
    api.faults = [
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1090"}),
        (429, {"Retry-After": "7"}),
    ]
    assert len(discover(api, tmp_path, waits)) == 7
    assert waits == [91.0, 7.0]


def test_server_errors_and_broken_connections_are_asked_again(api, tmp_path, waits):
    api.faults = [(502, {}), (500, {})]
    api.cut_off = True
    assert len(discover(api, tmp_path, waits)) == 7
    assert len(waits) == 3


def test_a_server_that_stays_broken_ends_the_run_with_what_was_found_kept(api, tmp_path, waits):
    discover(api, tmp_path, waits, most=3)
    api.faults = [(500, {})] * 20
    with pytest.raises(MusadataError, match="cannot be reached"):
        discover(api, tmp_path, waits)
    api.faults = []
    assert len(discover(api, tmp_path, waits)) == 7


def test_being_refused_is_the_users_to_mend(api, tmp_path, waits):
    api.faults = [(401, {})]
    with pytest.raises(MusadataError, match="GITHUB_TOKEN"):
        discover(api, tmp_path, waits)


def test_unchanged_answers_are_not_sent_again(api, tmp_path, waits):
    discover(api, tmp_path, waits)
    for name in ("found.jsonl", "found.jsonl.cursor"):
        (tmp_path / name).unlink()
    api.requests.clear()
    assert len(discover(api, tmp_path, waits)) == 7
    assert all("If-None-Match" in headers for _, headers in api.requests)


def test_repositories_that_vanished_are_left_out(api, tmp_path, waits):
    api.gone = {"me/r1"}
    assert "me/r1" not in names(discover(api, tmp_path, waits))


def test_more_results_than_a_search_shows_are_reached_by_stars(api, tmp_path, waits, monkeypatch):
    api.window = 4
    monkeypatch.setattr(github, "WINDOW", 4)
    assert names(discover(api, tmp_path, waits)) == [f"me/r{number}" for number in range(7)]


def test_a_file_of_another_search_is_not_mixed_up(api, tmp_path, waits):
    discover(api, tmp_path, waits)
    with pytest.raises(MusadataError, match="another search"):
        discover(api, tmp_path, waits, query="topic:other")


def test_a_repository_that_cannot_be_cloned_is_one_reject_and_the_run_goes_on(api, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = SourceConfig(
        SourceType.GITHUB, name="topic:cuda", path=str(tmp_path / "found.jsonl"), url=api.url, count=2
    )
    source = open_source(config, seed=1)
    assert [unit.partition("@")[0] for unit in source.units()] == ["me/r0", "me/r1"]
    source._found = {
        name: type(item)(item.name, f"file://{tmp_path}/gone", item.commit, 1, "")
        for name, item in source._found.items()
    }
    [reject] = source.read(source.units()[0], None)
    assert isinstance(reject, Reject)
    assert reject.reason == "unreachable_repository"
