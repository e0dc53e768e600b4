-- Purpose: the first two clients in the queue check for permits that other programs free without a message: when a holder expires, when a peer's
--   lock may be free, and at the pace of their handles. They get "first <microseconds after which to check, or -1>" when they have
--   become that; of two, one may be dead
-- Counterpart: extension; the part behind queue/queue.lua
-- KEYS[2] object: string, where it is a string lock: the id of its holder
-- Returns: nothing by itself. It defines `open_first`, `look_for_peers`, `leave_to_peers`, `note_limit`, `choose_watcher`,
--   `check_first`, and `look_in` anew. In the notes stand "most" -> the highest limit of those that wait, "peer" -> "<mark of the lock's
--   holder> <since when that has been known>", "peers" -> "<when there was a sign of peers> <until when something is left to them, or 0>"
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: nothing but notes is changed

-- One permit of so many that come back is left to peers for a moment, where there was a sign of them lately, and else.
local OFTEN, SELDOM, LEFT, LATELY = 5, 31, 3000, 10000000
-- The first client before this script, and the one behind it; the lock's holder; the notes about peers; whether this client is to check.
local first_before, second_before, peer, peers, looks_for_peers
-- Until when what is free is left to peers.
local left_until

local function first_clients()
  local first
  for _, size in ipairs(waiting > 0 and { 2, 64 } or {}) do
    for _, entry in ipairs(redis.call('ZRANGE', QUEUE, 0, size - 1)) do
      local client = client_of(entry)
      if first and client ~= first then return first, client end
      first = client
    end
    if waiting <= size then return first end
  end
  return first
end

local function read_notes()
  local notes = heal('HMGET', NOTES, 'most', 'peer', 'look', 'peers')
  has_notes, most, peer, looks, peers = true, tonumber(notes[1]) or 0, notes[2], notes[3], notes[4]
end

local function open_first()
  if waiting > 0 then read_notes() end
  first_before, second_before = first_clients()
end

-- Before the steps. Permits that are free though no script of ours has given them back are a sign of peers, and so are those that were left
-- to them and have gone.
local function look_for_peers()
  local seen, ends = string.match(peers or '', '^(%d+) (%d+)$')
  local is_free, left = waiting > 0 and free(), ends and ends ~= '0'
  if left and is_free and ends + 0 > now() and ends - now() <= LEFT then
    left_until = ends + 0
  elseif left or is_free then
    note('peers', (is_free == left and seen or score(now())) .. ' 0')
  end
end

-- Behind the steps, where some have come back.
local function leave_to_peers()
  local seen = string.match(peers or '', '^(%d+) %d+$')
  local many = seen and now() - seen < LATELY and OFTEN or SELDOM
  if not first_before or left_until or (now() + NUMBER) % many ~= 0 then return end
  if first_before ~= CLIENT and count_listeners(QUEUE .. ':' .. first_before) == 0 then return end
  left_until = now() + LEFT
  note('peers', (seen or 0) .. ' ' .. score(left_until))
end

local function note_limit(limit)
  if not has_notes then read_notes() end
  if limit > most then note('most', limit) else redis.call('PEXPIRE', NOTES, KEPT) end
  most = math.max(most, limit)
end

-- A lock is looked at again after as long as it has been known in these hands: peers hand theirs round for moments only.
local function lock_pause(key, left)
  local mark = string.sub(redis.sha1hex(redis.call('GET', key) or ''), 1, 8)
  local known, since = string.match(peer or '', '^(%x+) (%d+)$')
  -- One without an end is looked at each second.
  local longest = left < 0 and 1000000 or (left + 1) * 1000
  if known == mark then return math.min(now() - since, longest) end
  local ours = last_id and mark == string.sub(redis.sha1hex(last_id), 1, 8)
  note('peer', mark .. ' ' .. (ours and 0 or score(now())))
  return ours and longest or 0
end

-- In how many microseconds a permit may be free without a message; -1: that is not known.
local function pause()
  if left_until then return left_until - now() end
  local left = store.first_end()
  if lock_left() then return lock_pause(LOCK, locked) end
  if string.find(FLAGS, 'r', 1, true) and not store.fits(1) then return lock_pause(KEYS[2], left) end
  return left < 0 and -1 or (left + 1) * 1000
end

local function choose_watcher()
  for _, client in ipairs({ first_clients() }) do
    local known = client == first_before or client == second_before
    if client == CLIENT then
      looks_for_peers = true
    elseif not known or left_until then
      message(client, 'first ' .. score(pause()))
    end
  end
  return looks_for_peers
end

-- First clients that cannot be notified leave the queue, and return when they can.
local function check_first()
  if waiting == 0 then return end
  redis.call('PEXPIRE', QUEUE, KEPT)
  redis.call('PEXPIRE', NOTES, KEPT)
  for _ = 1, 16 do
    local client = first_clients()
    if not client or client == CLIENT or count_listeners(QUEUE .. ':' .. client) ~= 0 then return end
    drop_all({ [client] = true })
  end
end

-- Each wants one, and none blocks those behind it.
blocks = function() return false end

local look_for_grants = look_in
local function look_in(ends)
  local left, own = look_for_grants(ends), looks_for_peers and pause() or -1
  return own >= 0 and left >= -1 and (left < 0 or own < left) and own or left
end
