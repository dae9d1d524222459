"""Desktop assistant: sessions with an agent, their HTTP API, and a page in the browser on top of both."""
