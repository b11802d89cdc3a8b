"""A store moved to another model: planned, applied, verified, cut over, rolled back and finished, a step at a time."""

from relatent.deliver.migration.applying import Applied, apply_migration
from relatent.deliver.migration.finishing import Finished, OldField, finish_migration, old_field
from relatent.deliver.migration.planning import MigrationPlan, plan_migration
from relatent.deliver.migration.status import Status, migration_status
from relatent.deliver.migration.switching import Switched, cut_over, roll_back
from relatent.deliver.migration.trial import Rates
from relatent.deliver.migration.verifying import Check, Verification, verify_migration

__all__ = [
    "Applied",
    "Check",
    "Finished",
    "MigrationPlan",
    "OldField",
    "Rates",
    "Status",
    "Switched",
    "Verification",
    "apply_migration",
    "cut_over",
    "finish_migration",
    "migration_status",
    "old_field",
    "plan_migration",
    "roll_back",
    "verify_migration",
]
