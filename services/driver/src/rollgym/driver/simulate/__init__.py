"""The capacity simulator: the real driver under full load, measured from outside, as a table anyone can make again."""
