-- Time spent working on a run, over all its attempts: `duration_max` counts it, and not the time that a run waits.
ALTER TABLE runs ADD COLUMN worked_ms INTEGER NOT NULL DEFAULT 0;
