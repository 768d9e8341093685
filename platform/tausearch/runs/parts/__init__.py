"""Searches on several benchmarks: their specification, their parts, and how accuracies on several become one value."""
