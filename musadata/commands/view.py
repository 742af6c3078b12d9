"""`musadata view`: a corpus in the browser, from this machine only."""

import argparse
import json
import math
import sys
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from musadata.errors import MusadataError

_PAGE = Path(__file__).parent.parent / "corpus" / "view.html"
# The page asks only this server, and nobody else may put it into a frame.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_OWN = ("dataset", "search", "order", "descending", "offset", "limit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument("--port", type=int, default=8321, help="(default: 8321; 0 takes a free one)")
    parser.add_argument("--no-browser", action="store_true", help="do not open it in a browser")


def run(arguments: argparse.Namespace) -> int:
    with open_server(arguments.corpus, arguments.port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"{arguments.corpus} is shown at {address} (Ctrl-C ends it)", file=sys.stderr)
        if not arguments.no_browser:
            webbrowser.open(address)
        server.serve_forever()
    return 0


def open_server(corpus: str, port: int) -> ThreadingHTTPServer:
    """A server on the loopback address; the caller runs and closes it.

    Raises:
        MusadataError: not a corpus, or the port is taken.
    """
    from musadata.corpus.viewing import Viewer

    viewer = Viewer(corpus)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"viewer": viewer}))
    except (OSError, OverflowError) as error:
        raise MusadataError(f"cannot be used ({error})", where=f"port {port}", remedy="name another --port") from error


class _Handler(BaseHTTPRequestHandler):
    viewer: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):  # another site's name that leads here
            return self._send(HTTPStatus.FORBIDDEN, b"", "text/plain")
        address = urlsplit(self.path)
        asked = dict(parse_qsl(address.query, keep_blank_values=True))
        if address.path == "/":
            return self._send(HTTPStatus.OK, _PAGE.read_bytes(), "text/html; charset=utf-8")
        try:
            found = self._answer(address.path, asked)
        except (MusadataError, KeyError, ValueError) as error:
            return self._send_json(HTTPStatus.NOT_FOUND, {"error": str(error)})
        return self._send_json(HTTPStatus.OK, found)

    def _answer(self, path: str, asked: dict[str, str]) -> Any:
        if path == "/api/datasets":
            return {"corpus": Path(self.viewer.corpus).name, "datasets": self.viewer.list_datasets()}
        if path == "/api/rows":
            return self.viewer.find_rows(
                asked["dataset"],
                search=asked.get("search", ""),
                filters={name: value for name, value in asked.items() if name not in _OWN},
                order=asked.get("order", ""),
                descending=asked.get("descending") == "true",
                offset=int(asked.get("offset", "0")),
                limit=int(asked.get("limit", "50")),
            )
        if path == "/api/row":
            return self.viewer.read_row(asked["dataset"], asked["id"])
        if path == "/api/task":
            return self.viewer.read_task(asked["id"])
        raise KeyError(path)

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        text = json.dumps(_finite(value), ensure_ascii=False, default=str)
        self._send(status, text.encode(errors="replace"), "application/json; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: requests are the reader's own."""


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return {name: _finite(one) for name, one in value.items()} if isinstance(value, dict) else value
