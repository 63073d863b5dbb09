-- Options that a rule for letters gave a run, as `responsibility_slots` has them; NULL: the defaults.
ALTER TABLE runs ADD COLUMN run_options_json TEXT;
ALTER TABLE runs ADD COLUMN output_schema TEXT;

-- Drafts: mails that wait for an owner while their run does not. The message that shows the draft in its thread; NULL: no
-- draft. Kinds are `call` and `reply`, since the check of 0039 knows no other.
ALTER TABLE approvals ADD COLUMN draft_id TEXT REFERENCES messages (id);
ALTER TABLE approvals ADD COLUMN edits INTEGER NOT NULL DEFAULT 0;
CREATE INDEX approvals_by_draft ON approvals (draft_id) WHERE draft_id IS NOT NULL;

-- What a draft was before an owner edited it.
CREATE TABLE approval_versions (
  approval_id TEXT NOT NULL REFERENCES approvals (id),
  version INTEGER NOT NULL,         -- 0: as its run wrote it
  call_sha256 TEXT NOT NULL,
  view_text TEXT NOT NULL,
  mail_json TEXT NOT NULL,
  mail_bytes BLOB NOT NULL,
  replaced_at TEXT NOT NULL,
  replaced_by TEXT NOT NULL,
  PRIMARY KEY (approval_id, version)
) STRICT, WITHOUT ROWID;

-- Digest of what an owner was shown with an address; NULL: the only one that its question had.
ALTER TABLE approval_tokens ADD COLUMN call_sha256 TEXT;
