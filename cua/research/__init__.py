"""Search, pages and files from the web or a local folder, with limits, and stored for citation."""
