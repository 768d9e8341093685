"""The searcher of a search on several benchmarks, and the parts of its trials, which Ray Tune runs."""
