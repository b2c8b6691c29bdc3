"""Results as Python callers hold them: runs, comparisons and searches with data frames, models, reports and bundles."""
