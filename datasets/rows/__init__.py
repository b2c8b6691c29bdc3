"""Rows of tables and images that no sensor here recorded: readers, owners, splits and samples."""
