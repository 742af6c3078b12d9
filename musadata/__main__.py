"""`python -m musadata`."""

import sys

from musadata.cli import main

if __name__ == "__main__":
    sys.exit(main())
