"""Mutation tests of the science and of the platform's decisions: see docs/explanation/how-we-know.md.

mutmut writes the mutants. They are run here, and not by `mutmut run`, because that names modules after their files
(`platform/` is a source root, no package), leaves out every function with a decorator, knows no budget of time, and
runs all tests once more with each call.
"""
