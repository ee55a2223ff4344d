"""Sessions under load, as tables: the busy bundle, the herd, throughput."""
