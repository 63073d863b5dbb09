-- The tables, for both databases: this text is SQLite's, and `store/migrations.rs` makes that of PostgreSQL from it by a handful of
-- substitutions. What only one of them has is in the migrations after it. Migrations are never edited, only added.
--
-- Instants are RFC 3339 UTC texts with milliseconds; ids are UUIDv7 texts; a flag is 0 or 1; JSON is a text, byte for byte what the
-- engine wrote. `seq` is a number that the database gives: the order of arrival. In PostgreSQL two personas write at once, so a
-- number may be seen later than a higher one of the other, and that of a transaction that was rolled back is missing. A number that
-- the engine gives is NOT NULL.

CREATE TABLE engine (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  epoch INTEGER NOT NULL,            -- grows with every start; rows of an older epoch are orphans
  -- the key of the note by which our own mail is known again, made once for each database
  loop_key BLOB,
  -- the last engine, by its epoch, that was asked to end: what became of it after that counts against no run
  ended INTEGER NOT NULL DEFAULT 0,
  mark INTEGER NOT NULL DEFAULT 0,   -- counts the starts of an engine: a log that was lost is known by it (SQLite alone)
  is_copy INTEGER NOT NULL DEFAULT 0, -- 1 in a backup: an engine that works on it knows that time has passed elsewhere
  -- How the way out is, so that people see why nothing moves, and so that the owner is told once. NULL: it never failed.
  transport_state TEXT CHECK (transport_state IN ('well', 'unreachable', 'auth_failed')),
  transport_since TEXT,             -- when it entered this state
  transport_reason TEXT,            -- the server's words, or ours when it said nothing; empty when well
  transport_next_probe_at TEXT,     -- NULL when well
  filed_through INTEGER NOT NULL DEFAULT 0, -- number of the last message that the owner's list of filed letters looked at
  filed_told_at TEXT                -- when the owner last had that list; NULL: never
) STRICT;

CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  root_message_id TEXT,             -- RFC Message-ID of the oldest known letter
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  persona_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX threads_by_conversation ON threads (conversation_id, updated_at);
CREATE INDEX threads_by_persona ON threads (persona_id, updated_at);
CREATE INDEX threads_by_time ON threads (updated_at);

CREATE TABLE thread_participants (
  thread_id TEXT NOT NULL REFERENCES threads (id),
  address TEXT NOT NULL,            -- lower-case address, or `list:<List-Id>` for list mail
  joined_after INTEGER,              -- number of the last message before; NULL: from the start
  PRIMARY KEY (thread_id, address)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_participants_by_address ON thread_participants (address, thread_id);

CREATE TABLE raw_letters (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  envelope_json TEXT NOT NULL,
  bytes BLOB NOT NULL,              -- as it came; packed (`store/packing.rs`)
  size_bytes INTEGER NOT NULL,       -- of the letter as it came
  -- the `Received` field that we would have written in front of the letter (RFC 5321 section 4.4); its bytes stay as they came
  trace TEXT,
  -- since when its bytes were thrown away on purpose and are empty: whoever finds bytes that do not fit their hash can tell age
  -- from damage
  pruned_at TEXT
) STRICT;

CREATE TABLE messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  persona_id TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('inbound', 'outbound', 'synthetic')),
  message_id TEXT NOT NULL,         -- RFC Message-ID without brackets; generated when the letter had none
  in_reply_to TEXT,
  references_json TEXT NOT NULL DEFAULT '[]',
  sender TEXT NOT NULL,             -- the From header as a person reads it
  recipients_json TEXT NOT NULL DEFAULT '{}', -- {"to": [..], "cc": [..], "reply_to": [..]}
  subject TEXT NOT NULL,
  text_body TEXT NOT NULL,          -- the whole readable body
  fresh_text TEXT,                  -- the body without quoted history; NULL when equal to text_body
  html_body TEXT,
  received_at TEXT NOT NULL,
  trust TEXT NOT NULL,
  raw_id TEXT REFERENCES raw_letters (id),
  run_id TEXT,                      -- the run that wrote an outbound message
  dedup_key TEXT,
  ack_confirmed INTEGER NOT NULL DEFAULT 1,
  disposition TEXT NOT NULL DEFAULT 'run', -- run | filed:<rule> | withheld:<rule> | sent
  metadata_json TEXT NOT NULL DEFAULT '{}',
  hops INTEGER NOT NULL DEFAULT 0,   -- mails in a row that personas wrote, this one included; 0 is what a person wrote
  readers_json TEXT                 -- keys of those whom a letter is known to be by and to; NULL: all of its thread
) STRICT;
CREATE INDEX messages_by_thread ON messages (thread_id, seq);
CREATE INDEX messages_by_dedup ON messages (persona_id, dedup_key) WHERE dedup_key IS NOT NULL;
CREATE INDEX messages_by_rfc_id ON messages (persona_id, message_id);
CREATE INDEX messages_by_run ON messages (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX messages_outbound ON messages (thread_id, seq) WHERE direction = 'outbound';
CREATE INDEX messages_by_time ON messages (persona_id, received_at);
CREATE INDEX messages_inbox ON messages (persona_id, id) WHERE direction = 'inbound' AND disposition = 'run';
CREATE INDEX messages_filed ON messages (seq, disposition)
  WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import';

CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL REFERENCES messages (id),
  persona_id TEXT NOT NULL,
  filename TEXT NOT NULL,
  declared_name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  content_id TEXT,
  bytes BLOB NOT NULL,              -- empty where a range of the letter gives them
  pruned_at TEXT,
  -- the range of the letter, as it came, that gives the bytes; NULL: they are in `bytes`
  encoding TEXT CHECK (encoding IN ('identity', 'base64', 'quoted_printable')),
  range_start INTEGER,
  range_len INTEGER
) STRICT;
CREATE INDEX attachments_by_message ON attachments (message_id);

CREATE TABLE message_links (
  persona_id TEXT NOT NULL,
  rfc_message_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  PRIMARY KEY (persona_id, rfc_message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_links_by_conversation ON message_links (conversation_id);

CREATE TABLE runs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  trigger TEXT NOT NULL,
  trigger_message_id TEXT NOT NULL REFERENCES messages (id),
  profile TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN
    ('queued', 'running', 'waiting_approval', 'waiting_retry', 'succeeded', 'failed', 'cancelled')),
  attempt INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  epoch INTEGER NOT NULL DEFAULT 0,
  cancel_requested_at TEXT,
  provider TEXT,
  model TEXT,
  stop_reason TEXT,
  error_class TEXT,
  error_message TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micros INTEGER,               -- NULL is unknown, never zero
  context_report_json BLOB,          -- what the steps of its context gave; packed (`store/packing.rs`)
  -- of that report, for statements: estimated tokens, the budget that they had, whether history was left out
  context_tokens INTEGER,
  context_budget_tokens INTEGER,
  history_is_cut INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  started_at TEXT,
  finished_at TEXT,
  behind INTEGER NOT NULL DEFAULT 0, -- 1 while another open run of its thread comes first
  budget_micros INTEGER,
  limits_json BLOB,                  -- the bounds that it began with, and where each was said; packed
  -- time spent working on it, over all its attempts: `duration_max` counts it, and not the time that a run waits
  worked_ms INTEGER NOT NULL DEFAULT 0,
  -- how often in a row it was in the engine's hands when the engine died, without having come any further
  crashes INTEGER NOT NULL DEFAULT 0,
  crashed_at INTEGER NOT NULL DEFAULT 0, -- how far it had come then: answered turns, and steps of our own loop
  alone INTEGER NOT NULL DEFAULT 0,  -- it was the only one in the engine's hands when it was last claimed
  attempts_max INTEGER,              -- how often it may be tried; NULL: as the configuration says
  -- options that a rule for letters gave it, as `responsibility_slots` has them; NULL: the defaults
  run_options_json TEXT,
  output_schema TEXT,
  -- when it was queued again, taken up or began to wait; what ended has `finished_at`
  state_at TEXT
) STRICT;
CREATE INDEX runs_open ON runs (seq) WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry');
CREATE INDEX runs_open_by_thread ON runs (thread_id, seq)
  WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry');
CREATE INDEX runs_by_thread ON runs (thread_id, seq);
CREATE INDEX runs_running ON runs (persona_id) WHERE state = 'running';
CREATE INDEX runs_by_persona ON runs (persona_id, seq);
CREATE INDEX runs_by_trigger_message ON runs (trigger_message_id);
CREATE INDEX runs_ready ON runs (persona_id, seq) WHERE behind = 0 AND state IN ('queued', 'waiting_retry');
CREATE INDEX runs_poison ON runs (seq) WHERE crashes >= 2 AND state IN ('queued', 'running');
CREATE INDEX runs_failed ON runs (finished_at) WHERE state = 'failed' AND trigger = 'email';
CREATE INDEX runs_without_answer ON runs (finished_at) WHERE stop_reason = 'no_answer';

-- With row numbers: a row has a kilobyte or two, of which a table without them would put the end on a page of its own.
CREATE TABLE run_turns (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  persona_id TEXT NOT NULL,
  request_json TEXT NOT NULL,       -- the exact body that was sent
  request_sha256 TEXT NOT NULL,
  context_json TEXT,                -- first turn: the normalised request, from which a resumed run goes on
  response_json TEXT,               -- the normalised response; NULL while open or after an error
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micros INTEGER,
  state TEXT NOT NULL CHECK (state IN ('started', 'answered', 'failed')),
  error_class TEXT,
  error_message TEXT,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  -- beside `context_json`: what was read for it, as the harness wrote it; NULL where it is packed with it
  sources_json TEXT,
  -- what `sources_json` names and needs, for statements: digests of texts in `contents`, less those that `$.files` of the dictionary
  -- has, and ids of entries of memory
  named_json TEXT,
  begun_json TEXT,                  -- of the call's beginning: which attempt, at what working time, after what
  ended_json TEXT,                  -- of its end: at what working time, with what error
  pruned_at TEXT,
  -- the exact body of the call, its context and its sources, compressed together: `request_json` is empty, `context_json` and
  -- `sources_json` are NULL where a row has it
  packed BLOB,
  packed_with TEXT,                 -- the dictionary: an earlier request of the run, or a text in `contents`
  redacted_at TEXT,                 -- when an owner erased a text that it held; what is left of it is its digests
  PRIMARY KEY (run_id, turn_index, attempt)
) STRICT;

CREATE TABLE thread_tool_events (
  id TEXT NOT NULL,                 -- found by its run and its step
  thread_id TEXT NOT NULL,          -- of its run, by which the events of a thread are found
  persona_id TEXT NOT NULL,
  parent_message_id TEXT NOT NULL,  -- that triggered its run
  run_id TEXT NOT NULL REFERENCES runs (id),
  step_index INTEGER NOT NULL,
  event_type TEXT NOT NULL CHECK (event_type IN ('tool_call', 'tool_result')),
  tool_name TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  payload_json TEXT NOT NULL,
  created_at TEXT NOT NULL,
  -- agents work with tools of their own; what they did stands in the same trace as the calls that the engine executed
  executor TEXT NOT NULL DEFAULT 'engine' CHECK (executor IN ('engine', 'agent')),
  PRIMARY KEY (run_id, step_index)
) STRICT;
CREATE UNIQUE INDEX thread_tool_events_once ON thread_tool_events (run_id, tool_call_id, event_type);
CREATE INDEX thread_tool_events_of_files ON thread_tool_events (persona_id, created_at)
  WHERE event_type = 'tool_call' AND tool_name IN ('update_memory', 'schedule_create');

CREATE TABLE deliveries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id),
  run_id TEXT,
  envelope_from TEXT NOT NULL,      -- empty is the null reverse-path
  bytes BLOB NOT NULL,             -- frozen: every attempt sends exactly these; packed (`store/packing.rs`)
  size_bytes INTEGER NOT NULL,       -- of the mail as it is sent
  state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'committing', 'done', 'failed', 'held', 'cancelled')),
  epoch INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  possible_duplicate INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  finished_at TEXT,
  -- in the envelope sender: nobody else can know it, so that a letter to that address can only come from a system that had
  -- the mail
  bounce_token TEXT,
  -- a notice that cannot be delivered is not told about: the worker must know one when it sees it
  kind TEXT NOT NULL DEFAULT 'mail' CHECK (kind IN ('mail', 'notice')),
  pruned_at TEXT,
  state_at TEXT                     -- when it was held or is to be tried again; what ended has `finished_at`
) STRICT;
CREATE INDEX deliveries_open ON deliveries (next_attempt_at, seq)
  WHERE state IN ('queued', 'sending', 'committing');
CREATE INDEX deliveries_by_message ON deliveries (message_id);
CREATE INDEX deliveries_by_run ON deliveries (run_id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX deliveries_by_bounce_token ON deliveries (bounce_token) WHERE bounce_token IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (state_at) WHERE state = 'held';

CREATE TABLE delivery_recipients (
  delivery_id TEXT NOT NULL REFERENCES deliveries (id),
  recipient TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'deferred', 'delivered', 'failed', 'cancelled')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  last_code INTEGER,
  last_reply TEXT,
  bounced_at TEXT,                  -- it failed by a report that came back, not by what the smarthost answered
  PRIMARY KEY (delivery_id, recipient)
) STRICT, WITHOUT ROWID;

CREATE TABLE responsibilities (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  file TEXT NOT NULL,               -- path below the persona's folder
  name TEXT NOT NULL,
  schedule TEXT NOT NULL,           -- five-field cron expression
  timezone TEXT NOT NULL,           -- IANA name
  enabled INTEGER NOT NULL,
  prompt TEXT NOT NULL,
  prompt_sha256 TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 1,
  cursor_at TEXT NOT NULL,          -- no slot at or before this instant fires again
  next_slot_at TEXT,                -- NULL when disabled or never due
  removed_at TEXT,
  error TEXT,                       -- why the file cannot be used now
  updated_at TEXT NOT NULL,
  budget_micros INTEGER,             -- what it allows each of its runs
  -- the form that its answers must have, as JSON Schema; a slot keeps the one that its run is held to
  output_schema TEXT,
  slot_options_json TEXT NOT NULL DEFAULT '{}', -- what is not said is as usual
  run_options_json TEXT NOT NULL DEFAULT '{}',
  fire_at TEXT,                     -- next_slot_at and its jitter
  is_done INTEGER NOT NULL DEFAULT 0, -- no further slot will come
  paused_at TEXT,
  paused_by TEXT CHECK (paused_by IN ('owner', 'failures')),
  failures INTEGER NOT NULL DEFAULT 0, -- of its runs, since the last that succeeded
  thread_id TEXT,                   -- where its newest run stands
  own_thread_id TEXT,               -- made for its runs; not theirs while they stand elsewhere
  mark TEXT,                        -- how the file looked when it was read
  UNIQUE (persona_id, file)
) STRICT;
CREATE INDEX responsibilities_due ON responsibilities (coalesce(fire_at, ''), id)
  WHERE enabled = 1 AND removed_at IS NULL AND error IS NULL AND is_done = 0;
CREATE INDEX responsibilities_by_thread ON responsibilities (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX responsibilities_by_own_thread ON responsibilities (own_thread_id) WHERE own_thread_id IS NOT NULL;
CREATE INDEX responsibilities_failing ON responsibilities (failures) WHERE failures > 0;

CREATE TABLE knowledge_files (
  persona_id TEXT NOT NULL,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  modified_ms INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (persona_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE knowledge_chunks (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  path TEXT NOT NULL,
  chunk_index INTEGER NOT NULL,
  heading TEXT NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (persona_id, path, chunk_index)
) STRICT;

CREATE TABLE audit_log (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT,
  subject_kind TEXT NOT NULL,       -- message | run | delivery | recipient
  subject_id TEXT NOT NULL,
  decision TEXT NOT NULL,
  rule TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX audit_log_by_subject ON audit_log (subject_id);

-- How many automatic mails somebody was sent, in buckets of a minute: what is counted must not cost what was sent.
-- `counterparty` is a lower-case address, or `thread:<id>` for the answers of one thread since its owner last wrote.
CREATE TABLE correspondence (
  persona_id TEXT NOT NULL,
  counterparty TEXT NOT NULL,
  minute TEXT NOT NULL,             -- the bucket's first instant
  mails INTEGER NOT NULL,
  PRIMARY KEY (persona_id, counterparty, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery_reports (
  seq INTEGER PRIMARY KEY,
  delivery_id TEXT NOT NULL REFERENCES deliveries (id),
  persona_id TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id), -- the letter that reports
  recipient TEXT NOT NULL,          -- as the delivery has it; as reported when it is none of the delivery's
  kind TEXT NOT NULL,               -- delivery_status | feedback | disposition
  action TEXT NOT NULL,             -- of RFC 3464, or none
  reason TEXT NOT NULL,
  status TEXT,                      -- enhanced status code
  code INTEGER,                      -- reply code
  diagnostic TEXT NOT NULL,
  is_hard INTEGER NOT NULL,
  believed INTEGER NOT NULL,         -- it came with the delivery's token; others change nothing
  changed INTEGER NOT NULL,          -- it changed the recipient's state
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX delivery_reports_by_delivery ON delivery_reports (delivery_id, seq);

-- IMAP mailboxes: how far each is read, how it fares, and the letters whose fate is not said by that alone.
CREATE TABLE mailboxes (
  name TEXT PRIMARY KEY,
  source TEXT NOT NULL,             -- user, host and folder: another source is another mailbox of that name
  uid_validity INTEGER NOT NULL DEFAULT 0, -- 0: never selected
  last_uid INTEGER NOT NULL DEFAULT 0, -- every letter up to here has its fate
  history_until TEXT,               -- letters that came before are history and are left alone; NULL: none
  resync_uid INTEGER NOT NULL DEFAULT 0, -- up to here the server gave old letters new numbers
  backlog INTEGER,                   -- letters that were still to be fetched, at last count
  last_fetch_at TEXT,               -- when the server last answered everything
  last_error TEXT,
  last_error_at TEXT,
  -- since when it could not be fetched from, NULL while it can: the owner is told once per outage
  failing_since TEXT
) STRICT, WITHOUT ROWID;

-- A row is written with the letter's own commit. It goes when the letter is flagged or moved and the cursor is past it;
-- refused letters keep theirs.
CREATE TABLE mailbox_letters (
  mailbox TEXT NOT NULL,
  uid_validity INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('taken', 'refused')),
  reason TEXT,                      -- why it was refused
  marked INTEGER NOT NULL,           -- flagged or moved, or never to be
  noted_at TEXT NOT NULL,
  PRIMARY KEY (mailbox, uid_validity, uid)
) STRICT, WITHOUT ROWID;
CREATE INDEX mailbox_letters_refused ON mailbox_letters (mailbox, noted_at) WHERE outcome = 'refused';

-- What the owner is to be told. One row is one fact; facts of one cause share a mail, at most one an hour.
CREATE TABLE notices (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT,                  -- NULL: the engine's own affair
  kind TEXT NOT NULL,
  cause TEXT NOT NULL,              -- what is folded: kind, what distinguishes it, persona
  subject_kind TEXT NOT NULL,       -- what the fact is about, and its id there
  subject_id TEXT NOT NULL,
  occurrence TEXT NOT NULL,         -- tells two facts about one subject apart; empty when there is only one
  summary TEXT NOT NULL,
  hint TEXT NOT NULL,
  emitted_at TEXT NOT NULL,
  notified_at TEXT,                 -- when the mail that tells it was queued
  delivery_id TEXT REFERENCES deliveries (id),
  dismissed_at TEXT,                -- when an owner dismissed it
  UNIQUE (kind, subject_id, occurrence),
  CHECK ((notified_at IS NULL) = (delivery_id IS NULL))
) STRICT;
CREATE INDEX notices_by_cause ON notices (cause, seq);
CREATE INDEX notices_by_delivery ON notices (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX notices_pending ON notices (cause, seq) WHERE notified_at IS NULL;
CREATE INDEX notices_notified ON notices (cause, notified_at) WHERE notified_at IS NOT NULL;

-- Every letter that was ever taken out of a mailbox, by its bytes: under a new number it is no new letter, also when
-- what its sender could prove then cannot be proven any more.
CREATE TABLE mailbox_contents (
  mailbox TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (mailbox, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_ledger (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  model TEXT NOT NULL,              -- as it served; the one that was asked for when the call was lost
  persona_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('answered', 'lost')), -- lost: it failed or never came back, and may be billed
  input_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL, -- part of output_tokens
  estimated INTEGER NOT NULL,        -- the tokens are ours, the provider said none
  cost_micros INTEGER,               -- NULL is unknown, never zero
  cost_source TEXT NOT NULL,        -- provider | price_table | unknown
  price_version TEXT,
  held_micros INTEGER,               -- where the cost is unknown: what the accounts keep as spent for it
  day TEXT NOT NULL,                -- in the zone of the budgets
  created_at TEXT NOT NULL,
  fork_id TEXT,                     -- which fork made the call; NULL: the run itself did
  PRIMARY KEY (run_id, turn_index, attempt, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE budget_accounts (
  scope TEXT NOT NULL CHECK (scope IN ('engine', 'persona', 'thread', 'run')),
  owner TEXT NOT NULL,              -- persona, thread or run; empty for the engine
  period TEXT NOT NULL,             -- 2026-11-20, 2026-11, or empty for a run
  spent_micros INTEGER NOT NULL DEFAULT 0,
  reserved_micros INTEGER NOT NULL DEFAULT 0,
  spent_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_tokens INTEGER NOT NULL DEFAULT 0,
  -- The account of the engine is divided among the last digits of the ids of runs, so that nodes do not wait for each other's
  -- commits. A part may spend what was granted to it, as long as the bound is that one.
  granted_micros INTEGER,
  granted_tokens INTEGER,
  grant_bound_micros INTEGER,        -- of the whole account, when the grant was made
  grant_bound_tokens INTEGER,
  PRIMARY KEY (scope, owner, period)
) STRICT, WITHOUT ROWID;

CREATE TABLE budget_reservations (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  accounts_json TEXT NOT NULL,      -- the accounts that it was taken from
  day TEXT NOT NULL,
  micros INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (run_id, turn_index, attempt)
) STRICT, WITHOUT ROWID;

-- What an operator allows one thread; NULL says nothing.
CREATE TABLE thread_budgets (
  thread_id TEXT PRIMARY KEY REFERENCES threads (id),
  run_micros_max INTEGER,
  run_tokens_max INTEGER,
  day_micros_max INTEGER,
  day_tokens_max INTEGER
) STRICT, WITHOUT ROWID;

-- Conversations that agents keep themselves. Our history is what counts; a row here saves repeating it.
CREATE TABLE provider_sessions (
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  session_id TEXT NOT NULL,
  folder TEXT NOT NULL,
  options_sha256 TEXT NOT NULL,     -- of what the agent was told about itself: another persona text is another session
  state TEXT NOT NULL CHECK (state IN ('begun', 'resumable', 'lost')),
  run_id TEXT NOT NULL,             -- which used it last
  seen_seq INTEGER NOT NULL,         -- number of the message which that run was about
  usage_json TEXT,                  -- what the session has used in all, where its agent counts that way
  created_at TEXT NOT NULL,
  used_at TEXT NOT NULL,
  PRIMARY KEY (persona_id, thread_id, provider)
) STRICT;
CREATE INDEX provider_sessions_by_thread ON provider_sessions (thread_id);

-- The answers that fit their schema, as canonical JSON.
CREATE TABLE run_outputs (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  persona_id TEXT NOT NULL,
  schema_sha256 TEXT NOT NULL,
  json TEXT NOT NULL,
  repairs INTEGER NOT NULL,          -- times that the model was asked again
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How each provider fared, one row each, so that looking costs the same however many calls there were. A call that
-- was cancelled says nothing about its provider.
CREATE TABLE provider_calls (
  provider TEXT NOT NULL,
  part TEXT NOT NULL DEFAULT '',
  calls INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  last_success_at TEXT,
  last_model TEXT,                  -- of the last success, as is its time
  last_latency_ms INTEGER,
  last_failure_at TEXT,
  last_failure_class TEXT,
  last_failure_message TEXT,
  PRIMARY KEY (provider, part)
) STRICT, WITHOUT ROWID;

-- What contexts were assembled from, so that each can be assembled again as it was. Texts are kept once, by digest.
CREATE TABLE contents (
  sha256 TEXT PRIMARY KEY,          -- of `bytes`, in hexadecimal
  bytes BLOB NOT NULL
) STRICT;

-- A database with this row holds runs of another engine for people to look at. No engine starts in it.
CREATE TABLE archive (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  header_json TEXT NOT NULL,        -- of the file that the runs came from
  imported_at TEXT NOT NULL
) STRICT;

-- A run that went on otherwise from one of its turns. It is no row of `runs`, so that no history, claim or sum of a run
-- knows of it; what it cost stands in `usage_ledger` under the run that it was forked from.
CREATE TABLE forks (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  persona_id TEXT NOT NULL,
  at_turn INTEGER NOT NULL,
  change_json TEXT NOT NULL,        -- what is other than in the run
  state TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
  record_json TEXT NOT NULL,        -- what it did, in the form of a run's record
  created_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;
CREATE INDEX forks_by_run ON forks (run_id);

CREATE TABLE responsibility_slots (
  responsibility_id TEXT NOT NULL REFERENCES responsibilities (id),
  slot_at TEXT NOT NULL,
  persona_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('scheduled', 'manual')),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'fired', 'skipped_overlap', 'missed', 'paused')),
  missed_count INTEGER NOT NULL DEFAULT 0,
  run_id TEXT,
  prompt_snapshot TEXT,
  prompt_sha256 TEXT,
  created_at TEXT NOT NULL,
  missed_until TEXT,                -- last slot of the row, when it stands for several
  note TEXT,                        -- why the slot did not fire, when there is more to say
  output_schema TEXT,
  run_options_json TEXT,            -- those of its run
  is_late INTEGER NOT NULL DEFAULT 0, -- found after a downtime
  overdue_at TEXT,                  -- when the owner is told that it has not ended; NULL once that is settled
  catching_up INTEGER NOT NULL DEFAULT 0, -- late, and its run is queued or at work
  revision INTEGER,                  -- of the responsibility, when the row was made
  state_at TEXT,                    -- when a slot that waited fired or was given up
  PRIMARY KEY (responsibility_id, slot_at, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX responsibility_slots_by_run ON responsibility_slots (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX responsibility_slots_waiting ON responsibility_slots (is_late, created_at, slot_at) WHERE state = 'waiting';
CREATE INDEX responsibility_slots_waiting_of ON responsibility_slots (responsibility_id, slot_at) WHERE state = 'waiting';
CREATE INDEX responsibility_slots_catching_up ON responsibility_slots (catching_up) WHERE catching_up = 1;
CREATE INDEX responsibility_slots_watched ON responsibility_slots (overdue_at) WHERE overdue_at IS NOT NULL;

-- Letters that were taken while no name server could say who sent them: no message and no run yet, until they are verified.
CREATE TABLE held_letters (
  id TEXT PRIMARY KEY,              -- the message that it becomes
  persona_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  envelope_json TEXT NOT NULL,      -- all that is known of its arrival: whoever verifies it again has nothing else
  bytes BLOB NOT NULL,
  held_at TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT NOT NULL,
  UNIQUE (persona_id, sha256)
) STRICT;
CREATE INDEX held_letters_due ON held_letters (next_attempt_at, id);

-- What somebody stopped at once: the runs of every persona (`''`) or of one, and their mail. Letters are still taken; they wait.
CREATE TABLE halts (
  persona_id TEXT PRIMARY KEY,
  reason TEXT NOT NULL,
  halted_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  call_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('call', 'reply', 'question', 'plan')),
  tool TEXT NOT NULL,
  call_json TEXT NOT NULL,          -- the canonical form of what is asked for, whose digest is call_sha256
  call_sha256 TEXT NOT NULL,
  fold_sha256 TEXT NOT NULL,        -- the same without the run and the call, by which a repeated question is known
  view_text TEXT NOT NULL,          -- what the owner reads
  reason_json TEXT NOT NULL,        -- the rule or the row of the table, its code, its sentence
  label_json TEXT NOT NULL,         -- what the run had read
  result_json TEXT,                 -- the result of a call whose effect commits with the decision
  mail_json TEXT,                   -- the frozen mail without its bytes
  mail_bytes BLOB,
  parks INTEGER NOT NULL,            -- 1: the run waits for the decision
  requested_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  asked_at TEXT,                    -- when the mail to the owners was queued
  remind_at TEXT NOT NULL,
  reminded_at TEXT,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected', 'edited', 'answered', 'expired', 'superseded', 'cancelled')),
  decided_at TEXT,
  decided_by TEXT,
  via TEXT,
  words TEXT,                       -- the owner's own words: a reason, an instruction, an answer
  evidence_json TEXT,
  begun_json TEXT,                  -- an approved call that has begun: its expected effects
  begun_at TEXT,
  -- of a draft, a mail that waits for an owner while its run does not: the message that shows it in its thread; NULL: no draft
  draft_id TEXT REFERENCES messages (id),
  edits INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX approvals_by_run ON approvals (run_id, seq);
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state = 'open';
CREATE INDEX approvals_open_by_persona ON approvals (persona_id) WHERE state = 'open';
CREATE INDEX approvals_unasked ON approvals (seq) WHERE state = 'open' AND asked_at IS NULL;
CREATE INDEX approvals_to_remind ON approvals (remind_at) WHERE state = 'open' AND reminded_at IS NULL;
CREATE INDEX approvals_by_draft ON approvals (draft_id) WHERE draft_id IS NOT NULL;

-- Calls that rules with `uses_max` have decided.
CREATE TABLE policy_uses (
  rule_id TEXT PRIMARY KEY,
  uses INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Commands that owners gave by mail: stored with their letters, carried out once, answered once.
CREATE TABLE mail_commands (
  seq INTEGER PRIMARY KEY,
  message_id TEXT NOT NULL UNIQUE REFERENCES messages (id),
  persona_id TEXT NOT NULL,
  rfc_message_id TEXT NOT NULL,     -- a letter that comes again has the same
  owner TEXT NOT NULL,              -- the address of the owner who sent it
  command TEXT NOT NULL,
  argument TEXT NOT NULL,
  refusal TEXT,                     -- why it does nothing
  sent_at TEXT NOT NULL,            -- by its signature
  received_at TEXT NOT NULL,
  acted_at TEXT,
  outcome_json TEXT,
  answered_at TEXT,                 -- without a delivery: no answer may or can be sent
  delivery_id TEXT
) STRICT;
CREATE UNIQUE INDEX mail_commands_once ON mail_commands (persona_id, rfc_message_id);
CREATE INDEX mail_commands_open ON mail_commands (answered_at) WHERE answered_at IS NULL;
CREATE INDEX mail_commands_answered ON mail_commands (persona_id, answered_at) WHERE delivery_id IS NOT NULL;
CREATE INDEX mail_commands_halts ON mail_commands (persona_id, sent_at) WHERE command IN ('pause', 'resume') AND acted_at IS NOT NULL;

-- Where the history of a thread begins for later runs: after this message.
CREATE TABLE thread_resets (
  thread_id TEXT NOT NULL REFERENCES threads (id),
  after_seq INTEGER NOT NULL,
  reset_at TEXT NOT NULL,
  PRIMARY KEY (thread_id, after_seq)
) STRICT, WITHOUT ROWID;

-- One note to the sender of a letter: that it could not be answered, or that it takes long.
CREATE TABLE sender_notes (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  kind TEXT NOT NULL CHECK (kind IN ('failed', 'slow')),
  created_at TEXT NOT NULL,
  withheld TEXT,                    -- the rule that withheld it
  delivery_id TEXT
) STRICT, WITHOUT ROWID;

-- Programs of the owner that were asked about what a run did, and what they said.
CREATE TABLE hook_calls (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  event TEXT NOT NULL CHECK (event IN ('before_run', 'before_call', 'after_call', 'before_send', 'after_run')),
  tool TEXT NOT NULL,               -- empty for an occasion of the run
  hook_id TEXT NOT NULL,
  hook_sha256 TEXT NOT NULL,        -- over its command line and the files of the workspace that it names
  decision TEXT NOT NULL CHECK (decision IN ('allow', 'deny', 'ask', 'failed')),
  reason TEXT NOT NULL,
  took_ms INTEGER NOT NULL,
  asked_at TEXT NOT NULL
) STRICT;
CREATE INDEX hook_calls_by_run ON hook_calls (run_id, seq);

-- Texts read from attachments, so that the bytes are decoded once. A cache: whatever is missing is read again.
CREATE TABLE attachment_texts (
  attachment_id TEXT PRIMARY KEY REFERENCES attachments (id),
  version INTEGER NOT NULL,          -- of the decoders
  document_json TEXT NOT NULL,      -- kind, text, notes
  read_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Events that a persona knows: invitations by provable organisers, and its own. One row an instance that differs.
CREATE TABLE events (
  persona_id TEXT NOT NULL,
  uid TEXT NOT NULL,
  organizer TEXT NOT NULL,          -- key of its address; the persona's own for its own events
  recurrence_id TEXT NOT NULL,      -- '': the event itself, else the instance
  sequence INTEGER NOT NULL,
  stamped_at TEXT NOT NULL,         -- DTSTAMP of the newest version
  is_cancelled INTEGER NOT NULL,
  answer TEXT,                      -- of the persona: ACCEPTED, DECLINED, TENTATIVE
  starts_at TEXT,                   -- first start; NULL: a whole day, or a time without a known zone
  ends_at TEXT,                     -- last end that was computed
  event_json TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id), -- that made it as it is
  updated_at TEXT NOT NULL,
  PRIMARY KEY (persona_id, uid, organizer, recurrence_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_end ON events (persona_id, ends_at, starts_at);

-- Approved tools of MCP servers that were found to be other than approved. A row goes when the owner approves the server again.
CREATE TABLE mcp_tools_off (
  server TEXT NOT NULL,
  tool TEXT NOT NULL,               -- name that the server gives it
  pin_sha256 TEXT NOT NULL,         -- of the approved definition
  reason TEXT NOT NULL,             -- changed, gone, program_changed, broke_schema
  detail TEXT NOT NULL,             -- what differs
  off_since TEXT NOT NULL,
  PRIMARY KEY (server, tool, pin_sha256)
) STRICT, WITHOUT ROWID;

-- What a draft was before an owner edited it.
CREATE TABLE approval_versions (
  approval_id TEXT NOT NULL REFERENCES approvals (id),
  version INTEGER NOT NULL,          -- 0: as its run wrote it
  call_sha256 TEXT NOT NULL,
  view_text TEXT NOT NULL,
  mail_json TEXT NOT NULL,
  mail_bytes BLOB NOT NULL,
  replaced_at TEXT NOT NULL,
  replaced_by TEXT NOT NULL,
  PRIMARY KEY (approval_id, version)
) STRICT, WITHOUT ROWID;

-- Memory: entries with the letter that each rests on. A text stands in its row until it is erased; its digest stays.
CREATE TABLE memory (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('contact', 'thread', 'persona')),
  scope_key TEXT NOT NULL,          -- key of the proved address, id of the thread, or ''
  number INTEGER NOT NULL,           -- within its scope, so that it says nothing of others
  kind TEXT NOT NULL CHECK (kind IN ('fact', 'preference', 'commitment', 'event', 'procedure')),
  text TEXT NOT NULL,               -- '' once it is erased
  text_sha256 TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('proposed', 'active', 'rejected', 'superseded', 'expired', 'forgotten')),
  trust TEXT NOT NULL,              -- lowest trust of what its run had read
  readers_json TEXT NOT NULL,       -- who may read all that its run had read
  audience_json TEXT NOT NULL,      -- who read along, besides the owners; `null`: everybody may
  said_by TEXT NOT NULL,            -- who wrote its source
  said_at TEXT NOT NULL,            -- when that arrived
  valid_to TEXT,
  created_at TEXT NOT NULL,
  created_run TEXT,
  created_by TEXT NOT NULL CHECK (created_by IN ('model', 'owner')),
  confirmed_at TEXT NOT NULL,
  confirmations INTEGER NOT NULL DEFAULT 0,
  supersedes TEXT,
  superseded_by TEXT,
  erased_at TEXT,
  -- contexts and searches that were given it: an entry that nobody needed for long expires, unless it is pinned
  uses INTEGER NOT NULL DEFAULT 0,
  last_used_at TEXT,
  pinned INTEGER NOT NULL DEFAULT 0,
  -- what a proposal would put in place of which entries; NULL: it is an entry that a run remembered
  proposes TEXT CHECK (proposes IN ('merge', 'correct', 'expire')),
  UNIQUE (persona_id, scope, scope_key, number)
) STRICT;
CREATE INDEX memory_open ON memory (persona_id, scope, scope_key) WHERE status IN ('proposed', 'active');
CREATE INDEX memory_rejected ON memory (persona_id, scope, scope_key, text_sha256) WHERE status = 'rejected';
CREATE INDEX memory_by_run ON memory (created_run) WHERE created_run IS NOT NULL;
CREATE INDEX memory_proposed ON memory (persona_id, created_at) WHERE status = 'proposed';
CREATE INDEX memory_by_superseded ON memory (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memory_ending ON memory (valid_to) WHERE status IN ('proposed', 'active') AND valid_to IS NOT NULL;
CREATE INDEX memory_unused ON memory (coalesce(last_used_at, created_at)) WHERE status = 'active' AND pinned = 0;
CREATE INDEX memory_by_replacement ON memory (superseded_by) WHERE superseded_by IS NOT NULL;

-- What an entry rests on: a quote in the new text of a letter. Places are characters.
CREATE TABLE memory_sources (
  memory_id TEXT NOT NULL REFERENCES memory (id),
  message_id TEXT NOT NULL REFERENCES messages (id),
  part TEXT NOT NULL CHECK (part IN ('fresh', 'body')), -- `messages.fresh_text` or `messages.text_body`
  quote_start INTEGER NOT NULL,
  quote_end INTEGER NOT NULL,
  quote TEXT NOT NULL,              -- '' once the entry is erased
  quote_sha256 TEXT NOT NULL,
  PRIMARY KEY (memory_id, message_id, quote_start)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_sources_by_message ON memory_sources (message_id);

-- Every change of an entry, in order. Only a reason can be emptied, when its entry is erased.
CREATE TABLE memory_events (
  seq INTEGER PRIMARY KEY,
  memory_id TEXT NOT NULL REFERENCES memory (id),
  act TEXT NOT NULL,
  actor TEXT NOT NULL CHECK (actor IN ('model', 'owner', 'engine')),
  who TEXT NOT NULL,                -- run or user
  why TEXT NOT NULL,
  before_json TEXT,                 -- what a restore brings back
  at TEXT NOT NULL
) STRICT;
CREATE INDEX memory_events_by_entry ON memory_events (memory_id, seq);

CREATE TABLE thread_memory (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  run_id TEXT NOT NULL REFERENCES runs (id), -- the run that made it
  model TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('usable', 'flagged')),
  problems_json TEXT NOT NULL,      -- what the check found; nothing in one that is usable
  text TEXT NOT NULL,
  text_sha256 TEXT NOT NULL,
  from_seq INTEGER NOT NULL,         -- the first message that stands in it or in those before it
  upto_seq INTEGER NOT NULL,         -- the last one: the cursor
  upto_message_id TEXT NOT NULL,
  inputs_json TEXT NOT NULL,        -- [[number, digest of the text], …] of the messages that it was made from itself
  previous_id TEXT,                 -- the summary that it was made from, too
  generation INTEGER NOT NULL,
  messages INTEGER NOT NULL,         -- how many messages stand in it and in those before it
  label_json TEXT NOT NULL,         -- the lowest trust of all inputs, and who may be told of them
  readers_json TEXT NOT NULL,       -- participants who may read every input
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX thread_memory_by_thread ON thread_memory (thread_id, state, upto_seq);
CREATE INDEX thread_memory_by_run ON thread_memory (run_id);

-- Instructions of an owner for one conversation (thread_id) or one correspondent (contact).
CREATE TABLE thread_instructions (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT REFERENCES threads (id),
  contact TEXT,
  text TEXT NOT NULL,
  given_by TEXT NOT NULL,
  given_at TEXT NOT NULL,
  removed_at TEXT,
  removed_by TEXT,
  CHECK ((thread_id IS NULL) <> (contact IS NULL))
) STRICT;
CREATE INDEX thread_instructions_by_scope ON thread_instructions (persona_id, thread_id, contact);
CREATE INDEX thread_instructions_by_thread ON thread_instructions (thread_id);

CREATE TABLE memory_replaces (
  memory_id TEXT NOT NULL REFERENCES memory (id),
  replaced_id TEXT NOT NULL REFERENCES memory (id),
  PRIMARY KEY (memory_id, replaced_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_replaces_by_replaced ON memory_replaces (replaced_id);

-- Digests: entries that wait, numbered and shown to the owners in one mail. One at a time is open for a persona.
CREATE TABLE memory_digests (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  closed_at TEXT                    -- when nothing of it waited any more, or a later one took its place
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX memory_digests_open ON memory_digests (persona_id) WHERE closed_at IS NULL;
CREATE INDEX memory_digests_by_persona ON memory_digests (persona_id, asked_at);

-- Addresses to which an owner may answer: one for each owner and question, and for each owner and digest of memory.
CREATE TABLE answer_tokens (
  token TEXT PRIMARY KEY,
  approval_id TEXT REFERENCES approvals (id),
  digest_id TEXT REFERENCES memory_digests (id),
  owner TEXT NOT NULL,
  created_at TEXT NOT NULL,
  -- digest of what an owner was shown with the address; NULL: the only one that its question had
  call_sha256 TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_tokens_by_approval ON answer_tokens (approval_id) WHERE approval_id IS NOT NULL;
CREATE INDEX answer_tokens_by_digest ON answer_tokens (digest_id) WHERE digest_id IS NOT NULL;

-- Letters that came to such an address, and what they decided.
CREATE TABLE approval_answers (
  message_id TEXT PRIMARY KEY REFERENCES messages (id),
  approval_id TEXT REFERENCES approvals (id),
  owner TEXT,                       -- the owner who is known to have written it
  outcome TEXT NOT NULL,
  created_at TEXT NOT NULL,
  explain INTEGER NOT NULL,          -- 1: the owner is to be told what came of it
  explained_at TEXT,
  digest_id TEXT REFERENCES memory_digests (id),
  -- of an answer to a digest: what became of the entries that were not changed as it says
  report TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_answers_to_explain ON approval_answers (created_at) WHERE explain = 1 AND explained_at IS NULL;
CREATE INDEX approval_answers_by_approval ON approval_answers (approval_id);
CREATE INDEX approval_answers_by_digest ON approval_answers (digest_id) WHERE digest_id IS NOT NULL;

CREATE TABLE memory_digest_entries (
  digest_id TEXT NOT NULL REFERENCES memory_digests (id),
  place INTEGER NOT NULL,            -- from 1 on
  memory_id TEXT NOT NULL REFERENCES memory (id),
  PRIMARY KEY (digest_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_digest_entries_by_entry ON memory_digest_entries (memory_id);

-- What a second index of letters has, of parts of words: pairs of Chinese, Japanese and Korean characters, and the ends of codes such
-- as 4711AB. The engine makes them (`text/word_parts.rs`) in the commit that stores a letter: a trigger names the letter here,
-- and the writer takes it from there before it commits (`store/search/letter_parts.rs`). Most letters have few parts or none.
CREATE TABLE letter_part_texts (
  seq INTEGER NOT NULL PRIMARY KEY,           -- of the message
  thread TEXT NOT NULL,             -- its thread as one word
  words TEXT NOT NULL               -- each part once, joined by blanks
) STRICT;

-- Letters whose parts are not made yet: empty between transactions of the engine.
CREATE TABLE letter_parts_pending (
  seq INTEGER NOT NULL PRIMARY KEY
) STRICT;

-- Vectors of letters, one of each model (`PROVIDER/MODEL`, with `@DIMENSIONS` where the configuration names them). Made by the
-- engine beside the letters; they can be made again at any time.
CREATE TABLE letter_vectors (
  seq INTEGER NOT NULL,              -- of the message
  model TEXT NOT NULL,
  persona_id TEXT NOT NULL,         -- of the message
  text_sha256 TEXT NOT NULL,        -- of the text that the vector stands for
  vector BLOB NOT NULL,            -- f32, little-endian, of length 1
  PRIMARY KEY (seq, model)
) STRICT;
CREATE INDEX letter_vectors_of_persona ON letter_vectors (persona_id, model, seq);
CREATE INDEX letter_vectors_by_text ON letter_vectors (model, text_sha256);

-- Personas whose search uses vectors, because a measurement on their own letters has shown a gain. Counts for that model alone.
CREATE TABLE vector_switches (
  persona_id TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,              -- as in `letter_vectors`
  gain_points REAL NOT NULL, -- of recall at 10, in points of a hundred
  letters INTEGER NOT NULL,          -- that had a vector when it was measured
  measured_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The second ledger: calls that make vectors. They are of no turn of a run, and most of no run at all.
CREATE TABLE embedding_calls (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  purpose TEXT NOT NULL CHECK (purpose IN ('letters', 'question', 'bench')),
  run_id TEXT,                      -- that asked the question
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  texts INTEGER NOT NULL,
  tokens INTEGER NOT NULL,           -- while it is open, the most that it may use
  estimated INTEGER NOT NULL,        -- 1: the provider did not say how many
  state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'lost')),
  cost_micros INTEGER,               -- NULL: unknown
  cost_source TEXT NOT NULL,
  price_version TEXT,
  held_micros INTEGER,               -- what the accounts count where the cost is unknown; while it is open, what is reserved
  accounts_json TEXT NOT NULL,      -- the accounts that it is taken from
  day TEXT NOT NULL,
  created_at TEXT NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0   -- of the engine that makes it
) STRICT, WITHOUT ROWID;
CREATE INDEX embedding_calls_open ON embedding_calls (state) WHERE state = 'open';
CREATE INDEX embedding_calls_by_time ON embedding_calls (created_at);

-- One-time codes by which a browser logs in at a listener of the pages. Only digests are kept.
CREATE TABLE web_logins (
  code_sha256 TEXT PRIMARY KEY,
  listener TEXT NOT NULL,           -- address for which the code was made; no other takes it
  asked_by TEXT NOT NULL,           -- user of the machine
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at TEXT
) STRICT, WITHOUT ROWID;

-- Sessions of browsers. A cookie holds a secret of 256 bits; here is its digest.
CREATE TABLE web_sessions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  secret_sha256 TEXT NOT NULL UNIQUE,
  form_token TEXT NOT NULL,         -- every form of the session carries it; worth nothing without the cookie
  listener TEXT NOT NULL,
  asked_by TEXT NOT NULL,           -- user of the machine who made the code
  browser TEXT NOT NULL,            -- User-Agent, as sent
  created_at TEXT NOT NULL,
  used_at TEXT NOT NULL,            -- to within some minutes: reading a page writes nothing
  expires_at TEXT NOT NULL,         -- seven days after the login, however often it is used
  ended_at TEXT
) STRICT;

-- Keys of programs for the API. Only digests are kept. No scope lets a key decide on an approval.
CREATE TABLE web_tokens (
  id TEXT PRIMARY KEY,
  secret_sha256 TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  scopes_json TEXT NOT NULL,        -- array of `read`, `admin`
  created_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at TEXT,                     -- to within some minutes
  revoked_at TEXT
) STRICT;

-- What happens, in the order of commits: kinds and ids, no text. Its rows are written by the triggers below, so that no
-- transaction can forget them; `item` names what the kind is about where no other column does.
CREATE TABLE feed (
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,               -- what it is about, a dot, its new state
  persona_id TEXT,
  thread_id TEXT,
  run_id TEXT,
  message_id TEXT,
  delivery_id TEXT,
  approval_id TEXT,
  item TEXT,                        -- turn and attempt, a call, a notice, a responsibility and its slot, an entry of memory
  at TEXT NOT NULL
) STRICT;

-- Addresses that belong to the person of another address, as the owner has said.
CREATE TABLE contact_aliases (
  address TEXT PRIMARY KEY,         -- key of the address
  -- key of the address under which the person's entries of memory stand; never itself an alias
  person TEXT NOT NULL,
  since TEXT NOT NULL,
  said_by TEXT NOT NULL             -- user
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_aliases_by_person ON contact_aliases (person);

-- Runs that were at work with a text when their owner erased it: their records are emptied whole when they have ended, since by
-- then nobody knows the words any more.
CREATE TABLE pending_redactions (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Requests of the API that carry an `Idempotency-Key`, with their answers, for a day: sent again, they do nothing again.
CREATE TABLE api_calls (
  caller TEXT NOT NULL,             -- id of the key or session that sent it
  key TEXT NOT NULL,                -- the `Idempotency-Key`
  request_sha256 TEXT NOT NULL,     -- of method, path and body
  answer TEXT,                      -- NULL: at work, or the engine stopped before it could answer
  created_at TEXT NOT NULL,
  PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_calls_by_age ON api_calls (created_at);

-- Addresses of other programs that are told what happens: how far each has read the feed, and whether it is still asked.
CREATE TABLE webhooks (
  name TEXT PRIMARY KEY,
  through_seq INTEGER NOT NULL,      -- number of the feed's newest event that was looked at for it
  disabled_at TEXT,                 -- since when it is asked no more
  reason TEXT,                      -- why
  rests_until TEXT,                 -- asked again from then on, because its server is busy or away
  failures INTEGER NOT NULL DEFAULT 0, -- failed attempts since the last success
  success_at TEXT                   -- when it last took an event
) STRICT;

-- One event for one webhook, with the exact body of every attempt.
CREATE TABLE webhook_deliveries (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,          -- `webhook-id` of every attempt
  webhook TEXT NOT NULL,
  seq INTEGER NOT NULL,              -- number of the event in the feed
  event TEXT NOT NULL,
  persona_id TEXT,
  body TEXT NOT NULL,
  state TEXT NOT NULL,              -- queued, done, failed
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT NOT NULL,
  status INTEGER,                    -- of HTTP, of the last attempt
  error TEXT,                       -- of the last attempt
  created_at TEXT NOT NULL,
  finished_at TEXT,
  UNIQUE (webhook, seq)
) STRICT;
CREATE INDEX webhook_deliveries_queued ON webhook_deliveries (webhook, next_attempt_at) WHERE state = 'queued';

-- What a file of a persona was before its owner replaced it on a page, by the API or by `attache persona restore`.
CREATE TABLE persona_file_versions (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  name TEXT NOT NULL,               -- below the persona's folder
  bytes INTEGER NOT NULL,            -- of the text
  sha256 TEXT NOT NULL,             -- of the text; empty: there was no file
  replaced_at TEXT NOT NULL,
  replaced_by TEXT NOT NULL,        -- the user of the machine who did it, or who asked for the session's code
  session_id TEXT,                  -- the session of the browser; NULL: a command on the machine
  replaced_with TEXT NOT NULL,      -- digest of the text that came in its place
  text TEXT NOT NULL
) STRICT;
CREATE INDEX persona_file_versions_by_name ON persona_file_versions (persona_id, name, seq);

-- Sums of both ledgers by day, persona, model and source of the price, so that what a month cost is read from some hundred
-- rows and not from a million. Triggers keep them, in the transaction of the call.
CREATE TABLE usage_days (
  day TEXT NOT NULL,                -- in the zone of the budgets
  persona_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  source TEXT NOT NULL,             -- of the price: provider | price_table VERSION | unknown
  calls INTEGER NOT NULL,            -- a call that several models served counts with one of them
  lines INTEGER NOT NULL,            -- and here with each
  input_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL, -- part of output_tokens
  cost_micros INTEGER,               -- NULL: no cost is known
  unknown_cost INTEGER NOT NULL,     -- answers whose cost is unknown
  lost INTEGER NOT NULL,
  held_micros INTEGER NOT NULL,
  estimated INTEGER NOT NULL,
  PRIMARY KEY (day, persona_id, provider, model, source)
) STRICT, WITHOUT ROWID;

-- The versions of the program that have written this database: when each was first and last started on it, and the newest
-- migration that it had applied.
CREATE TABLE program_versions (
  version TEXT PRIMARY KEY,
  first_seen_at TEXT NOT NULL,
  last_seen_at TEXT NOT NULL,
  migration INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Backups that were tried: the newest rows say how old the last good one is.
CREATE TABLE backups (
  seq INTEGER PRIMARY KEY,
  started_at TEXT NOT NULL,
  finished_at TEXT,                 -- NULL: it is being made, or its maker died
  is_scheduled INTEGER NOT NULL CHECK (is_scheduled IN (0, 1)),
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL DEFAULT 0,
  failure TEXT                      -- NULL: it is good
) STRICT;
CREATE INDEX backups_good ON backups (seq) WHERE finished_at IS NOT NULL AND failure IS NULL;
CREATE INDEX backups_scheduled ON backups (seq) WHERE is_scheduled = 1;

-- Where the engine is with each kind that it throws away by age, and what went.
CREATE TABLE retention (
  kind TEXT PRIMARY KEY,
  before TEXT NOT NULL,             -- rows that are older go in this pass
  position INTEGER,                  -- of the last row that was looked at; NULL: the pass is over
  started_at TEXT NOT NULL,
  finished_at TEXT,
  pass_rows INTEGER NOT NULL DEFAULT 0,
  pass_bytes INTEGER NOT NULL DEFAULT 0,
  total_rows INTEGER NOT NULL DEFAULT 0,
  total_bytes INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Erasures of everything that a person wrote: what is under way, so that one that was interrupted is finished, and what was done.
CREATE TABLE erasures (
  id TEXT PRIMARY KEY,
  contact_sha256 TEXT NOT NULL,     -- of the address that was named
  addresses_json TEXT NOT NULL,     -- all addresses of the person; empty when it is done
  with_quotes INTEGER NOT NULL CHECK (with_quotes IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('begun', 'rows_erased', 'done')),
  started_by TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  counts_json TEXT NOT NULL DEFAULT '{}' -- rows by kind, and letters of others that quote
) STRICT, WITHOUT ROWID;

-- Engines that work on this database. There are as many as there are machines, and a row whose lease has expired is
-- deleted by another node, which takes the work over.
CREATE TABLE nodes (
  epoch INTEGER NOT NULL PRIMARY KEY,            -- of its start; rows of an epoch that is not here are orphans
  host TEXT NOT NULL,
  workspace TEXT NOT NULL,              -- absolute path there
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  roles TEXT NOT NULL DEFAULT '',       -- what it does, divided by commas; empty: everything
  started_at TEXT NOT NULL,
  expires_ms INTEGER,                   -- end of its lease, in milliseconds since 1970 by the server's clock
  clock_off_ms INTEGER NOT NULL DEFAULT 0, -- its clock less that of the server
  identity TEXT NOT NULL DEFAULT '',    -- which boot of which machine, and which folder there (D-147)
  drain_asked_at TEXT                   -- since when it is to end, because an operator asked
) STRICT;

-- Work that one node does for all. A lease lasts as long as its node has a row.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL,
  since TEXT NOT NULL
) STRICT;

-- Rows that every database has

INSERT INTO engine (id, epoch) VALUES (1, 0);
