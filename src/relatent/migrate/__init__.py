"""Migrate a store to another model: plan, apply, verify, cut over, roll back, finish and backfill."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.migrate.apply import ApplyResult as ApplyResult
    from relatent.migrate.apply import apply_migration as apply_migration
    from relatent.migrate.backfill import BackfillResult as BackfillResult
    from relatent.migrate.backfill import run_backfill as run_backfill
    from relatent.migrate.plan import MigrationPlan as MigrationPlan
    from relatent.migrate.plan import Rates as Rates
    from relatent.migrate.plan import plan_migration as plan_migration
    from relatent.migrate.rehearse import rehearse_migration as rehearse_migration
    from relatent.migrate.state import Status as Status
    from relatent.migrate.state import migration_status as migration_status
    from relatent.migrate.switch import FinishResult as FinishResult
    from relatent.migrate.switch import OldField as OldField
    from relatent.migrate.switch import SwitchResult as SwitchResult
    from relatent.migrate.switch import cut_over as cut_over
    from relatent.migrate.switch import finish_migration as finish_migration
    from relatent.migrate.switch import old_field as old_field
    from relatent.migrate.switch import roll_back as roll_back
    from relatent.migrate.verify import Check as Check
    from relatent.migrate.verify import Verification as Verification
    from relatent.migrate.verify import verify_migration as verify_migration
else:
    __getattr__, __dir__, __all__ = attach(__name__)
