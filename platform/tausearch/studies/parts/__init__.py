"""The searcher of a search on several benchmarks, and its parts as the units of work of a driver."""
