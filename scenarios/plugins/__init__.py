"""Plugins: rows for the tables of algorithms, tasks, data sets and link models, in files outside the package."""
