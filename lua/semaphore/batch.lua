-- Purpose: carries out, once, the calls that the tasks of one client made on one semaphore: in order,
--   reading the counter once and writing it once, as if their single scripts had run back to back.
-- Counterpart: RSemaphore.tryAcquire, release, releaseIfExists, addPermits, drainPermits,
--   trySetPermits, availablePermits; the last part of the script, behind counter.lua and turns.lua. OBJECT is the semaphore:
--   string, the permits available as a decimal integer; CHANNEL is where waiters of every client listen
-- ARGV[1..] those of envelope.lua; its steps are three words each: kind, amount, count
--   release: count times amount            release_if_exists: the same, where the semaphore exists
--   acquire: count times amount, each on its own
--   acquire_in_line: as acquire; once it falls short no later step of this kind gets anything
--   add: amount, may be negative           drain: to zero
--   try_set: amount; count is the time to live in milliseconds, 0 for none
--   available: the counter
--   acquire_in_turn: as acquire, for callers who wait, by the rule of turns; only where those are kept
--   Where turns are kept, which others may listen to, nine numbers follow, see turns.lua
-- Returns: how many listen to the channel, those of a pattern not counted (-1: unknown, as in what is on record); how many are
--   available; then for each step how many of count were carried out, followed by ":<counter>" where the range forbade
--   the others; "missing" (release_if_exists); the counter before it (drain); 1 or 0 (try_set, add). Where others listen and
--   turns are kept, a last word follows, see turns.lua. A key of another type is refused
-- Publishes: where permits were added and some are left, as announce.lua has it. With "+" before each where turns are kept,
--   as those who take part are told in another way; nothing then if no other listens, or is to hear of it
-- Repeat-safe: yes, by envelope.lua
-- Invariant: the counter changes by exactly what the results say, keeps its time to live, and stays
--   within 32 bits; after an error nothing has changed. Nothing depends on what the line holds but who comes first

local LOWEST, HIGHEST = -2147483648, 2147483647
local floor, min, max = math.floor, math.min, math.max

local total, exists, life = before, text ~= false, '0'
local added, taken, announces, line_stopped = 0, false, false, false
local results = ''

for i = FIRST, steps_end, 3 do
  local kind, amount, count = ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local result
  local earlier, recorded = total, false
  if holders then kind, count, recorded = holders.begin(kind, amount, count) end
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
      exists, announces = true, true
    end
    if result < count then result = result .. ':' .. total end
  elseif kind == 'add' then
    -- A counter that another client has moved out of the range may be moved back.
    if amount > 0 and total + amount > HIGHEST or amount < 0 and total + amount < LOWEST then
      result = '0:' .. total
    else
      added, total, result = added + max(0, amount), total + amount, 1
      exists, announces = true, true
    end
  elseif kind == 'drain' then
    result, total = total, 0
  elseif kind == 'try_set' then
    result = 0
    if not exists then
      added, total, result = added + amount, amount, 1
      exists, announces, life = true, true, ARGV[i + 2]
    end
  else
    result = total
  end
  if recorded then holders.held = holders.held + earlier - total end
  results = results .. ' ' .. result
end

local changes = {}
if holders then
  results = results .. ' held:' .. holders.held
  holders.write(changes)
end
if text and total ~= before then
  changes[#changes + 1] = { 'SET', OBJECT, total, 'KEEPTTL' }
elseif exists and not text then
  changes[#changes + 1] = life == '0' and { 'SET', OBJECT, total } or { 'SET', OBJECT, total, 'PX', life }
end
results = ' ' .. total .. results

local known, old = on_record('done -1' .. results, changes[1])
if known then return known end
local heard, refusal
if turn then results = results .. close_turn(total, announces and total > 0) end
if announces and total > 0 and not (turn and (turn.told or turn.silent)) then
  heard, refusal = announce(CHANNEL, total, added, turn and turn.sign or '')
  listeners = heard == 0 and 0 or listeners
end
-- Where all that was given back went to this client's own callers: does anybody else wait for permits?
if (heard or added > 0 and taken) and heard ~= 0 and not LINE then listeners = count_listeners(CHANNEL) end
return carry_out(listeners .. results, changes, old, refusal)
