"""Worker processes that clients of a run live in: started here, waited for, or started by Ray."""
