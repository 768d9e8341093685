"""Final runs beside each other and beside the tables of the paper, as text, tables and a figure."""
