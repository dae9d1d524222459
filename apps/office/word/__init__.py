"""What python-docx lacks: comments on words, tracked changes, contents, captions, footnotes."""
