"""Checks input of users and strangers: ranges of numbers, limits of texts, readers of text, JSON and YAML files.

Schemas of particular files are not here: they lie with the code that reads the files.
"""
