"""Evaluation of a model on a suite of tasks: runs, statistics, the folder of results and its page, comparisons."""
