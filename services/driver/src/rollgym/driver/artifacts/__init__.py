"""The files of a run: their names, their writing, their reading back."""
