"""Print how many lines the tests reach, and fail below the floors: `python -m tests.coverage_floors`.

It reads the data of `coverage run`, of its process and of the processes that it started.
"""

from __future__ import annotations

import sys

from coverage import Coverage

ALL = 92.0  # percent of lines, of the three packages together
EACH = 75.0  # of any one module


def below_floor(coverage: Coverage) -> dict[str, float]:
    """Return the modules below the floor, with the percentage of their lines that tests reach."""
    found = {}
    for module in sorted(coverage.get_data().measured_files()):
        _, lines, _, missing, _ = coverage.analysis2(module)
        if lines and (reached := 100.0 * (len(lines) - len(missing)) / len(lines)) < EACH:
            found[module] = reached
    return found


def main() -> int:
    coverage = Coverage()
    coverage.combine()
    coverage.save()
    total = coverage.report(show_missing=True)
    low = below_floor(coverage)
    for module, reached in low.items():
        print(f"{module}: {reached:.0f} % of its lines, must be {EACH:g} or more", file=sys.stderr)
    if total < ALL:
        print(f"{total:.1f} % of all lines, must be {ALL:g} or more", file=sys.stderr)
    return 1 if low or total < ALL else 0


if __name__ == "__main__":
    sys.exit(main())
