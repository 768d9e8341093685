from .deleting import delete_run, size_of
from .renaming import rename_run

__all__ = ["delete_run", "rename_run", "size_of"]
