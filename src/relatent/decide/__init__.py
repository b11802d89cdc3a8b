"""DECIDE: what to do about a new model: the options, the rule, the verdict, and what each costs."""

from relatent.decide.anchors import AnchorDiagnosis, NextAnchors, diagnose_anchors, plan_anchors
from relatent.decide.backfill import Backfill, BackfillReport, ExpectedError, backfill_order, plan_backfill
from relatent.decide.evaluation import ItemScores, evaluate_items, evaluate_spaces
from relatent.decide.options import OptionScores, Search, score_options
from relatent.decide.relevance import Relevance, read_relevance
from relatent.decide.rule import Cost, Decision, Rule
from relatent.decide.storage import Storage, StorageCost, StorageReport, storage_costs, storages
from relatent.decide.threshold import Threshold, Thresholds, threshold_spaces, thresholds
from relatent.decide.verdict import Verdict, verdict_of

__all__ = [
    "AnchorDiagnosis",
    "Backfill",
    "BackfillReport",
    "Cost",
    "Decision",
    "ExpectedError",
    "ItemScores",
    "NextAnchors",
    "OptionScores",
    "Relevance",
    "Rule",
    "Search",
    "Storage",
    "StorageCost",
    "StorageReport",
    "Threshold",
    "Thresholds",
    "Verdict",
    "backfill_order",
    "diagnose_anchors",
    "evaluate_items",
    "evaluate_spaces",
    "plan_anchors",
    "plan_backfill",
    "read_relevance",
    "score_options",
    "storage_costs",
    "storages",
    "threshold_spaces",
    "thresholds",
    "verdict_of",
]
