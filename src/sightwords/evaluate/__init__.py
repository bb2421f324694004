"""Captions and word scores in, the paper's tables out (section 6).

    results + references -> evaluate_captions -> Report -> compare_reports | save_report
    references alone     -> evaluate_baseline -> Report
    word scores          -> evaluate_words    -> WordReport
    saved rows           -> paper_tables      -> Grid

Each function is a verb of `sightwords evaluate`.
"""

from sightwords.evaluate.baselines import evaluate_baseline
from sightwords.evaluate.captions import METRICS, Report, evaluate_captions
from sightwords.evaluate.compare import ComparisonReport, compare_reports
from sightwords.evaluate.compare_report import save_comparison
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.report import save_report
from sightwords.evaluate.server import write_submission, write_zip
from sightwords.evaluate.tables import paper_tables
from sightwords.evaluate.words import WordReport, evaluate_words

__all__ = [
    "METRICS",
    "ComparisonReport",
    "Grid",
    "Report",
    "WordReport",
    "compare_reports",
    "evaluate_baseline",
    "evaluate_captions",
    "evaluate_words",
    "paper_tables",
    "save_comparison",
    "save_report",
    "write_submission",
    "write_zip",
]
