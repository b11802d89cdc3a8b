"""DELIVER: the stages on whole files, a verdict on whether a translation pays, and fitted things that come back."""

from relatent.deliver.anchors import STRATEGIES, anchor_rows, candidate_count, select_anchors
from relatent.deliver.compare import compare_spaces
from relatent.deliver.evaluate import evaluate_spaces
from relatent.deliver.fit import FitReport, fit_spaces, unseen_rows
from relatent.deliver.info import Fitted, describe
from relatent.deliver.loading import load
from relatent.deliver.migration import (
    Applied,
    Check,
    MigrationPlan,
    Rates,
    Status,
    Switched,
    Verification,
    apply_migration,
    cut_over,
    migration_status,
    plan_migration,
    roll_back,
    verify_migration,
)
from relatent.deliver.mixed import MixedIndex
from relatent.deliver.origins import list_origins
from relatent.deliver.project import project_space
from relatent.deliver.relevance import Relevance, read_relevance
from relatent.deliver.stitch import Stitched, stitch_space
from relatent.deliver.translate import map_space, translate_space

__all__ = [
    "STRATEGIES",
    "Applied",
    "Check",
    "FitReport",
    "Fitted",
    "MigrationPlan",
    "MixedIndex",
    "Rates",
    "Relevance",
    "Status",
    "Stitched",
    "Switched",
    "Verification",
    "anchor_rows",
    "apply_migration",
    "candidate_count",
    "compare_spaces",
    "cut_over",
    "describe",
    "evaluate_spaces",
    "fit_spaces",
    "list_origins",
    "load",
    "map_space",
    "migration_status",
    "plan_migration",
    "project_space",
    "read_relevance",
    "roll_back",
    "select_anchors",
    "stitch_space",
    "translate_space",
    "unseen_rows",
    "verify_migration",
]
