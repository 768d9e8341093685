"""The page docs/explanation/performance.md: lines with limits, and the kept figures that they are filled from."""
