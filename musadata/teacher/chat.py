"""OpenAI's chat protocol: what is sent for a request, and what replies and refusals mean.

Everything that a server sends is foreign: its text is made valid Unicode here, and its numbers are checked.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib import resources
from typing import Any

from musadata.config import TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION, ReasoningStep, Usage
from musadata.teacher.claims.steps import CLAIMS, parse_steps, render_analysis, stated_claims
from musadata.teacher.prompts import STEPS
from musadata.teacher.protocol import Answer, Request, RequestFailed, RequestKind

# The published form of an answer, without the words that only people read.
_PUBLISHED = json.loads(resources.files("schemas").joinpath(f"answer.reasoning.v{SCHEMA_VERSION}.json").read_text())
REASONING_SCHEMA: dict[str, Any] = {
    key: _PUBLISHED[key] for key in ("type", "properties", "required", "additionalProperties")
}
KEY_VARIABLES = ("MUSADATA_API_KEY", "OPENAI_API_KEY")
_LONGEST_WAIT_S = 120.0
_TRY_AGAIN = (408, 409, 425, 429)
_REFUSED = (400, 413, 422)
_NO_MONEY = ("insufficient_quota", "insufficient balance", "exceeded your current quota", "billing_hard_limit")
_BAD_KEY = ("invalid_api_key", "authentication_error", "permission_error")
_NO_MODEL = ("model_not_found", "notfounderror")
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_OPEN_THOUGHTS = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_decode_leniently = json.JSONDecoder(strict=False).decode  # made once: json.loads makes one for each call
_STEP_NAMES = {re.sub(r"[\W_]+", "", step): step for step in STEPS}


def server_key() -> str:
    """The key of the server's account; "" where none is set."""
    return next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")


def name_of(config: TeacherConfig) -> str:
    """The provenance of answers: model and sampling. What else requests hold is part of it where there is any.

    A batch service gives the same answers as a server, so they have one name.
    """
    kind = "vllm" if config.kind is TeacherType.VLLM else "openai"
    more = "".join(f":{key}={config.extra_body[key]}" for key in sorted(config.extra_body))
    return (
        f"{kind}:{config.model}:temperature={config.temperature:g}:top_p={config.top_p:g}:"
        f"max_tokens={config.max_tokens}{more}"
    )


class TryAgain(Exception):
    """The server has trouble that may pass.

    Attributes:
        overloaded: the server asks for fewer requests.
        usage: tokens that were paid for.
    """

    def __init__(self, said: str, *, overloaded: bool = False, usage: Usage | None = None):
        self.overloaded, self.usage = overloaded, usage or Usage()
        super().__init__(said)


def body_of(request: Request, config: TeacherConfig, structured: bool) -> dict[str, Any]:
    """The JSON of a request. Reasoning is asked for as an object, by its schema, where the server can do that."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_tokens": config.max_tokens,
    }
    if config.send_seed:
        body["seed"] = _seed(request)
    if structured and request.kind is RequestKind.REASON:
        schema = {"name": "six_steps", "strict": True, "schema": REASONING_SCHEMA}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body |= config.extra_body
    return {name: value for name, value in body.items() if value is not None}


class BodyWriter:
    """Writes the JSON of requests as bytes. What all have in common is encoded once."""

    def __init__(self, config: TeacherConfig):
        self._config = config
        self._common: dict[bool, str] = {}  # by whether a JSON Schema is asked for
        self._is_usual = not {"messages", "seed"} & config.extra_body.keys()

    def write(self, request: Request, structured: bool) -> bytes:
        """The JSON of `body_of`, in another order."""
        asks_for_json = structured and request.kind is RequestKind.REASON
        if asks_for_json not in self._common:
            body = body_of(request, self._config, structured)
            common = {name: value for name, value in body.items() if name not in ("messages", "seed")}
            self._common[asks_for_json] = json.dumps(common)[1:]
        seed = f'"seed":{_seed(request)},' if self._config.send_seed else ""
        text = f'{{"messages":{request.messages_json},{seed}{self._common[asks_for_json]}'
        if self._is_usual:
            with suppress(UnicodeEncodeError):  # half of a pair, which only an escape can spell
                return text.encode()
        return json.dumps(body_of(request, self._config, structured)).encode()


def _seed(request: Request) -> int:
    """Another seed for every task, kind, sample and turn; 0 to 2**31 - 1."""
    text = f"{request.seed} {request.task.task_id} {request.kind.value} {request.sample} {request.turn}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1


def read_answer(request: Request, reply: Any, server: str = "", teacher: str = "") -> Answer:
    """The answer in a reply with status 200; six steps in JSON become six steps under headings.

    Raises:
        TryAgain: the reply is damaged or empty.
        RequestFailed: the model refused, or its reply was cut off before it was of any use.
    """
    choice, message = _message_of(reply)
    usage, finish = read_usage(reply), str(choice.get("finish_reason") or "")
    text, thoughts = split_thoughts(_text_of(message))
    shown = message.get("reasoning_content") or message.get("reasoning")
    thoughts = "\n".join(part for part in (clean(shown) if isinstance(shown, str) else "", thoughts) if part)
    if refused := message.get("refusal"):
        raise RequestFailed("refused by the model", one_line(refused), usage)
    if finish == "content_filter":
        raise RequestFailed("stopped by the server's content filter", one_line(text), usage)
    if request.kind is RequestKind.REASON:
        text = steps_from_json(text) or text
    if finish == "length" and not _is_usable(request, text):
        raise RequestFailed("truncated at max_tokens", f"after {usage.completion_tokens} tokens", usage)
    if not text.strip():
        raise TryAgain("empty reply", usage=usage)
    return Answer(
        text,
        thoughts=thoughts,
        finish_reason=finish,
        logprobs=_logprobs(choice),
        usage=usage,
        server=server,
        served_model=_served_model(reply),
        teacher=teacher,
    )


def _message_of(reply: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
    except (KeyError, IndexError, TypeError) as error:
        raise TryAgain(f"reply without a message: {one_line(reply)}") from error
    if not isinstance(message, dict):
        raise TryAgain(f"reply without a message: {one_line(reply)}")
    return choice, message


def _text_of(message: dict[str, Any]) -> str:
    """The content of a message: a text, or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "".join(part for part in parts if isinstance(part, str))
    return clean(content) if isinstance(content, str) else ""


def clean(text: str) -> str:
    """The text as valid Unicode: surrogates that are no pair become U+FFFD, so that files can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def split_thoughts(text: str) -> tuple[str, str]:
    """A reply without what the model thought before it, and the thoughts.

    Some servers show the end tag alone, since the prompt holds the other; thoughts without an end are all there is.
    """
    if "<" not in text:
        return text, ""
    thoughts = [match[2].strip() for match in _THOUGHTS.finditer(text)]
    rest = _THOUGHTS.sub("", text)
    if end := _END_OF_THOUGHTS.search(rest):
        thoughts.append(rest[: end.start()].strip())
        rest = rest[end.end() :]
    if _OPEN_THOUGHTS.match(rest):
        thoughts.append(_OPEN_THOUGHTS.sub("", rest, count=1).strip())
        rest = ""
    return (rest.lstrip() if thoughts else rest), "\n".join(thoughts)


def steps_from_json(text: str) -> str:
    """Six steps and their claims as headed text, if the reply holds a JSON object with all steps; else nothing.

    A fence around it, further keys, and names with other case or underscores do no harm.
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        value = _decode_leniently(text[start : end + 1]) if start >= 0 else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    found = {_step_named(str(key)): _prose(item) for key, item in value.items()}
    if not all(found.get(step) for step in STEPS):
        return ""
    steps = [ReasoningStep(step, found[step]) for step in STEPS]
    return clean(render_analysis(steps, stated_claims(value.get(CLAIMS))))


@lru_cache(maxsize=256)
def _step_named(key: str) -> str:
    """The step that a reply calls by some name; "" for none."""
    return _STEP_NAMES.get(re.sub(r"[\W_]+", "", key.lower()), "")


def _prose(value: Any) -> str:
    """A step's text; lists are lines."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(_prose, value)))
    return value.strip() if isinstance(value, str) else ""


def _is_usable(request: Request, text: str) -> bool:
    """Whether a reply that was cut off holds what was asked for."""
    if request.kind is RequestKind.REASON:
        return len(parse_steps(text)) == len(STEPS)
    fences = len(re.findall(r"^[ \t]*(?:```|~~~)", text, re.MULTILINE))
    return fences > 0 and fences % 2 == 0


def read_usage(reply: Any) -> Usage:
    """Tokens of a reply, 0 where the server does not say."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return Usage()

    spent, read = usage.get("completion_tokens_details"), usage.get("prompt_tokens_details")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(spent.get("reasoning_tokens")) if isinstance(spent, dict) else 0,
        _count(read.get("cached_tokens")) if isinstance(read, dict) else 0,
    )


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and 0 < value < 2**40 else 0


def _logprobs(choice: dict[str, Any]) -> tuple[float, ...]:
    if choice.get("logprobs"):
        with suppress(KeyError, TypeError, ValueError):
            return tuple(float(token["logprob"]) for token in choice["logprobs"]["content"])
    return ()


def _served_model(reply: dict[str, Any]) -> str:
    model, revision = reply.get("model"), reply.get("system_fingerprint")
    if not revision or not isinstance(revision, str):
        return clean(model) if isinstance(model, str) else ""
    return clean(f"{model}@{revision}" if model and isinstance(model, str) else revision)


def check_status(status: int, reply: Any, url: str, model: str) -> None:
    """Nothing for a reply that may hold an answer. Some servers wrap errors in status 200.

    Raises:
        TryAgain: trying again may help.
        RequestFailed: the server refuses this request alone.
        MusadataError: it would refuse every request.
    """
    if status == 200 and not (isinstance(reply, dict) and reply.get("error") and not reply.get("choices")):
        return
    said, code = _said(reply), _code(reply)
    status = code if status == 200 and isinstance(code, int) and 400 <= code < 600 else status
    words = f"{code} {said}".lower()
    if status == 402 or any(word in words for word in _NO_MONEY):
        raise MusadataError(
            f"the account has no quota left ({status}: {said})", where=url, remedy="add credit or use another key"
        )
    if status in (401, 403) or any(word in words for word in _BAD_KEY):
        raise MusadataError(
            f"the key was refused ({status}: {said})", where=url, remedy="set MUSADATA_API_KEY or OPENAI_API_KEY"
        )
    if status in (404, 405) or any(word in words for word in _NO_MODEL):
        raise MusadataError(
            f"no such model or path ({status}: {said})",
            where=url,
            remedy=f"check teacher.base_url (it ends in /v1) and teacher.model ({model})",
        )
    if status in _TRY_AGAIN or status >= 500 or status == 200:
        raise TryAgain(f"{status}: {said}", overloaded=status in (429, 503))
    too_long = any(word in said.lower() for word in ("context", "too long"))
    if status in _REFUSED and too_long and "is too large" not in said:  # that is about max_tokens
        raise RequestFailed("prompt too long for the model", said)
    raise RequestFailed(f"request refused ({status})", said)


def retry_delay(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait, 0 if it does not; at most two minutes."""
    value = headers.get("retry-after", "")
    wait = 0.0
    with suppress(ValueError, TypeError):
        wait = float(value) if _is_number(value) else (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    return min(max(wait, 0.0), _LONGEST_WAIT_S)


def rate_limit_pause(headers: Mapping[str, str]) -> float:
    """Seconds until the server takes requests again, by its `x-ratelimit-` headers; 0 while something is left."""
    pauses = [0.0]
    for what in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{what}") == "0":
            pauses.append(_duration(headers.get(f"x-ratelimit-reset-{what}", "")))
    return min(max(pauses), _LONGEST_WAIT_S)


def _duration(text: str) -> float:
    """Seconds of "1.5", "90s", "6m0s" or "20ms"; 0 for anything else."""
    if _is_number(text):
        return float(text)
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", text):
        return 0.0
    return sum(float(number) * units[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text))


def _is_number(value: str) -> bool:
    try:
        return 0 <= float(value) < 1e9
    except ValueError:
        return False


def _said(reply: Any) -> str:
    """The server's own words, shortened to one line."""
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    text = error.get("message", error) if isinstance(error, dict) else error
    return one_line(text)


def _code(reply: Any) -> Any:
    error = reply.get("error") if isinstance(reply, dict) else None
    if not isinstance(error, dict):
        return ""
    code = error.get("code") or error.get("status") or error.get("type") or ""
    return int(code) if isinstance(code, str) and code.isdigit() else code


def one_line(value: Any) -> str:
    """Foreign words, short enough for a message."""
    return clean(" ".join(str(value).split())[:200])
