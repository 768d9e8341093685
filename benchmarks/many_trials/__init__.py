"""Searches of many trials that compute nothing, so that the driver, its record and its trackers are measured alone."""
