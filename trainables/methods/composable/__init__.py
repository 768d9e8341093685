"""ITA and IEL: one engine, two rules, and a task vector in one of three parametrisations.

Not here: the parametrisations (`task_vectors`), and the mixtures, probed head and Fisher (`preconsolidation`).
"""
