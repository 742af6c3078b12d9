"""Rejection sampling: answers of a served model to the prompts of `rl`; those that the verifier accepts are kept.

python sample_accepted.py --rows ROWS/grpo/train.parquet --base-url URL --model MODEL --answers FILE --to FOLDER

Answers are judged by the service at MUSADATA_SERVICE. The same command goes on where it ended.
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from openai import OpenAI

from musadata.rewards import RewardFunction

ROWS = "train.parquet"
PROMPTS_AT_ONCE = 16  # whose answers are judged


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--answers", type=Path, required=True, help="keeps all that were judged")
    parser.add_argument("--to", type=Path, required=True, help="folder for the rows to train on")
    parser.add_argument("--samples", type=int, default=8, help="answers to each prompt")
    parser.add_argument("--keep", type=int, default=4, help="different answers to a prompt that are kept, best first")
    parser.add_argument("--least", type=float, default=1.0, help="reward from which an answer is kept; 1 is accepted")
    parser.add_argument("--limit", type=int, default=0, help="only the first prompts; 0 for all")
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--concurrency", type=int, default=64, help="requests at once")
    return parser.parse_args()


def ask(client: OpenAI, arguments: argparse.Namespace, prompt: list[dict[str, str]]) -> str:
    """An answer; empty if it was cut off."""
    reply = client.chat.completions.create(
        model=arguments.model,
        messages=prompt,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
    )
    return (reply.choices[0].message.content or "") if reply.choices[0].finish_reason == "stop" else ""


def judge(function: RewardFunction, answers: list[str], truth: Any) -> list[dict[str, Any]]:
    """Answers with their rewards, without those that were cut off and those that the service did not judge."""
    given = [answer for answer in dict.fromkeys(answers) if answer]
    scores = function.score(given, [truth] * len(given))
    pairs = [(answer, score.reward) for answer, score in zip(given, scores, strict=True)]
    return [{"text": text, "reward": reward} for text, reward in pairs if reward is not None]


def sample(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each row's number with its judged answers, row by row as the model gives them."""
    client = OpenAI(base_url=arguments.base_url, api_key="none", max_retries=5, timeout=3600)
    with (
        RewardFunction() as function,
        ThreadPoolExecutor(arguments.concurrency) as asking,
        ThreadPoolExecutor(PROMPTS_AT_ONCE) as judging,
    ):

        def finish(row: dict[str, Any], answers: list[Future[str]]) -> dict[str, Any]:
            judged = judge(function, [one.result() for one in answers], row["reward_model"])
            return {"row": row["row"], "answers": judged}

        asked = [
            [asking.submit(ask, client, arguments, row["prompt"]) for _ in range(arguments.samples)] for row in rows
        ]
        yield from judging.map(finish, rows, asked)


def main() -> None:
    arguments = read_arguments()
    rows = pq.read_table(arguments.rows, columns=["prompt", "reward_model"]).to_pylist()
    rows = [row | {"row": number} for number, row in enumerate(rows)][: arguments.limit or None]
    arguments.to.mkdir(parents=True, exist_ok=True)
    with arguments.answers.open("a+", encoding="utf-8") as file:
        file.seek(0)
        done = {one["row"]: one["answers"] for one in map(json.loads, file)}
        for one in sample(arguments, [row for row in rows if row["row"] not in done]):
            file.write(json.dumps(one) + "\n")
            file.flush()
            done[one["row"]] = one["answers"]
    kept = []
    for row in rows:
        good = sorted((one for one in done[row["row"]] if one["reward"] >= arguments.least), key=lambda a: -a["reward"])
        kept += [(row["prompt"], [{"role": "assistant", "content": one["text"]}]) for one in good[: arguments.keep]]
    judged = sum(map(len, done.values()))
    print(f"{len(rows)} prompts, {judged} different answers judged, {len(kept)} kept")
    if kept:
        columns = {"prompt": [prompt for prompt, _ in kept], "completion": [completion for _, completion in kept]}
        pq.write_table(pa.table(columns), arguments.to / ROWS)


if __name__ == "__main__":
    main()
