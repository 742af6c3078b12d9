"""MinHash signatures for near-duplicates: ours against datatrove's, on the same texts, one core, shingling included.

python -m benchmarks.duplicates [--count 400] [--output benchmarks/results/duplicates.json]

Needs `pip install datatrove spacy "xxhash<4"`. The texts are generated tasks, as many random graphs as
composed modules, and the classes of the installed torch.nn. Texts are half of the step: what it drops also has the
same operators.
"""

import argparse
import os
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.disguise import reformat, rename
from benchmarks.measuring import report
from musadata.sources.composed.recipe import Structures
from musadata.sources.nnsmith import print_graphs
from musadata.tasks.text import SHINGLE, similarity, text_signature

PROMISED = 2.0
THRESHOLD = 0.85
REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    structures = Structures(1)
    generated = [text for _, text in print_graphs(1, 0, options.count - 1, 6) if text]
    generated += [structures.compose(index).text for index in range(options.count)]
    texts = generated + read_classes()
    ours = measure(text_signature, texts)
    theirs = measure(datatrove_signature(), texts)
    found = sum(is_near(text, index) for index, text in enumerate(generated)) / len(generated)
    strangers = near_pairs(generated)
    rows = [
        (
            "signatures a second, ours to datatrove's",
            f">= {PROMISED}x",
            f"{theirs / ours:.1f}x",
            theirs >= PROMISED * ours,
        ),
        ("renamed and reformatted copies found", "", f"{100 * found:.1f} %", True),
        ("of all pairs of generated tasks, copies by text alone", "", f"{100 * strangers:.3f} %", True),
    ]
    details = {
        "texts": len(texts),
        "bytes": sum(map(len, texts)),
        "ours_per_second": len(texts) / ours,
        "datatrove_per_second": len(texts) / theirs,
    }
    report("near-duplicate signatures", rows, details, options.output)
    print(details)


def read_classes() -> list[str]:
    """Every top-level class of torch.nn.modules, as text."""
    files = sorted((Path(torch.__file__).parent / "nn" / "modules").glob("*.py"))
    pieces = [piece for file in files for piece in re.split(r"(?m)^(?=class )", file.read_text(encoding="utf-8"))]
    return [piece for piece in pieces if piece.startswith("class ")]


def measure(sign: Callable[[str], object], texts: list[str]) -> float:
    """CPU seconds for all texts, the best of several passes after a first one that warms caches."""
    passes = []
    for _ in range(REPEATS):
        start = time.process_time()
        for text in texts:
            sign(text)
        passes.append(time.process_time() - start)
    return min(passes)


def datatrove_signature() -> Callable[[str], object]:
    """Its default tokeniser and hash, with as many values (14 buckets of 9) and as long shingles as ours."""
    try:
        from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
    except ImportError as error:
        raise SystemExit(
            f"benchmark: datatrove is missing ({error}); pip install datatrove spacy 'xxhash<4'"
        ) from error
    config = MinhashConfig(num_buckets=14, hashes_per_bucket=9, n_grams=SHINGLE)
    step = MinhashDedupSignature(output_folder=tempfile.mkdtemp(), config=config)
    return lambda text: step.get_signature(step.get_shingles(text))


def is_near(text: str, index: int) -> bool:
    """Whether a renamed and reformatted copy of a text is found."""
    generator = random.Random(index)
    copy = reformat(rename(text, generator), generator)
    return similarity(text_signature(text), text_signature(copy)) >= THRESHOLD


def near_pairs(texts: list[str]) -> float:
    """The share of all pairs of texts that are as similar as copies."""
    signatures = np.array([text_signature(text) for text in texts], dtype=np.uint64)
    found = sum(
        int(((signatures[index + 1 :] == signatures[index]).mean(axis=1) >= THRESHOLD).sum())
        for index in range(len(texts))
    )
    return found / (len(texts) * (len(texts) - 1) / 2)


if __name__ == "__main__":
    main()
