"""The error of a wrong input."""


class InputError(ValueError):
    """A mistake of the user: the value, its place and the allowed values, in a line for each fault."""

    def __str__(self) -> str:
        """Return the message; an error of several faults has a line for each."""
        return "\n".join(map(str, self.args))
