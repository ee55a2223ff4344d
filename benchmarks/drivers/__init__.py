"""The driver beside the published nemo-gym: the same agents, the same probe, in one sitting."""
