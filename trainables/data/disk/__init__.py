"""Images on disk: files, archives, Parquet and arrays; the layouts they come in; and the tool's own prepared form."""
