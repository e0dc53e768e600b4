-- Purpose: what the layouts of the recipes have in common: settings, ids, and texts in an answer
-- Counterpart: extension; the part behind queue/record.lua. The layout's part keeps the holders in `store`
-- KEYS[3] channel: not used; `finish` wants one
-- KEYS[7..] others: those of the layout; the last one the peers' lock, where they acquire under one
-- ARGV[7] settings: "<limit> <ms that a holder lasts> <flags> <ms that a lock without an expiry is given, or 0>". Flags: "s" times are in
--   seconds, "f" fair, "t" with tokens, "l" peers acquire under a lock, "r" a string lock, "-" none of these
-- Returns: nothing by itself. It defines the settings, `expiring`, `id_of`, `put_back`, and what queue/jvms.lua
--   defines elsewhere
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: no two entries have the same id

local CHANNEL = KEYS[3]
local LIMIT, TIMEOUT, FLAGS, LOCK_TIMEOUT = string.match(ARGV[7], '^(%d+) (%d+) (%S+) (%d+)$')
LIMIT, TIMEOUT, LOCK_TIMEOUT = LIMIT + 0, TIMEOUT + 0, LOCK_TIMEOUT + 0
local LOCK = string.find(FLAGS, 'l', 1, true) and KEYS[#KEYS]
-- So many holders are listed together.
local PAGE = 256
local store = {}

-- JVMs know nothing of recipes.
local total, reserved, jvms, account, has_notes = 0, 0, 0, nil, false
local function close_account() return 0 end
local function count_jvms() return 0 end

-- Milliseconds that a lock lasts which a caller asks for; `false` where it is free. One without an expiry is given one: its holder is
-- about to set it, or has died.
local function expiring(lock)
  local left = redis.call('PTTL', lock)
  if left ~= -1 or LOCK_TIMEOUT == 0 then return left ~= -2 and left end
  redis.call('PEXPIRE', lock, LOCK_TIMEOUT)
  return LOCK_TIMEOUT
end

-- The id of what a client takes under a ticket: the first part of the client's, and the ticket.
local function id_of(client, ticket)
  local digits = string.format('%016.0f', ticket)
  return string.sub(client, 1, 19) .. string.sub(digits, 1, 4) .. '-' .. string.sub(digits, 5)
end
local function id_in(entry) return id_of(string.match(entry, '^([^:]+):%l(%d+):')) end

-- A grant that has run out comes back.
local function put_back(_, entry) store.drop(id_in(entry)) end
