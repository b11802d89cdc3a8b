"""DECIDE: what to do about a new model: the options, the rule, the verdict, and what each costs."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.decide.anchors import AnchorDiagnosis as AnchorDiagnosis
    from relatent.decide.anchors import NextAnchors as NextAnchors
    from relatent.decide.anchors import diagnose_anchors as diagnose_anchors
    from relatent.decide.anchors import plan_anchors as plan_anchors
    from relatent.decide.backfill import Backfill as Backfill
    from relatent.decide.backfill import BackfillReport as BackfillReport
    from relatent.decide.backfill import backfill_order as backfill_order
    from relatent.decide.backfill import plan_backfill as plan_backfill
    from relatent.decide.evaluation import ItemScores as ItemScores
    from relatent.decide.evaluation import evaluate_items as evaluate_items
    from relatent.decide.evaluation import evaluate_spaces as evaluate_spaces
    from relatent.decide.gallery import ServedIndex as ServedIndex
    from relatent.decide.held_out import HeldOut as HeldOut
    from relatent.decide.options import OptionScores as OptionScores
    from relatent.decide.options import Search as Search
    from relatent.decide.options import score_options as score_options
    from relatent.decide.queries import QueryScores as QueryScores
    from relatent.decide.queries import check_old_model as check_old_model
    from relatent.decide.queries import evaluate_queries as evaluate_queries
    from relatent.decide.queries import make_queries as make_queries
    from relatent.decide.queries import read_queries as read_queries
    from relatent.decide.relevance import Relevance as Relevance
    from relatent.decide.relevance import read_relevance as read_relevance
    from relatent.decide.rule import Cost as Cost
    from relatent.decide.rule import Decision as Decision
    from relatent.decide.rule import Rule as Rule
    from relatent.decide.storage import Storage as Storage
    from relatent.decide.storage import StorageCost as StorageCost
    from relatent.decide.storage import StorageReport as StorageReport
    from relatent.decide.storage import storage_costs as storage_costs
    from relatent.decide.storage import storages as storages
    from relatent.decide.threshold import Threshold as Threshold
    from relatent.decide.threshold import Thresholds as Thresholds
    from relatent.decide.threshold import thresholds as thresholds
    from relatent.decide.verdict import Expected as Expected
    from relatent.decide.verdict import Verdict as Verdict
    from relatent.decide.verdict import verdict_of as verdict_of
else:
    __getattr__, __dir__, __all__ = attach(__name__)
