"""From a scenario to clients, learners, links and base stations on one clock."""
