"""The paper's results as data: one YAML file, checked when it is read."""

from __future__ import annotations

from tausearch.paper.results import PaperBenchmark, PaperCell, PaperResults, load_results, paper_results

__all__ = ["PaperBenchmark", "PaperCell", "PaperResults", "load_results", "paper_results"]
