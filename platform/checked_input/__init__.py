"""Checks input of users and strangers: bounds of numbers and texts, bounded readers of text, JSON and YAML files.

Schemas of particular files are not here: they lie with the code that reads the files.
"""
