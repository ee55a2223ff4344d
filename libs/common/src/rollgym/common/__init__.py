"""What every Rollgym process shares. Knows no service."""

__version__ = "0.1.0"
