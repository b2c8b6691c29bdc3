"""The tasks that base stations can learn; one file per task, and the table TASKS."""
