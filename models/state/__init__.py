"""What learners remember, as plain trees."""
