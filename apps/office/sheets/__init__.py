"""Additions to openpyxl: pivot tables with cache, recalculated values, texts that cannot become formulas."""
