"""Where packages are introduced to each other: scenario files, wiring, runs, command line."""
