"""`python -m sightwords` is `sightwords`."""

import sys

from sightwords.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
