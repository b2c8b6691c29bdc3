"""What a user can name in a scenario: every field and every algorithm, described from the code that checks them."""
