-- Purpose: the lock, as the queue uses it: something of which there is one. Its hash with a short time to live is the grant
-- Counterpart: RLock.tryLock, unlock, forceUnlock; RFencedLock.tryLockAndGetToken; the part behind queue/entries.lua. The amount of an
--   entry is the number of its owner, its kind "f" where it is fenced, else "g", and behind the life stands the lease
-- KEYS[2] lock: hash, the owner that holds it, "<client>:<number>" -> how often; with a time to live
-- KEYS[3] channel: where JVMs wait
-- KEYS[5] token: string, the last fencing token
-- ARGV[7] what this client knows: "<number of the owner that holds the lock>:<how often>"
-- ARGV[11..] the steps of steps.lua, among which it looks for callers that want a token
-- Returns: nothing by itself. It defines `open_lock`, `free`, `fits`, `take`, `leave`, `extend`, `release`, and what steps.lua
--   needs besides
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: at most one owner; always with a time to live, which comes no nearer while it is held. A count is what the client knows and
--   what the steps make of it

local LOCK, CHANNEL, TOKEN, FENCED = KEYS[2], KEYS[3], KEYS[5], 'f'
local HOLDER, HELD = string.match(ARGV[7], '^(%d+):(%d+)$')

-- 1 where the lock is free, and so before this script. One may be left to JVMs.
local total, before, reserved = 0, 0, 0
-- How often owners of this client hold it, of which this script knows; the last token and count that were given.
local counts, token, count = {}, 0, 0

-- Returns the answer to the batch where the lock cannot be used.
local function open_lock()
  local fields = redis.pcall('HLEN', LOCK)
  if type(fields) == 'table' then return 'refused ' .. fields.err end
  total = fields > 0 and 0 or 1
  before = total
end

-- How often the owner `number` of this client holds the lock, as the client knows; `false` where it does not.
local function holds(number)
  if total == 1 then return false end
  if counts[number] == nil then
    local held = redis.call('HGET', LOCK, entry_of(number))
    counts[number] = held and (number == HOLDER and tonumber(HELD) or 0)
  end
  return counts[number]
end

-- `fits`: a waiter may have the lock. `lets`: a call that does not wait may. `goes_ahead`: its owner need not queue. `has`: its grant still stands.
local function free() return total - reserved >= 1 end
local function fits(number) return free() or holds(number) end
local function lets(number) return total == 1 or holds(number) end
local goes_ahead, has = holds, holds

-- The lock lasts for so many milliseconds at least.
local function keep(lease)
  if redis.call('PTTL', LOCK) < lease then change('PEXPIRE', LOCK, lease) end
end

local function unlock()
  change('DEL', LOCK)
  total, counts = 1, {}
end

-- The next fencing token; or nothing, and why there is none.
local function next_token()
  local last = redis.pcall('GET', TOKEN)
  if type(last) == 'table' then return nil, last.err end
  if last and not (last == '0' or string.match(last, '^[1-9]%d*$')) then
    return nil, 'ERR the last fencing token is no whole number from 0 on'
  end
  -- Scripts have no whole numbers beyond 2^53 - 1 that differ from the next ones.
  if last and tonumber(last) >= 9007199254740991 then return nil, 'ERR the last fencing token is so large that none can follow' end
  return (last or 0) + 1
end

-- Refuses the batch where one of its callers wants a token and there is none, before anything has changed.
local function check_tokens()
  for i = 11, #ARGV do
    if ARGV[i] == FENCED or ARGV[i - 1] == 'confirm' and string.find(ARGV[i], '^' .. FENCED) then
      local next, why = next_token()
      if not next then error({ err = why }) end
      return
    end
  end
end

local function read_entry(entry) return string.match(entry, '^[^:]+:(%l)%d+:(%d+):%d+:(%d+)$') end

-- The owner of `entry` takes the lock: for its lease where its caller learns of it by the answer, else for `life` milliseconds and one that
-- Redis may round off. The answer or the message adds the token, if there is one.
local function take(entry, _, life, by_answer)
  local kind, number, lease = read_entry(entry)
  local next = kind == FENCED and next_token()
  if not kind or kind == FENCED and not next then return end
  if next then change('INCR', TOKEN) end
  local held = by_answer and holds(number) or 0
  lease = by_answer and lease + 0 or life + 1
  if not by_answer then lend(client_of(entry), life) end
  -- A server that forbids setting its end says so first: no lock without one is left.
  if total == 1 then redis.call('PEXPIRE', LOCK, lease) end
  change('HSET', LOCK, client_of(entry) .. ':' .. number, held + 1)
  keep(lease)
  total = 0
  counts = by_answer and { [number] = held + 1 } or {}
  token, count = next or 0, held + 1
  local lasts = by_answer and ':' .. score(lease) or ''
  return next and lasts .. (by_answer and '=' or ' ') .. score(next) or lasts
end

-- Of a step that has taken the lock so often.
local function taken(times) return times .. ':' .. score(token) .. ':' .. count end

-- `entry` is not wanted any more. Its grant is released.
local function leave(entry)
  local queued, _, number = waiting, read_entry(entry)
  if waiting > 0 then drop(entry) end
  if waiting < queued or holds(number) ~= 0 then return 0 end
  unlock()
  return 1
end

-- Puts the end of what was granted until `ends` off; 0 where it is not held any more.
local function extend(entry, ends)
  local _, number, lease = read_entry(entry)
  if now() > ends or not holds(number) then return 0 end
  keep(lease + 0)
  return 1
end

-- Gives one hold back. How many are left; -1 where there was none.
local function release(number)
  local held = holds(number)
  if not held then return -1 end
  if held <= 1 then
    unlock()
    return 0
  end
  change('HSET', LOCK, entry_of(number), held - 1)
  counts[number] = held - 1
  return held - 1
end

local function force()
  local held = 1 - total
  if held == 1 then unlock() end
  return held
end

-- Only readers leave something to settle. The message for JVMs when the lock is free.
local function settle() end
local function close_lock() return 0 end
