"""What the emulator's compiler says of candidates that language models wrote and that were once judged on a GPU.

    python -m benchmarks.published_candidates FOLDER --output build/published_candidates.json

FOLDER holds KernelBench answers as .py files, for instance docs/assets/solutions of KernelBench's leaderboard, whose
answers all compiled on a GPU. So none may be a compile error here; what the emulator cannot judge it says by name.
"""

import argparse
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measuring import report
from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.backends.emulated.execution_spaces import may_mix_spaces
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.speculative_compile import predict_sources


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    files = sorted(arguments.folder.rglob("*.py"))
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    sources = [found for text in texts for found in predict_sources(text)]
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(_compile, sources))
    refused, unsupported = (sum(text.startswith(kind) for text in said) for kind in ("error", "cannot say"))
    looked_at = sum(may_mix_spaces(one.cuda) for one in sources)
    lines = [
        ("files, calls of load_inline in them", "> 0", f"{len(files)}, {len(sources)}", bool(sources)),
        ("refused by the compiler", "0", str(refused), refused == 0),
        ("not to be judged here", "", str(unsupported), True),
        ("looked at by Clang's front end, too", "", str(looked_at), True),
    ]
    content = [{"sources": one.digest()[:16], "said": text} for one, text in zip(sources, said, strict=True)]
    report("published candidates", lines, {"candidates": content}, arguments.output)
    return 0 if refused == 0 and sources else 1


def _compile(sources: CandidateSources) -> str:
    try:
        compile_sources(sources)
    except Unsupported as gap:
        return f"cannot say: {gap}"
    except CompileError as error:  # its lines are the candidate's: only a hash of them
        return f"error: {hashlib.sha256(str(error).encode()).hexdigest()[:16]}"
    return "compiles"


if __name__ == "__main__":
    raise SystemExit(main())
