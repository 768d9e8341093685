from .results import PaperBenchmark, PaperCell, PaperResults, load_results, paper_results

__all__ = [
    "PaperBenchmark",
    "PaperCell",
    "PaperResults",
    "load_results",
    "paper_results",
]
