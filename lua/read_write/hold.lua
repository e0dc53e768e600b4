-- Purpose: the read-write lock, as the queue uses it: a hash with the mode and the owners, and beside it a key for each hold of a reader,
--   which lasts as long as the hold. A grant is a hold with a short time to live
-- Counterpart: RReadWriteLock: tryLock, unlock and forceUnlock of its two locks; the part behind queue/entries.lua. The amount of an entry
--   is the number of its owner, its kind "r" for a reader or "w" for a writer, and behind the life stands the lease. Elsewhere an owner is
--   "<number>", or "<number>:write"
-- KEYS[2] lock: hash, "mode" -> "read" or "write"; "<client>:<owner>" -> how often it holds the lock; with a time to live. Its name begins
--   those of the holds: "{lock}:<client>:<number>:rwlock_timeout:<n>" -> 1, with the time to live of the n-th hold
-- KEYS[3] channel: where JVMs wait
-- ARGV[7] what this client knows of the owners in the steps: "<owner>=<how often it holds>,..."
-- Returns: nothing by itself. It defines `open_lock`, `free`, `fits`, `take`, `leave`, `extend`, `release`, and what
--   lock/steps.lua needs besides
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: readers, or one writer, which may read, too; always with a time to live. The lock lasts as long as its longest hold. Where an
--   owner has several, it gives back the one that ends first

local LOCK, CHANNEL, WRITE = KEYS[2], KEYS[3], ':write'
local HOLDS = (string.find(LOCK, '{', 1, true) and LOCK or '{' .. LOCK .. '}') .. ':'
-- So many holds of one owner are looked at.
local MOST_HOLDS = 1024

-- 1 where the lock is free, and so before this script; its mode, and that before. One may be left to JVMs.
local total, before, reserved, mode, was = 0, 0, 0, false, false
-- How often owners of this client hold it, as the client says, and as this script knows; the count that was given last; whether a reader has
-- gone, so that the lock may end sooner; whether it was free and has been taken.
local known, counts, count, unsettled, turned = {}, {}, 0, false, false
for owner, held in string.gmatch(ARGV[7], '([^=,]+)=(%d+)') do known[owner] = held + 0 end
strict = true

-- Returns the answer to the batch where the lock cannot be used. A hash without a mode is held by somebody.
local function open_lock()
  mode = redis.pcall('HGET', LOCK, 'mode')
  if type(mode) == 'table' then return 'refused ' .. mode.err end
  total = not mode and redis.call('EXISTS', LOCK) == 0 and 1 or 0
  before, was = total, mode
end

local function is_writer(owner) return string.sub(owner, -#WRITE) == WRITE end
local function owner_of(number, kind) return kind == 'w' and number .. WRITE or number end
local function hold_of(field, number) return string.format('%s%s:rwlock_timeout:%.0f', HOLDS, field, number) end

-- How often an owner of this client holds the lock, as the client knows; `false` where it does not.
local function holds(owner)
  if total == 1 then return false end
  if counts[owner] == nil then
    counts[owner] = redis.call('HEXISTS', LOCK, entry_of(owner)) == 1 and (known[owner] or 0)
  end
  return counts[owner]
end

local function expire(lease) change('PEXPIRE', LOCK, lease) end
local function keep(lease)
  if redis.call('PTTL', LOCK) < lease then expire(lease) end
end

local function unlock()
  change('DEL', LOCK)
  total, mode, counts = 1, false, {}
end

-- How long the longest hold of a reader lasts; not more exactly than that it is `enough`.
local function longest_hold(enough)
  local all, longest = redis.call('HGETALL', LOCK), 0
  for i = 1, #all, 2 do
    local held = tonumber(all[i + 1])
    for number = 1, held and not is_writer(all[i]) and math.min(held, MOST_HOLDS) or 0 do
      longest = math.max(longest, redis.call('PTTL', hold_of(all[i], number)))
      if longest > 0 and longest >= enough then return longest end
    end
  end
  return longest
end

-- Where a reader has gone the lock ends with the longest hold that is left: at once where all of them are over.
local function settle()
  if not unsettled or mode ~= 'read' then return end
  unsettled = false
  local ttl = redis.call('PTTL', LOCK)
  local longest = longest_hold(ttl < 0 and math.huge or ttl)
  if longest == 0 then unlock() elseif longest < ttl or ttl < 0 then expire(longest) end
end

-- Whether the owner has what lets it in past all others.
local function goes_ahead(number, kind)
  if kind == 'w' then return holds(number .. WRITE) end
  return (holds(number) or 0) > 0 or holds(number .. WRITE)
end
local function free() return total - reserved >= 1 or mode == 'read' end
local function fits(number, kind)
  if kind == 'w' then settle() end
  return total - reserved >= 1 or kind == 'r' and mode == 'read' or goes_ahead(number, kind)
end
local function lets(number, kind) return fits(number, kind) or total == 1 end
local function check_tokens() end

-- A hold lasts for `lease` from now on, or is over.
local function set_hold(key, lease)
  if lease > 0 then change('SET', key, 1, 'PX', lease) else change('DEL', key) end
end
local function keep_hold(key, lease)
  if redis.call('PTTL', key) < lease then set_hold(key, lease) end
end

-- Whether a hold of this reader lasts. Its field may outlast them beside other readers.
local function reads(owner)
  local field = entry_of(owner)
  for number = 1, math.min(tonumber(redis.call('HGET', LOCK, field)) or 0, MOST_HOLDS) do
    if redis.call('PTTL', hold_of(field, number)) > 0 then return true end
  end
  return false
end

-- Of the holds of `owner`, of this client, so many are left: those that last longest.
local function cut(owner, left)
  local field, ends, longest = entry_of(owner), {}, {}
  local held = tonumber(redis.call('HGET', LOCK, field)) or 0
  for number = 1, is_writer(owner) and 0 or math.min(held, MOST_HOLDS) do
    ends[number] = redis.call('PTTL', hold_of(field, number))
    longest[number] = ends[number]
  end
  table.sort(longest, function(one, other) return one > other end)
  for number, lease in ipairs(ends) do
    local stays = number <= left and longest[number] or 0
    if stays ~= lease then set_hold(hold_of(field, number), stays) end
  end
  if left > 0 then change('HSET', LOCK, field, left) else change('HDEL', LOCK, field) end
  counts[owner], unsettled = left > 0 and left, true
end

-- A writer of this client has gone for good: the lock is free, or its readers go on.
local function end_writing(owner)
  if redis.call('HLEN', LOCK) <= 2 then return unlock() end
  change('HSET', LOCK, 'mode', 'read')
  cut(owner, 0)
  mode = 'read'
  settle()
end

local function read_entry(entry)
  local kind, number, lease = string.match(entry, '^[^:]+:([rw])%d+:(%d+):%d+:(%d+)$')
  return kind, kind and owner_of(number, kind), lease
end

-- The owner of `entry` takes the lock: for its lease where its caller learns of it by the answer, else for `life` milliseconds and one that
-- Redis may round off.
local function take(entry, _, life, by_answer)
  local kind, owner, lease = read_entry(entry)
  if not kind then return end
  local field = client_of(entry) .. ':' .. owner
  local old = total == 0 and redis.call('HGET', LOCK, field)
  local held = by_answer and (holds(owner) or 0) or tonumber(old or 0) or 0
  lease = by_answer and lease + 0 or life + 1
  if not by_answer then
    lend(client_of(entry), life)
  elseif old and held < (tonumber(old) or 0) then
    cut(owner, held)
  end
  count, turned = held + 1, turned or total == 1
  -- No lock without an end is left where setting it is forbidden.
  if total == 1 then redis.call('PEXPIRE', LOCK, lease) end
  if kind == 'r' then set_hold(hold_of(field, count), lease) end
  if total == 1 then
    mode = kind == 'r' and 'read' or 'write'
    change('HSET', LOCK, 'mode', mode, field, count)
    redis.call('PEXPIRE', LOCK, lease)
  else
    keep(lease)
    change('HSET', LOCK, field, count)
  end
  total = 0
  if by_answer then counts[owner] = count end
  return by_answer and ':' .. score(lease) or ''
end

-- Of a step that has taken the lock so often.
local function taken(times) return times .. ':0:' .. count end

-- Whether the owner has the lock, as it was granted it, or otherwise.
local function has(owner)
  local held = holds(owner)
  return held and (held > 0 or is_writer(owner) or reads(owner))
end

-- `entry` is not wanted any more. Its grant is released.
local function leave(entry)
  local queued, _, owner = waiting, read_entry(entry)
  if waiting > 0 then drop(entry) end
  local held, stored = waiting == queued and holds(owner), tonumber(redis.call('HGET', LOCK, entry_of(owner))) or 0
  if not held or held >= stored then return 0 end
  -- Other grants of the owner may be on their way.
  if held == 0 and is_writer(owner) then end_writing(owner) else cut(owner, stored - 1) end
  return 1
end

-- Puts the end of what was granted until `ends` off; 0 where it is not held any more.
local function extend(entry, ends)
  local kind, owner, lease = read_entry(entry)
  local held = now() <= ends and holds(owner)
  if not held then return 0 end
  if kind == 'r' then keep_hold(hold_of(entry_of(owner), math.max(held, 1)), lease + 0) end
  keep(lease + 0)
  return 1
end

-- Gives one hold back of those that `owner` has, `known_so_often` as the client knows. How many are left; -1 where there was none.
local function release(owner, known_so_often)
  if known[owner] == nil then known[owner] = known_so_often + 0 end
  local held = holds(owner)
  if not held then return -1 end
  local left = math.max(held - 1, 0)
  if left == 0 and is_writer(owner) then end_writing(owner) else cut(owner, left) end
  return left
end

-- Takes the lock away from all its readers, or from its writer and the readers beside it; whether there were any.
local function force(side)
  if mode ~= side then return 0 end
  unlock()
  return 1
end

-- Ends the steps; readers that come together are one turn for JVMs. The message for JVMs when the lock is free, which wakes one waiter or
-- all; and whether they may read now.
local function close_lock()
  if served > 0 then served = turned and 1 or 0 end
  return was == 'write' and 1 or 0, was == 'write' and mode == 'read'
end
