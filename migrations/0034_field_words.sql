-- Tables, columns and indexes are called what the field calls them. Nothing else changes.
ALTER TABLE purses RENAME TO budget_accounts;
ALTER TABLE purse_reservations RENAME TO budget_reservations;
ALTER TABLE budget_reservations RENAME COLUMN purses_json TO accounts_json;
ALTER TABLE responsibilities RENAME COLUMN slot_terms_json TO slot_options_json;
ALTER TABLE responsibilities RENAME COLUMN run_terms_json TO run_options_json;
ALTER TABLE responsibility_slots RENAME COLUMN run_terms_json TO run_options_json;
ALTER TABLE provider_sessions RENAME COLUMN terms_sha256 TO options_sha256;
ALTER TABLE mailbox_letters RENAME COLUMN fate TO outcome;
ALTER TABLE notices RENAME COLUMN told_at TO notified_at;
ALTER TABLE filed_told RENAME TO filed_summaries;
ALTER TABLE filed_summaries RENAME COLUMN told_at TO sent_at;
ALTER TABLE upkeep RENAME TO maintenance;

DROP INDEX notices_untold;
CREATE INDEX notices_pending ON notices (cause, seq) WHERE notified_at IS NULL;
DROP INDEX notices_told;
CREATE INDEX notices_notified ON notices (cause, notified_at) WHERE notified_at IS NOT NULL;
DROP INDEX runs_suspect;
CREATE INDEX runs_poison ON runs (seq) WHERE crashes >= 2 AND state IN ('queued', 'running');

UPDATE runs SET limits_json = replace(limits_json, '"purse":', '"account":') WHERE limits_json IS NOT NULL;
ALTER TABLE notices RENAME COLUMN raised_at TO emitted_at;
