"""A batch service on loopback: OpenAI's `/files` and `/batches`, whose batches end after some looks at them."""

import json
import threading
from collections.abc import Callable
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[dict[str, Any]], tuple[int, dict[str, Any]] | None]


class BatchServer:
    """Answers each line as `reply(body)` says; None leaves it out, as an expired batch does."""

    def __init__(self, reply: Reply, looks: int = 2, status: str = "completed"):
        self.reply, self.looks, self.status = reply, looks, status
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(server.get(self.path.removeprefix("/v1").partition("?")[0]))

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(server.post(self.path.removeprefix("/v1"), data, self.headers["Content-Type"]))

            def answer(self, reply: bytes | dict[str, Any] | None) -> None:
                data = reply if isinstance(reply, bytes) else json.dumps(reply or {"error": {"message": "no"}}).encode()
                self.send_response(404 if reply is None else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def get(self, path: str) -> bytes | dict[str, Any] | None:
        match path.strip("/").split("/"):
            case ["batches"]:
                return {"data": list(self.batches.values())}
            case ["batches", name]:
                batch = self.batches[name]
                batch["looks"] += 1
                if batch["looks"] >= self.looks and batch["status"] == "in_progress":
                    self._finish(batch)
                return batch
            case ["files", name, "content"]:
                return self.files[name]
        return None

    def post(self, path: str, data: bytes, kind: str) -> dict[str, Any] | None:
        if path == "/files":
            form = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + data)
            parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
            assert parts["purpose"].get_content() == "batch"
            self.files[name := f"file-{len(self.files)}"] = parts["file"].get_payload(decode=True)
            return {"id": name}
        if path == "/batches":
            name = f"batch-{len(self.batches)}"
            self.batches[name] = {"id": name, "status": "in_progress", "looks": 0, **json.loads(data)}
            return self.batches[name]
        return None

    def _finish(self, batch: dict[str, Any]) -> None:
        batch["status"] = self.status
        lines = []
        for line in map(json.loads, self.files[batch["input_file_id"]].splitlines()):
            if (found := self.reply(line["body"])) is not None:
                response = {"status_code": found[0], "body": found[1]}
                lines.append({"custom_id": line["custom_id"], "response": response, "error": None})
        self.files[name := f"file-{len(self.files)}"] = "\n".join(map(json.dumps, lines)).encode()
        batch["output_file_id"] = name

    def __enter__(self) -> "BatchServer":
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
