"""Readers of DeepSense 6G data, in the published layout and in the gathered one."""
