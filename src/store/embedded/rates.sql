-- Version 2: rate counters. One that is full again is the same as none.
CREATE TABLE rate(
  key BLOB PRIMARY KEY,
  used INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  full_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rate_full ON rate(full_ms);
