"""What base stations can be asked to learn; one file per question, and the table TASKS."""
