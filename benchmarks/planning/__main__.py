"""Write the tables of docs/explanation/scale.md: `python -m benchmarks.planning`."""

from __future__ import annotations

from benchmarks.planning.page import write_page

if __name__ == "__main__":
    write_page()
