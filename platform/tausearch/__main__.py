"""`python -m tausearch`: the command line."""

import os
import sys
from contextlib import suppress

with suppress(FileNotFoundError):  # the working folder is gone, which `main` says
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]  # `python -m` puts the working folder there; a file of a package's name there must not run

from tausearch.cli import process

if __name__ == "__main__":
    process()
