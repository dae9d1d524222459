"""Export of a site as a Vue project: pages as components, repeated parts as components with data."""
