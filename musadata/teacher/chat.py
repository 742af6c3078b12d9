"""OpenAI's chat protocol: what is sent for a request, and what replies and refusals mean."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import resources
from typing import Any

import jsonschema

from musadata.config import TeacherConfig
from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION, ReasoningStep
from musadata.teacher.prompts import STEPS, render_steps
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind

# The published form of an answer, without the words that only people read.
_PUBLISHED = json.loads(resources.files("schemas").joinpath(f"answer.reasoning.v{SCHEMA_VERSION}.json").read_text())
REASONING_SCHEMA: dict[str, Any] = {
    key: _PUBLISHED[key] for key in ("type", "properties", "required", "additionalProperties")
}
_LONGEST_WAIT_S = 120.0


def body_of(request: Request, config: TeacherConfig, structured: bool) -> dict[str, Any]:
    """The JSON of a request. Reasoning is asked for as an object with six texts where the server can do that."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_tokens": config.max_tokens,
        "seed": request.seed % 2**31,
    }
    if structured and request.kind is RequestKind.REASON:
        schema = {"name": "six_steps", "strict": True, "schema": REASONING_SCHEMA}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def read_answer(request: Request, reply: Any) -> Answer:
    """The text of a reply; six steps in JSON become six steps under headings.

    Raises:
        CannotAnswer: there is no text.
    """
    try:
        text = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise CannotAnswer("reply without a message") from error
    if not isinstance(text, str) or not text.strip():
        raise CannotAnswer("empty reply")
    if request.kind is RequestKind.REASON:
        text = _from_json(text) or text
    return Answer(text)


def _from_json(text: str) -> str:
    """Six steps as headed text, if the reply is the JSON object that was asked for; else nothing."""
    try:
        value = json.loads(text.rsplit("</think>", 1)[-1])
        jsonschema.validate(value, REASONING_SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return ""
    return render_steps([ReasoningStep(step, value[step]) for step in STEPS])


def failure_of(status: int, reply: Any, url: str, model: str) -> str:
    """What went wrong, if trying again may help.

    Raises:
        CannotAnswer: the server refuses this request alone.
        MusadataError: it would refuse every request.
    """
    said = _message(reply)
    if status in (401, 403):
        raise MusadataError(
            f"the key was refused ({status}: {said})", where=url, remedy="set MUSADATA_API_KEY or OPENAI_API_KEY"
        )
    if status in (404, 405):
        raise MusadataError(
            f"no such model or path ({status}: {said})",
            where=url,
            remedy=f"check teacher.base_url (it ends in /v1) and teacher.model ({model})",
        )
    if status in (408, 409, 425, 429) or status >= 500:
        return f"{status}: {said}"
    if status in (400, 413, 422) and any(word in said.lower() for word in ("context", "too long", "token")):
        raise CannotAnswer("prompt too long for the model")
    if status in (400, 413, 422):
        raise CannotAnswer(f"request refused ({status})")
    raise MusadataError(f"unexpected reply ({status}: {said})", where=url, remedy="check teacher.base_url")


def retry_delay(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait, 0 if it does not; at most two minutes."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    wait = 0.0
    with suppress(ValueError, TypeError):
        wait = float(value) if _is_number(value) else (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    return min(max(wait, 0.0), _LONGEST_WAIT_S)


def _is_number(value: str) -> bool:
    try:
        return float(value) >= 0
    except ValueError:
        return False


def _message(reply: Any) -> str:
    """The server's own words, shortened to one line."""
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    text = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(text).split())[:200]
