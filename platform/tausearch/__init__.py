"""tausearch: find the hyperparameters with which a composable incremental learner does best.

What it offers stands in the stub beside this file. A name is loaded when it is first used: torch and Ray take seconds
to import, and `--help` needs neither.
"""

import logging
import warnings
from importlib.metadata import version

import lazy_loader

# In a notebook tqdm and Ray ask for ipywidgets, which our results do not need.
warnings.filterwarnings("ignore", message="IProgress not found")
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version("tausearch")
