from .measured import bytes_of, seconds_per_trial
from .outlook import Preview, preview, preview_of

__all__ = ["Preview", "bytes_of", "preview", "preview_of", "seconds_per_trial"]
