"""Everything that happens in time and space: clock, world, links, transport, nodes, edge devices."""
