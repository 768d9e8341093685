"""SEED: experts that specialise, one trained per task, and a Gaussian per class in the features of each.

Not here: the Gaussian mixtures with which ITA and IEL replace past data (`preconsolidation`).
"""
