"""Recorded tables of configurations, on which any sampler can be tried without training: `load`."""

from tausearch.studies import ConfigurationTable, load_table as load

__all__ = ["ConfigurationTable", "load"]
