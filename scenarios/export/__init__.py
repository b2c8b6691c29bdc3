"""From a finished run to bundles for edge devices."""
