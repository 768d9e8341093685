"""The science: the computation of one trial. It never imports the platform; only `trial` imports Ray.

Not here: which trials run and where their results are stored (`tausearch`), and the ranges of hyperparameters
(`search_spaces`).
"""
