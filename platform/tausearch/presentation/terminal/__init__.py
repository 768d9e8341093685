"""Text, tables and progress in a terminal."""
