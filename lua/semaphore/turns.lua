-- Purpose: whose turn it is among callers of several clients: how many of those who ask may take permits;
--   src/engine/turns has the rule and its reasons
-- Counterpart: extension: the part behind counter.lua, announce.lua and engine/line.lua, and before batch.lua
-- KEYS[1..] keys: those of counter.lua; the first ends with this client's id. `LINE` and `NOTES`, of the part before, are the line
--   and its notes, see engine/line.lua, without which nothing is done here. Those who take part listen to a channel that is
--   called like the line. In the notes' field "*": the counter behind the last script, how many permits strangers are owed, how
--   much of an equal share that is, since when some are kept for them, how many they have not released, and for how long some are kept
-- ARGV[1] publish command
-- ARGV[2..] those of batch.lua; the last nine, where there is a line: for how many microseconds the first in line
--   has waited, and the last of those who ask now; how many ask, and how many wait; the first one's ticket; 0: this
--   client does not know that it listens, 1: it does, 2: to the line's channel, too; 1: nobody may pass the first in
--   line; how many callers were served without Redis, and how many messages of strangers were heard, meanwhile
-- Returns: nothing by itself; it defines for batch.lua `listeners`, `steps_end`, `strict` and, where others listen,
--   `turn`, `due` and `close_turn`, behind which `turn.silent` says that strangers are not to hear of what is free, and whose
--   word is "turn:<held>:<told>:<pause>:<keep>:<strangers>:<clients>:<near>": 1 if callers were held back from what
--   is free; 1 if somebody was told of it, and after how many microseconds it is to be seen whether they came, 0 if nobody is
--   waited for; for how long a caller must have waited by now to be served within its process (may be less than nothing), "-"
--   for none; how many strangers listen; how many clients stand in line; 1 if this client is one of the first three. Or "turn:off": the server does not let the line be kept
-- Publishes: "soon" to whoever has come among the first three in line, and "turn" to these where strangers may be faster than
--   one; to those who take part "+" where permits were added that nobody can use, and "all" where no line may be kept
-- Repeat-safe: yes, by envelope.lua; a batch that leaves no record has changed nothing but the line
-- Invariant: nobody gets more than there is

local turn, due, close_turn
local listeners, ours, steps_end, own = -1, 0, #ARGV, 0
if NOTES then
  steps_end = steps_end - 9
  own = ARGV[steps_end + 6] + 0
  listeners, ours = count_listeners(CHANNEL, LINE)
end
local time
if listeners > math.min(own, 1) and listeners > 0 then
  time = redis.pcall('TIME')
elseif NOTES then
  -- Nobody waits for whoever may stand there; and who comes next finds the line empty, and calls this client.
  local gone = redis.pcall('ZRANGE', LINE, 0, 999)
  if gone[1] then change('ZREM', LINE, unpack(gone)) end
end
if time and not time.err then
  local MOST_OWED, LEAST_WEIGHT, MOST_PATIENCE, NEAR, CROWD = 8, 1 / 32, 40000, 3, 16
  local floor, min, max, client = math.floor, math.min, math.max, string.sub(KEYS[1], -36)
  local now = time[1] * 1000000 + time[2]
  local head, last = now - ARGV[steps_end + 1], now - ARGV[steps_end + 2]
  local named, waiting = ARGV[steps_end + 3] + 0, ARGV[steps_end + 4] + 0
  local ticket, handed_over = ARGV[steps_end + 5] + 0, ARGV[steps_end + 8] + 0
  local line = open_line(LINE, NOTES, ARGV[1], client, now, named > 0, {})
  local strangers, clients = max(0, listeners - ours), max(1, min(ours, line.count()))
  local asked, served, kept, held, want = 0, 0, 0, false, nil
  turn = { strangers = strangers }

  -- What strangers are owed, less what they have taken since the last script: as many as they have released or the
  -- counter has fallen by, whichever is more in the long run.
  local counter, owed, weight, since, unreleased, patience, overdrawn, contested
  if strangers > 0 then
    local account = redis.pcall('HGET', NOTES, '*')
    local n = {}
    for word in string.gmatch(type(account) == 'string' and account or '', '[^ ]+') do
      n[#n + 1] = string.find(word, '^%-?%d+%.?%d*$') and tonumber(word) or 0
    end
    counter, owed, since = n[1] or before, max(-MOST_OWED, min(MOST_OWED, n[2] or 0)), min(now, n[4] or 0)
    unreleased, patience = max(-MOST_OWED, min(MOST_OWED, n[5] or 0)), max(PATIENCE, min(MOST_PATIENCE, n[6] or 0))
    weight = max(LEAST_WEIGHT * PATIENCE / patience * min(1, clients / strangers), min(1, n[3] or 1))
    local fallen, released = max(0, counter - before), ARGV[steps_end + 9] / clients
    local more = unreleased + fallen - released
    local took = released + max(0, more) - max(0, unreleased)
    unreleased = more
    if fallen + took > 0 then
      if since > 0 then patience = max(PATIENCE, 0.6 * patience, min(patience, 1.5 * (now - since))) end
      weight, since = min(1, weight * 2), 0
    elseif since > 0 and now - since >= patience and owed > 0 then
      owed, weight, since, patience = 0, weight / 2, 0, min(MOST_PATIENCE, patience * 2)
    end
    owed = max(-MOST_OWED, owed - took)
    kept = max(0, floor(owed))
    overdrawn = owed < 1 - MOST_OWED
    contested = overdrawn and took > 0
  end

  -- Where strangers who have had too much are busy, they take what is free before the first in line comes: whoever stands there
  -- and asks is to be faster.
  local at_once = contested and line.stands

  -- How many of those who ask came by `instant`; they are taken to have come evenly.
  local function came_by(instant)
    if last <= instant then return named end
    if head > instant then return 0 end
    return 1 + floor((instant - head) / (last - head) * (named - 1))
  end

  -- How many of `count` callers may take `amount` permits each.
  due = function(total, amount, count)
    local result, all = 0, at_once and total <= before
    if turn.stops then count = 0 end
    while result < count and total - kept - result * amount >= amount do
      local left = total - kept - result * amount
      local may = min(count, came_by(line.limit(all)) - asked, floor(left / amount) + result)
      if may > result then
        result = may
      elseif line.limit(all) == math.huge then
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
    asked, served = asked + count, served + result
    return result
  end

  -- Leaves this client's place, tells whose turn it is, and says how the turns stand.
  close_turn = function(total, announces)
    local grants = served + handed_over
    if strangers > 0 then
      local keeps = owed >= 1 and total > 0
      if keeps and since == 0 then
        since, line.told = now, true
      elseif not keeps then
        since = 0
      end
      if keeps then line.wait(since + patience - now) end
      owed = min(MOST_OWED, owed + grants * weight * max(strangers / clients, overdrawn and 1 / CROWD or 0))
      line.note('*', string.format('%.0f %.4f %.6f %.0f %.4f %.0f', total, owed, weight, since, unreleased, patience))
    end
    local left = line.close(max(0, total - kept), {
      since = turn.refused and head or head + (last - head) * min(1, served / max(1, named - 1)),
      want = want or turn.amount or 1, ticket = turn.refused and ticket or 0, stops = turn.stops,
      waits = waiting > served, others = ours > math.max(own - 1, 0), passes = grants > 0 and head or 0,
      reach = total + (turn.amount or 1),
    })
    -- Nobody in line can use it: whoever waits may look, and all do who can't stand in line.
    if announces and left ~= 0 then redis.pcall(ARGV[1], LINE, left and '+' or 'all') end
    if not left then return ' turn:off' end
    -- Who comes near the head of the line answers what strangers say from then on.
    local near = redis.pcall('ZRANGE', LINE, '0', NEAR - 1)
    local function tell(i, word)
      if near[i] and near[i] ~= client then redis.pcall(ARGV[1], LINE .. ':' .. near[i], word) end
    end
    for i = max(1, NEAR + 1 - max(line.left(), grants > 0 and 1 or 0)), NEAR do tell(i, 'soon') end
    turn.silent = overdrawn and left == 0 and near[2]
    for i = 2, contested and turn.silent and announces and NEAR or 0 do tell(i, 'turn') end
    local is_near = near[1] == client or near[2] == client or near[NEAR] == client
    local keep = (strangers > 0 and owed > 0 or turn.stops) and '-' or string.format('%d', now - line.before(line.first or now))
    return string.format(' turn:%d:%d:%d:%s:%d:%d:%d', held and 1 or 0, line.told and 1 or 0, line.pause,
      keep, strangers, clients, is_near and 1 or 0)
  end
end
local strict = NOTES and ARGV[steps_end + 7] == '1'
