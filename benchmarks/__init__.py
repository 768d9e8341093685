"""Benchmarks: every figure is a ratio or a share taken in one run, because machines are noisy. `make bench`."""
