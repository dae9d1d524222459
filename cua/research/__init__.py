"""Search, pages and files of the web, or of a folder that stands for it; bounded, and kept for citation."""
