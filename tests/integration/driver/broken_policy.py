"""A module that fails to import, as a policy of one's own may."""

raise ValueError("broken on purpose")
