"""Images on disk: files, archives, Parquet and arrays; the layouts they come in; and the tool's own prepared form.

Not here: the protocols of the published datasets (`data.published`), and the transforms of an image that was decoded.
"""
