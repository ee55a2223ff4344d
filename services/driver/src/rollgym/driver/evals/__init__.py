"""What is made of finished rollouts: aggregates over shards, profiles per task, comparisons, the report.

Reads artifacts, never a live run; keeps numbers, never payloads.
"""
