"""A package that brings to tausearch one of each kind of code."""
