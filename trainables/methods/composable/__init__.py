"""ITA and IEL: one engine, two rules, and a task vector in one of three parametrisations."""
