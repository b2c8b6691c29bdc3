"""Everything recorded: readers, windows, partitions, baselines."""
