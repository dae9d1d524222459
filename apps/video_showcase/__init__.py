"""Hours of video in: events with their times, an answer that cites them, and a page with clips that opens offline."""
