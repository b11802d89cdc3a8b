"""A store moved to another model: planned, applied, verified, cut over and rolled back, a step at a time."""

from relatent.deliver.migration.applying import Applied, apply_migration
from relatent.deliver.migration.planning import MigrationPlan, plan_migration
from relatent.deliver.migration.status import Status, migration_status
from relatent.deliver.migration.switching import Switched, cut_over, roll_back
from relatent.deliver.migration.trial import Rates
from relatent.deliver.migration.verifying import Check, Verification, verify_migration

__all__ = [
    "Applied",
    "Check",
    "MigrationPlan",
    "Rates",
    "Status",
    "Switched",
    "Verification",
    "apply_migration",
    "cut_over",
    "migration_status",
    "plan_migration",
    "roll_back",
    "verify_migration",
]
