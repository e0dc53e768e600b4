-- Purpose: carries out, once, the calls that the tasks of one client made on one semaphore: in order,
--   reading the counter once and writing it once, as if their single scripts had run back to back.
-- Counterpart: RSemaphore.tryAcquire, release, releaseIfExists, addPermits, drainPermits,
--   trySetPermits, availablePermits
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] record: string, "<sequence number> <answer>" of this client's last batch that is on record
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "1": put the batch on record even if it changes nothing (an earlier copy may still arrive)
-- ARGV[5..] steps of three: kind, amount, count
--   release: count times amount            release_if_exists: the same, where the semaphore exists
--   acquire: count times amount, each on its own
--   acquire_in_line: as acquire; once it falls short no later step of this kind gets anything
--   add: amount, may be negative           drain: to zero
--   try_set: amount; count is the time to live in milliseconds, 0 for none
--   available: the counter
-- Returns: "<listeners> <available> <result>...": listeners heard the announcement (-1: unknown); a
--   result is how many of count were carried out, followed by ":<counter>" where the range forbade
--   the others; "missing" (release_if_exists); the counter before it (drain); 1 or 0 (try_set, add).
--   "stale" for a batch older than the record; "unreadable <text>" for a counter that is no integer
-- Publishes: the new total where permits were added and some are left, then "0" for each further permit
--   added, as long as somebody hears it, so that each async waiter of a JVM is started
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: the counter changes by exactly what the results say, keeps its time to live, and stays
--   within 32 bits; after an error nothing has changed

local LOWEST, HIGHEST = -2147483648, 2147483647
local MOST_NUDGES = 64

local publish_command, sequence = ARGV[1], tonumber(ARGV[2])

local record = redis.call('GET', KEYS[3])
if record then
  local last, answer = string.match(record, '^(%d+) (.*)$')
  last = tonumber(last)
  if last == sequence then return answer end
  if last and last > sequence then return 'stale' end
end

local text = redis.call('GET', KEYS[1])
local total, exists = 0, false
if text then
  if #text > 15 or not (text == '0' or string.find(text, '^%-?[1-9]%d*$')) then
    return 'unreadable ' .. string.sub(text, 1, 64)
  end
  total, exists = tonumber(text), true
end

local before, existed, life = total, exists, 0
local added, announce, taken, line_stopped = 0, false, 0, false
local results = {}

local function release(amount, count)
  local done = math.max(0, math.min(count, math.floor((HIGHEST - total) / amount)))
  if done > 0 then
    total, exists = total + done * amount, true
    added, announce = added + done * amount, true
  end
  if done < count then return string.format('%d:%.0f', done, total) end
  return done
end

local function acquire(amount, count)
  if not exists or total < amount then return 0 end
  local done = math.min(count, math.floor(total / amount))
  total, taken = total - done * amount, taken + done
  return done
end

local step = {
  release = release,
  release_if_exists = function(amount, count)
    if not exists then return 'missing' end
    return release(amount, count)
  end,
  acquire = acquire,
  acquire_in_line = function(amount, count)
    if line_stopped then return 0 end
    local done = acquire(amount, count)
    line_stopped = done < count
    return done
  end,
  add = function(amount)
    if total + amount > HIGHEST or total + amount < LOWEST then
      return string.format('0:%.0f', total)
    end
    total, exists, announce = total + amount, true, true
    added = added + math.max(0, amount)
    return 1
  end,
  drain = function()
    local drained = total
    total = 0
    return string.format('%.0f', drained)
  end,
  try_set = function(amount, ttl)
    if exists then return 0 end
    total, exists, life, announce = amount, true, ttl, true
    added = added + amount
    return 1
  end,
  available = function() return string.format('%.0f', total) end,
}

for i = 5, #ARGV, 3 do
  results[#results + 1] = step[ARGV[i]](tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
end

local answer = string.format('%.0f', total) .. ' ' .. table.concat(results, ' ')
local created = exists and not existed
local changed = created or total ~= before

-- The record first: a server that can't or may not write says so before anything has changed.
local recorded = changed or ARGV[4] == '1'
if recorded then
  redis.call('SET', KEYS[3], string.format('%.0f -1 ', sequence) .. answer, 'PX', ARGV[3])
end

local function forget_record()
  if record then
    redis.call('SET', KEYS[3], record, 'PX', ARGV[3])
  elseif recorded then
    redis.call('DEL', KEYS[3])
  end
end

if changed then
  local written
  local number = string.format('%.0f', created and total or total - before)
  if not created then
    written = redis.pcall('INCRBY', KEYS[1], number)
  elseif life > 0 then
    written = redis.pcall('SET', KEYS[1], number, 'PX', string.format('%.0f', life))
  else
    written = redis.pcall('SET', KEYS[1], number)
  end
  if type(written) == 'table' and written.err then
    forget_record()
    return written
  end
end

local listeners = -1
if announce and total > 0 then
  listeners = redis.pcall(publish_command, KEYS[2], string.format('%.0f', total))
  if type(listeners) == 'table' then
    if created then
      redis.call('DEL', KEYS[1])
    elseif changed then
      redis.call('INCRBY', KEYS[1], string.format('%.0f', before - total))
    end
    forget_record()
    return listeners
  end
  local nudges = math.min(added, total, MOST_NUDGES) - 1
  local heard = listeners
  while nudges > 0 and heard > 0 do
    heard = redis.call(publish_command, KEYS[2], '0')
    nudges = nudges - 1
  end
elseif added > 0 and taken > 0 then
  -- All that was given back went to this client's own callers: does anybody else wait for permits?
  local counting = publish_command == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, KEYS[2])
  if not counted.err then listeners = counted[2] end
end

return string.format('%d ', listeners) .. answer
