"""The three stages in a row, then a table of what was made.

python -m pipelines.all --config configs/quickstart.yaml --corpus build/quickstart
"""

import sys
from collections.abc import Sequence

from musadata.corpus.summary import print_summary
from pipelines import stage1, stage2, stage3
from pipelines.options import parse_options, run_command


def main(argv: Sequence[str] | None = None) -> int:
    def run() -> None:
        options = parse_options(argv, "The three stages in a row.")
        for stage in (stage1, stage2, stage3):
            stage.run(options)
        print_summary(options.corpus)

    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
