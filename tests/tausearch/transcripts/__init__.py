"""What commands print and write, kept as text: whole runs with simulated trials, and what is read of them.

Where a text has changed on purpose, look at the new one and keep it: `pytest tests/tausearch/transcripts
--snapshot-update`.
"""
