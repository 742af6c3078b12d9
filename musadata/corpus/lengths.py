"""How long the rows for trainers are, in tokens (see `musadata.tokens`), and the maximal lengths that keep them."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

# Of each dataset, what a row takes in a trainer: the prompt, and with it what is learnt or sampled.
TOTALS = {
    "sft": "greatest(prompt_tokens + completion_tokens, conversation_tokens)",
    "rft": "greatest(prompt_tokens + completion_tokens, conversation_tokens)",
    "preferences": "prompt_tokens + greatest(chosen_tokens, rejected_tokens)",
    "rl": "prompt_tokens",
}
HEADINGS = ("dataset", "rows", "median", "95 %", "99 %", "longest", "longest prompt", "keeps 99 %", "keeps all")
_SPARE, _MARKS, _STEP = 1.1, 64, 1024  # other tokenizers, marks of a chat template, and round figures


def describe_lengths(connection: "duckdb.DuckDBPyConnection") -> dict[str, dict[str, int]]:
    """{dataset or "sft/family": figures as `HEADINGS` names them}, of datasets with rows."""
    found = {}
    for dataset, total in TOTALS.items():
        groups = [(dataset, "TRUE")]
        if dataset == "sft":
            families = connection.sql("SELECT DISTINCT family FROM sft ORDER BY 1").fetchall()
            groups += [(f"sft/{family}", f"family = '{family}'") for (family,) in families]
        for name, condition in groups:
            rows, *figures = connection.sql(
                f"""SELECT count(*), quantile_disc({total}, 0.5), quantile_disc({total}, 0.95),
                    quantile_disc({total}, 0.99), max({total}), max(prompt_tokens) FROM {dataset} WHERE {condition}"""
            ).fetchall()[0]
            if rows:
                median, p95, p99, longest, prompt = figures
                found[name] = {
                    "rows": rows,
                    "p50": median,
                    "p95": p95,
                    "p99": p99,
                    "max": longest,
                    "max_prompt": prompt,
                    "keeps_99": setting(p99),
                    "keeps_all": setting(longest),
                }
    return found


def setting(tokens: int) -> int:
    """A trainer's maximal length that keeps rows of so many tokens by Tekken."""
    return math.ceil((tokens * _SPARE + _MARKS) / _STEP) * _STEP


def list_lengths(manifest: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A row for each group, as `HEADINGS` names its columns."""
    return [(f"`{name}`", *figures.values()) for name, figures in manifest["lengths"].items()]
