from .api import FinalResult, SearchResult, resume, search, train
from .choosing import BestFile, load_best

__all__ = ["BestFile", "FinalResult", "SearchResult", "load_best", "resume", "search", "train"]
