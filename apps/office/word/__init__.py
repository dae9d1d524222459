"""Additions to python-docx: comments on words, tracked changes, contents, captions, footnotes."""
