"""Analysis of long videos: events with times, an answer that cites them, and an offline page with clips."""
