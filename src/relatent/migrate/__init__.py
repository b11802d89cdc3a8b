"""A store moved to another model: planned, applied, verified, cut over, rolled back and finished, a step at a time."""

from relatent.migrate.apply import ApplyResult, apply_migration
from relatent.migrate.plan import MigrationPlan, Rates, plan_migration
from relatent.migrate.status import Status, migration_status
from relatent.migrate.switch import (
    FinishResult,
    OldField,
    SwitchResult,
    cut_over,
    finish_migration,
    old_field,
    roll_back,
)
from relatent.migrate.verify import Check, Verification, verify_migration

__all__ = [
    "ApplyResult",
    "Check",
    "FinishResult",
    "MigrationPlan",
    "OldField",
    "Rates",
    "Status",
    "SwitchResult",
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
