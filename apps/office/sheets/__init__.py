"""What openpyxl lacks: pivot tables with cache, recalculated values, texts that cannot turn into formulas."""
