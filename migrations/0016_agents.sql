-- Agents work with tools of their own; what they did stands in the same trace as the calls that the engine executed.
ALTER TABLE thread_tool_events ADD COLUMN executor TEXT NOT NULL DEFAULT 'engine' CHECK (executor IN ('engine', 'agent'));

-- Two processes write the trace of one run (the engine, and the server of our tools): a call has one result, whoever
-- is first to write it.
CREATE UNIQUE INDEX thread_tool_events_once ON thread_tool_events (run_id, tool_call_id, event_type);

-- Conversations that agents keep themselves. Our history is what counts; a row here saves repeating it.
CREATE TABLE provider_sessions (
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  session_id TEXT NOT NULL,
  folder TEXT NOT NULL,
  terms_sha256 TEXT NOT NULL,       -- of what the agent was told about itself: another persona text is another session
  state TEXT NOT NULL CHECK (state IN ('begun', 'resumable', 'lost')),
  run_id TEXT NOT NULL,             -- which used it last
  seen_seq INTEGER NOT NULL,        -- number of the message which that run was about
  usage_json TEXT,                  -- what the session has used in all, where its agent counts that way
  created_at TEXT NOT NULL,
  used_at TEXT NOT NULL,
  PRIMARY KEY (persona_id, thread_id, provider)
) STRICT;
CREATE INDEX provider_sessions_by_thread ON provider_sessions (thread_id);
