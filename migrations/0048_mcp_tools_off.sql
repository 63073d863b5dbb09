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
