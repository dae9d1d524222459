"""Read charts: axes and the values of their pixels."""
