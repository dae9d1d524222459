"""A site as a Vue project: its pages as components, what repeats in them as components with data."""
