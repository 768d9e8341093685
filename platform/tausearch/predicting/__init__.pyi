from .images import Looked, image_paths
from .loading import load_model, open_model
from .model import Model, Prediction
from .printing import draw, require_figure, show_predictions

__all__ = [
    "Looked",
    "Model",
    "Prediction",
    "draw",
    "image_paths",
    "load_model",
    "open_model",
    "require_figure",
    "show_predictions",
]
