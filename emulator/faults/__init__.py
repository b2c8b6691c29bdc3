"""What fails, and when: timetables of outages, and the plan of all faults of a run."""
