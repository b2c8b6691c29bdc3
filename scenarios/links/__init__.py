"""Links of a run: from the sections of a scenario to channels, radio bands, queues and replays of traces."""
