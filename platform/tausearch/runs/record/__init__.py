"""The record of a run in Parquet files: one row per trial and task."""
