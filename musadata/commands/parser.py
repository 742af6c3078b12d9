"""How command lines are read: what is wrong with one is told in one line, and no option may be abbreviated."""

import argparse
import sys
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Ends with exit code 2 and one line on a wrong command line."""

    def __init__(self, **options: Any):
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        print(f"musadata: {' '.join(message.split())}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)
