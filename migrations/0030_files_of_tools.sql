-- What our own tools write into a persona's folder, found by when they began: an agent's changes are told from theirs.
CREATE INDEX thread_tool_events_of_files ON thread_tool_events (persona_id, created_at)
  WHERE event_type = 'tool_call' AND tool_name IN ('update_memory', 'schedule_create');
