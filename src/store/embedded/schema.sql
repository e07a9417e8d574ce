-- Version 1. Times are unix milliseconds, hashes 16 bytes, weights bytes as retention counts them.

-- 'key': what the store remembers of the key that it was made with.
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE agent(
  hash BLOB PRIMARY KEY,
  floor INTEGER NOT NULL DEFAULT 0,      -- the highest timestamp of any dropped feed
  feeds INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0       -- of all items kept
) STRICT, WITHOUT ROWID;

-- An item is kept while its timestamp is at least `first` of its feed; others wait to be removed. `count` and `weight`
-- run over all items that the feed ever had, and `first_*` is where they stood before the oldest one kept.
CREATE TABLE feed(
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: items of a dropped feed may still be there
  hash BLOB NOT NULL UNIQUE,
  agent BLOB NOT NULL,
  own INTEGER NOT NULL,
  owner BLOB,
  used_ms INTEGER NOT NULL,
  last INTEGER NOT NULL DEFAULT 0,
  spent INTEGER NOT NULL DEFAULT 0,
  count INTEGER NOT NULL DEFAULT 0,
  weight INTEGER NOT NULL DEFAULT 0,
  first INTEGER NOT NULL DEFAULT 0,
  first_count INTEGER NOT NULL DEFAULT 0,
  first_weight INTEGER NOT NULL DEFAULT 0,
  first_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE item(
  id INTEGER PRIMARY KEY,
  feed INTEGER NOT NULL,
  timestamp INTEGER NOT NULL,
  received_ms INTEGER NOT NULL,
  count INTEGER NOT NULL,                -- items of the feed before this one
  weight INTEGER NOT NULL,               -- and their weight
  answer INTEGER NOT NULL,
  queries BLOB,                          -- hashes, one behind the other
  checksum INTEGER NOT NULL,
  json BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX item_place ON item(feed, timestamp);

CREATE TABLE item_query(
  feed INTEGER NOT NULL,
  query BLOB NOT NULL,
  timestamp INTEGER NOT NULL,
  PRIMARY KEY(feed, query, timestamp)
) STRICT, WITHOUT ROWID;

-- Feeds that are gone and whose items wait to be removed.
CREATE TABLE dropped(feed INTEGER PRIMARY KEY) STRICT;

CREATE TABLE owner(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  hash BLOB NOT NULL,
  records INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  UNIQUE(kind, hash)
) STRICT;

-- A record that is put again gets a new id, so ids are in the order of use.
CREATE TABLE record(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  hash BLOB NOT NULL,
  owner INTEGER NOT NULL,
  version INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  item_feed BLOB,
  item_timestamp INTEGER,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX record_key ON record(hash, kind);
CREATE INDEX record_use ON record(owner, id);
CREATE INDEX record_expiry ON record(expires_ms);

CREATE TABLE lease(
  key BLOB PRIMARY KEY,
  holder BLOB NOT NULL,
  note BLOB NOT NULL,
  until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
