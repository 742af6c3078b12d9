"""Token counts by a tokenizer that needs no download: Tekken, whose 131,072 tokens lie in the package mistral-common.

Byte-level BPE that splits digits one by one, as Qwen's and DeepSeek's do; on kernels those differ from it by a few
percent.
"""

import base64
import json
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from musadata.training_rows import ChatMessage

if TYPE_CHECKING:
    import tiktoken

TOKENIZER = "tekken_240911"


@cache
def _load() -> "tiktoken.Encoding":
    """As mistral-common reads the file, without its imports, which take three times as long."""
    import tiktoken

    model = json.loads(files("mistral_common").joinpath("data", f"{TOKENIZER}.json").read_bytes())
    size = model["config"]["default_vocab_size"] - model["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in model["vocab"][:size]}
    return tiktoken.Encoding(TOKENIZER, pat_str=model["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})


@lru_cache(maxsize=1024)  # the rows of a task share messages
def count_tokens(text: str) -> int:
    """Tokens of a text."""
    return len(_load().encode_ordinary(text))


def count_columns(**columns: Sequence[ChatMessage]) -> dict[str, Any]:
    """`{column}_tokens` of columns that hold messages: of all contents, without the marks of a chat template."""
    return {f"{name}_tokens": sum(count_tokens(one.content) for one in column) for name, column in columns.items()}
