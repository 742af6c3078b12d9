"""The three stages in a row, then a table of what was made.

python -m pipelines.all --config configs/quickstart.yaml --corpus build/quickstart
"""

import sys
from collections.abc import Sequence

from musadata.corpus.summary import print_summary
from pipelines.options import parse_options, run_command
from pipelines.run import run_stages
from pipelines.stage1 import Stage1
from pipelines.stage2 import Stage2
from pipelines.stage3 import Stage3


def main(argv: Sequence[str] | None = None) -> int:
    def run() -> None:
        options = parse_options(argv, "The three stages in a row.")
        run_stages([Stage1, Stage2, Stage3], options)
        print_summary(options.corpus)

    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
