-- A `missed` row stands for several slots; a slot that could not fire says why; a run finds its slot.
ALTER TABLE responsibility_slots ADD COLUMN missed_until TEXT; -- last slot of the row, when it stands for several
ALTER TABLE responsibility_slots ADD COLUMN note TEXT;         -- why the slot did not fire, when there is more to say
CREATE INDEX responsibility_slots_by_run ON responsibility_slots (run_id) WHERE run_id IS NOT NULL;
