"""From stored images to the input of a backbone: augmentation, normalisation, and the recipes of benchmarks.

Not here: the decoding of image files (`data.disk`), and which benchmark takes which recipe (its own module).
"""
