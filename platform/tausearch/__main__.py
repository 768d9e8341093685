"""`python -m tausearch`: the command line."""

from tausearch.cli import main

if __name__ == "__main__":
    main()
