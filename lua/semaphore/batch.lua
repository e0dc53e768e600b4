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
--   "stale" for a batch older than the record; "unreadable <text>" for a counter that is no integer;
--   "refused <error>" for a key of another type, and for a repeated number that ended with an error
-- Publishes: the new total, 2^31-1 at the most, where permits were added and some are left, then "0" for each further permit
--   added, as long as somebody hears it, so that each async waiter of a JVM is started
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: the counter changes by exactly what the results say, keeps its time to live, and stays
--   within 32 bits; after an error nothing has changed

local LOWEST, HIGHEST = -2147483648, 2147483647
local MOST_ZEROS = 64
local floor, min, max = math.floor, math.min, math.max

-- Puts this batch on record, unless it, or a later one, is there already: then nothing has changed, and
-- the second value is what to answer.
local function record(answer)
  local old = redis.call('SET', KEYS[3], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
  if not old then return false end
  local space = string.find(old, ' ', 1, true) or 1
  local last, sequence = tonumber(string.sub(old, 1, space - 1)), tonumber(ARGV[2])
  if not last or last < sequence then return old end
  redis.call('SET', KEYS[3], old, 'PX', ARGV[3])
  return old, last == sequence and string.sub(old, space + 1) or 'stale'
end

-- Below 10^14 a Lua number and its text are both exact. Only a text that Redis itself would write is an
-- integer to it.
local text = redis.pcall('GET', KEYS[1])
local before, refusal = 0, nil
if type(text) == 'table' then
  refusal = 'refused ' .. text.err
elseif text then
  before = tonumber(text)
  if not before or before % 1 ~= 0 or before <= -1e14 or before >= 1e14
    or before .. '' ~= text or text == '-0' then
    refusal = 'unreadable ' .. string.sub(text, 1, 64)
  end
end
if refusal then
  local earlier
  if ARGV[4] == '1' then earlier = select(2, record(refusal)) end
  return earlier or refusal
end

local total, exists, life = before, text ~= false, '0'
local added, taken, announce, line_stopped = 0, false, false, false
local results = ''

for i = 5, #ARGV, 3 do
  local kind, amount, count = ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local result
  if kind == 'acquire' or kind == 'acquire_in_line' then
    local in_line = kind == 'acquire_in_line'
    result = 0
    if exists and total >= amount and not (in_line and line_stopped) then
      result = min(count, floor(total / amount))
      total, taken = total - result * amount, true
    end
    line_stopped = line_stopped or in_line and result < count
  elseif kind == 'release_if_exists' and not exists then
    result = 'missing'
  elseif kind == 'release' or kind == 'release_if_exists' then
    result = max(0, min(count, floor((HIGHEST - total) / amount)))
    if result > 0 then
      added, total = added + result * amount, total + result * amount
      exists, announce = true, true
    end
    if result < count then result = result .. ':' .. total end
  elseif kind == 'add' then
    -- A counter that another client has moved out of the range may be moved back.
    if amount > 0 and total + amount > HIGHEST or amount < 0 and total + amount < LOWEST then
      result = '0:' .. total
    else
      added, total, result = added + max(0, amount), total + amount, 1
      exists, announce = true, true
    end
  elseif kind == 'drain' then
    result, total = total, 0
  elseif kind == 'try_set' then
    result = 0
    if not exists then
      added, total, result = added + amount, amount, 1
      exists, announce, life = true, true, ARGV[i + 2]
    end
  else
    result = total
  end
  results = results .. ' ' .. result
end

local created = exists and not text
local changed = created or total ~= before
local recorded = changed or ARGV[4] == '1'
local number = total .. ''
local answer = number .. results

-- The record first: a server that can't or may not write says so before anything has changed. A batch that
-- changes nothing may be repeated without one.
local old
if recorded then
  local earlier
  old, earlier = record('-1 ' .. answer)
  if earlier then return earlier end
end

local failure
if changed then
  local written
  if not created then
    written = redis.pcall('SET', KEYS[1], number, 'KEEPTTL')
  elseif life == '0' then
    written = redis.pcall('SET', KEYS[1], number)
  else
    written = redis.pcall('SET', KEYS[1], number, 'PX', life)
  end
  failure = written.err and written
end

local listeners = -1
if failure then
  changed = false
elseif announce and total > 0 then
  -- A JVM would take a larger number for a negative one.
  listeners = redis.pcall(ARGV[1], KEYS[2], total > HIGHEST and '2147483647' or number)
  failure = type(listeners) == 'table' and listeners
  local heard = listeners
  for _ = 2, failure and 0 or min(added, total, MOST_ZEROS) do
    if heard == 0 then break end
    heard = redis.call(ARGV[1], KEYS[2], '0')
  end
elseif added > 0 and taken then
  -- All that was given back went to this client's own callers: does anybody else wait for permits?
  local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, KEYS[2])
  if not counted.err then listeners = counted[2] end
end

if failure then
  if created and changed then
    redis.call('DEL', KEYS[1])
  elseif changed then
    redis.call('SET', KEYS[1], text, 'KEEPTTL')
  end
  if ARGV[4] == '1' then
    redis.call('SET', KEYS[3], ARGV[2] .. ' refused ' .. failure.err, 'PX', ARGV[3])
  elseif old then
    redis.call('SET', KEYS[3], old, 'PX', ARGV[3])
  elseif recorded then
    redis.call('DEL', KEYS[3])
  end
  return failure
end

return listeners .. ' ' .. answer
