"""From votes to results, and how large a study must be.

count.py         counts the valid votes of a study
statistics.py    majority, error bars, Fleiss' kappa, agreement of judges
tables.py        the tables of the paper, JSON and files
disagreement.py  where people and metrics prefer different captions
power.py         how many pairs and judges a difference needs
"""
