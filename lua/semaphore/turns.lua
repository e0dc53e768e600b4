-- Purpose: whose turn it is among callers of several clients: how many of those who ask may take permits;
--   src/engine/turns has the rule and its reasons
-- Counterpart: extension: the part behind counter.lua and engine/line.lua, and before batch.lua
-- KEYS[1..] keys: those of batch.lua; the third ends with this client's id; the fourth and fifth are the line and its
--   notes, see engine/line.lua, without which nothing is done here. Those who take part listen to a channel that is
--   called like the line. In the notes' field "*": the counter behind the last script, how many permits strangers are
--   owed, how much of an equal share that is, and since when some are kept for them
-- ARGV[1..] those of batch.lua; the last eight, where there is a line: for how many microseconds the first in line
--   has waited, and the last of those who ask now; how many ask, and how many wait; the first one's ticket; how many of the
--   listeners are this client itself; 1: nobody may pass the first in line; how many callers were served without
--   Redis meanwhile
-- Returns: nothing by itself; it defines for batch.lua `listeners`, `steps_end`, `strict` and, where others listen,
--   `turn`, `due` and `close_turn`, whose word is "turn:<held>:<told>:<pause>:<keep>:<strangers>:<clients>": 1 if callers
--   were held back from what is free; 1 if somebody was told of it, and after how many microseconds it is to be seen
--   whether they came, 0 if nobody is waited for; for how long a caller must have waited by now to be served within its
--   process (may be less than nothing), "-" for none; how many strangers listen; how many clients stand in line. Or
--   "turn:off": the server does not let the line be kept
-- Publishes: nothing
-- Repeat-safe: yes, batch.lua keeps a record; a batch that leaves none has changed nothing but the line
-- Invariant: nobody gets more than there is

local turn, due, close_turn
local listeners, ours, steps_end = -1, 0, #ARGV
if KEYS[5] then
  steps_end = steps_end - 8
  listeners, ours = count_listeners(KEYS[4])
end
local time = listeners > 0 and listeners > ARGV[steps_end + 6] + 0 and redis.pcall('TIME')
if time and not time.err then
  local PATIENCE, MOST_OWED, LEAST_WEIGHT = 5000, 8, 1 / 32
  local floor, min, max = math.floor, math.min, math.max
  local now = time[1] * 1000000 + time[2]
  local head, last = now - ARGV[steps_end + 1], now - ARGV[steps_end + 2]
  local named, waiting = ARGV[steps_end + 3] + 0, ARGV[steps_end + 4] + 0
  local ticket, handed_over = ARGV[steps_end + 5] + 0, ARGV[steps_end + 8] + 0
  local line = open_line(KEYS[4], KEYS[5], ARGV[1], string.sub(KEYS[3], -36), now, named > 0)
  local strangers = max(0, listeners - ours)
  local asked, served, taken, kept, held, want = 0, 0, 0, 0, false, nil
  turn = { strangers = strangers, left = 0 }

  -- What strangers are owed, less what they have taken since the last script.
  local counter, owed, weight, since
  if strangers > 0 then
    local account = redis.pcall('HGET', KEYS[5], '*')
    counter, owed, weight, since =
      string.match(type(account) == 'string' and account or '', '^(%-?%d+) (%d+%.%d+) (%d+%.%d+) (%d+)$')
    counter, owed, since = tonumber(counter), min(MOST_OWED, tonumber(owed) or 0), tonumber(since) or 0
    weight = max(LEAST_WEIGHT, min(1, tonumber(weight) or 1))
    if counter and counter > before then
      owed, weight, since = max(0, owed - (counter - before)), min(1, weight * 2), 0
    elseif since > 0 and now - since >= PATIENCE then
      owed, weight, since = 0, weight / 2, 0
    end
    kept = floor(owed)
  end

  -- How many of those who ask came by `instant`; they are taken to have come evenly.
  local function came_by(instant)
    if last <= instant then return named end
    if head > instant then return 0 end
    return 1 + floor((instant - head) / (last - head) * (named - 1))
  end

  -- How many of `count` callers may take `amount` permits each.
  due = function(total, amount, count)
    local result = 0
    if turn.stops then count = 0 end
    while result < count and total - kept - result * amount >= amount do
      local left = total - kept - result * amount
      local may = min(count, came_by(line.limit()) - asked, floor(left / amount) + result)
      if may > result then
        result = may
      elseif line.limit() == math.huge then
        break
      else
        kept = kept + line.keep(left)
      end
    end
    held = held or result < count and total - result * amount >= amount
    if result < count then want = want or amount end
    if asked == 0 then turn.amount = amount end
    if asked == 0 and result == 0 then
      turn.refused = true
      turn.stops = total - kept > 0 and line.stops(head, ticket)
    end
    asked, served, taken = asked + count, served + result, taken + result * amount
    return result
  end

  -- Leaves this client's place, tells whose turn it is, and says how the turns stand.
  close_turn = function(total)
    local waits, grants = waiting > served, served + handed_over
    local first = turn.refused and head or head + (last - head) * min(1, served / max(1, named - 1))
    local left, clients = line.close(max(0, total - kept), {
      waits = waits, head = head, since = first, want = want or turn.amount or 1,
      stops = turn.stops, ticket = turn.refused and ticket or 0, took = grants > 0, total = total, amount = turn.amount or 1,
    })
    if not left then
      turn.strangers, turn.left = 1, 1
      return ' turn:off'
    end
    turn.left = left
    if strangers > 0 then
      local keeps = owed >= 1 and total > 0
      if keeps and since == 0 then
        since, line.told = now, true
      elseif not keeps then
        since = 0
      end
      local rest = max(1, since + PATIENCE - now)
      if keeps then line.pause = line.pause > 0 and min(line.pause, rest) or rest end
      owed = min(MOST_OWED, owed + grants * weight * strangers / max(1, clients))
      redis.pcall('HSET', KEYS[5], '*', string.format('%.0f %.4f %.4f %.0f', total, owed, weight, since))
    end
    local keep = line.first and now - line.first - 5000 or -5000
    return string.format(' turn:%d:%d:%.0f:%s:%.0f:%.0f', held and 1 or 0, line.told and 1 or 0, line.pause,
      (strangers > 0 or turn.stops) and '-' or string.format('%.0f', keep / 1.1), strangers, clients)
  end
end
local strict = KEYS[5] and ARGV[steps_end + 7] == '1'
