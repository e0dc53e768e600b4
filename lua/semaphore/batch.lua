-- Purpose: carries out, once, the calls that the tasks of one client made on one semaphore: in order,
--   reading the counter once and writing it once, as if their single scripts had run back to back.
-- Counterpart: RSemaphore.tryAcquire, release, releaseIfExists, addPermits, drainPermits,
--   trySetPermits, availablePermits; the last part of the script, behind counter.lua and turns.lua
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] record: string, "<sequence number> <answer>" of this client's last batch that is on record
-- KEYS[4] line: zset, whose callers wait and since when, and a fifth key beside it; given where others may listen, see
--   turns.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "1": put the batch on record even if it changes nothing (an earlier copy may still arrive); "2": the
--   same, and a later number that stands there now is not by this client; else "0"
-- ARGV[5..] steps of three: kind, amount, count; without any it is asked what has become of this number
--   release: count times amount            release_if_exists: the same, where the semaphore exists
--   acquire: count times amount, each on its own
--   acquire_in_line: as acquire; once it falls short no later step of this kind gets anything
--   add: amount, may be negative           drain: to zero
--   try_set: amount; count is the time to live in milliseconds, 0 for none
--   available: the counter
--   acquire_in_turn: as acquire, for callers who wait, by the rule of turns; only with KEYS[4]
--   With KEYS[4] nine numbers follow the steps, see turns.lua
-- Returns: "done <listeners> <available> <result>...": so many listen to the channel, those of a pattern not counted
--   (-1: unknown); a result is how many of count were carried out, followed by ":<counter>" where the range forbade
--   the others; "missing" (release_if_exists); the counter before it (drain); 1 or 0 (try_set, add).
--   With KEYS[4] and other listeners a last word follows, "turn:<number>:...", see turns.lua.
--   "none" for a number that was asked about, and will do nothing from now on;
--   "stale" for a batch older than the record, and for one sent for the first time that is there already;
--   "unreadable <text>" for a counter that is no integer;
--   "refused <error>" for a key of another type, and for a repeated number that ended with an error
--   In an array where the counter is as it was: there is nothing that replicas could confirm
-- Publishes: the new total, 2^31-1 at the most, where permits were added and some are left, then "0" for each
--   further permit added, as long as somebody hears it, so that each async waiter of a JVM is started. With "+"
--   before each where turns are kept, as those who take part are told in another way; nothing then if no other listens, or is
--   to hear of it
-- Repeat-safe: yes, the record answers a repeated sequence number; once that was asked about, it does nothing any more
-- Invariant: the counter changes by exactly what the results say, keeps its time to live, and stays
--   within 32 bits; after an error nothing has changed. Nothing depends on what KEYS[4] holds but who comes first

local LOWEST, HIGHEST = -2147483648, 2147483647
local MOST_ZEROS = 64
local floor, min, max = math.floor, math.min, math.max

local total, exists, life = before, text ~= false, '0'
local added, taken, announce, line_stopped = 0, false, false, false
local results = ''

for i = 5, steps_end, 3 do
  local kind, amount, count = ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local result
  local earlier, on_record = total, false
  if holders then kind, count, on_record = holders.begin(kind, amount, count) end
  if kind == 'acquire' or kind == 'acquire_in_line' then
    local in_line = kind == 'acquire_in_line'
    result = 0
    if exists and total >= amount and not (in_line and line_stopped) then
      result = min(count, floor(total / amount))
      total, taken = total - result * amount, true
    end
    line_stopped = line_stopped or in_line and result < count
  elseif kind == 'acquire_in_turn' then
    result = 0
    if exists and not (strict and line_stopped) then
      result = turn and due(total, amount, count) or min(count, floor(max(0, total) / amount))
      total, taken = total - result * amount, taken or result > 0
    end
    line_stopped = line_stopped or result < count
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
  if on_record then holders.held = holders.held + earlier - total end
  results = results .. ' ' .. result
end
if holders then results = results .. ' held:' .. holders.held end

local created = exists and not text
local changed = created or total ~= before
local holds = holders and holders.changed()
local recorded = changed or holds or ARGV[4] ~= '0'
local number = total .. ''
local answer = number .. results
local is_question = not ARGV[5]

-- The record first: a server that can't or may not write says so before anything has changed. A batch that
-- changes nothing may be repeated without one.
local old
if recorded then
  local earlier
  old, earlier = record(is_question and 'none' or 'done -1 ' .. answer)
  if earlier then return earlier end
end

local failure, word, sign = holds and holders.write(), '', turn and '+' or ''
if changed and not failure then
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

if turn and not failure then
  word = close_turn(total, announce and total > 0)
end

if failure then
  changed = false
elseif announce and total > 0 and not (turn and (turn.strangers == 0 or turn.silent)) then
  -- A JVM would take a larger number for a negative one.
  local heard = redis.pcall(ARGV[1], KEYS[2], sign .. (total > HIGHEST and '2147483647' or number))
  failure = type(heard) == 'table' and heard
  -- Who hears all channels by a pattern waits for nothing.
  if heard == 0 then listeners = 0 elseif not KEYS[4] then listeners = count_listeners() end
  for _ = 2, failure and 0 or min(added, total, MOST_ZEROS) do
    if heard == 0 then break end
    heard = redis.call(ARGV[1], KEYS[2], sign .. '0')
  end
elseif added > 0 and taken and not KEYS[4] then
  -- All that was given back went to this client's own callers: does anybody else wait for permits?
  listeners = count_listeners()
end

if failure and changed then
  local undone
  if created then
    undone = redis.pcall('DEL', KEYS[1])
  else
    undone = redis.pcall('SET', KEYS[1], text, 'KEEPTTL')
  end
  -- What can't be undone has happened, if unannounced.
  if type(undone) == 'table' and undone.err then failure, listeners = false, -1 end
end

if failure then
  if holds then holders.undo() end
  if ARGV[4] ~= '0' then
    redis.call('SET', KEYS[3], ARGV[2] .. ' refused ' .. failure.err, 'PX', ARGV[3])
  elseif old then
    redis.call('SET', KEYS[3], old, 'PX', ARGV[3])
  elseif recorded then
    redis.pcall('DEL', KEYS[3])
  end
  return failure
end

answer = is_question and 'none' or 'done ' .. listeners .. ' ' .. answer .. word
return recorded and answer or { answer }
