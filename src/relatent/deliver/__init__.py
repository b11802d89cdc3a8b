"""DELIVER: the stages on whole files, a verdict on whether a translation pays, and fitted things that come back."""

from relatent.deliver.anchors import STRATEGIES, anchor_rows, candidate_count, select_anchors
from relatent.deliver.backfill import BackfillReport, plan_backfill
from relatent.deliver.canary import CanaryCheck, check_canary, make_canary
from relatent.deliver.compare import compare_spaces
from relatent.deliver.cutoffs import threshold_spaces
from relatent.deliver.evaluate import evaluate_spaces
from relatent.deliver.fit import FitReport, fit_spaces, unseen_rows
from relatent.deliver.info import Fitted, describe
from relatent.deliver.loading import load
from relatent.deliver.migration import (
    Applied,
    Check,
    Finished,
    MigrationPlan,
    OldField,
    Rates,
    Status,
    Switched,
    Verification,
    apply_migration,
    cut_over,
    finish_migration,
    migration_status,
    old_field,
    plan_migration,
    roll_back,
    verify_migration,
)
from relatent.deliver.next_anchors import NextAnchors, plan_anchors
from relatent.deliver.origins import list_origins
from relatent.deliver.parts import ResumeWarning
from relatent.deliver.project import project_space
from relatent.deliver.relevance import Relevance, read_relevance
from relatent.deliver.report import (
    Findings,
    report_comparison,
    report_plan,
    report_spaces,
    report_translator,
    report_verification,
    write_report,
)
from relatent.deliver.stitch import Stitched, stitch_space
from relatent.deliver.tokens import TokenScores, evaluate_tokens, fit_tokens, read_tokens, translate_tokens
from relatent.deliver.translate import map_space, translate_space
from relatent.deliver.watch import Watched, watch_batch

__all__ = [
    "STRATEGIES",
    "Applied",
    "BackfillReport",
    "CanaryCheck",
    "Check",
    "Findings",
    "Finished",
    "FitReport",
    "Fitted",
    "MigrationPlan",
    "NextAnchors",
    "OldField",
    "Rates",
    "Relevance",
    "ResumeWarning",
    "Status",
    "Stitched",
    "Switched",
    "TokenScores",
    "Verification",
    "Watched",
    "anchor_rows",
    "apply_migration",
    "candidate_count",
    "check_canary",
    "compare_spaces",
    "cut_over",
    "describe",
    "evaluate_spaces",
    "evaluate_tokens",
    "finish_migration",
    "fit_spaces",
    "fit_tokens",
    "list_origins",
    "load",
    "make_canary",
    "map_space",
    "migration_status",
    "old_field",
    "plan_anchors",
    "plan_backfill",
    "plan_migration",
    "project_space",
    "read_relevance",
    "read_tokens",
    "report_comparison",
    "report_plan",
    "report_spaces",
    "report_translator",
    "report_verification",
    "roll_back",
    "select_anchors",
    "stitch_space",
    "threshold_spaces",
    "translate_space",
    "translate_tokens",
    "unseen_rows",
    "verify_migration",
    "watch_batch",
    "write_report",
]
