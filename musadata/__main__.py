"""`python -m musadata`."""

import sys

from musadata.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
