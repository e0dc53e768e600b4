-- Purpose: whose turn it is among callers of several clients: how many of those who ask may take permits;
--   src/engine/turns has the rule and its reasons
-- Counterpart: extension: the part behind permit_expirable/counter.lua or lock/state.lua, announce.lua, engine/line.lua, stops.lua and strangers.lua, and before batch.lua. Of
--   counter.lua it has `before`, how many permits there are, `CHANNEL`, where all listen, `CLIENT`, this client's id, and `LINE` and
--   `NOTES`, the line and its notes, without which nothing is done here. Those who take part listen to a channel that is called like
--   the line
-- ARGV[1] publish command
-- ARGV[2..] those of batch.lua, and nine more where there is a line, see below
-- Returns: nothing by itself; it defines `listeners`, `steps_end`, `strict` and, where others listen, `turn`, `due`,
--   `first_three`, who stand there, and `close_turn`, whose word is told below. "turn:off": the server does not let the line be kept
-- Publishes: "soon" to whoever has come among the first three in line, and "turn" to these where strangers may be faster than
--   one; to those who take part "+" and this client's id where there are permits that nobody can use, and "all" where no line may be kept
-- Repeat-safe: yes, by envelope.lua; a batch that leaves no record has changed nothing but the line
-- Invariant: nobody gets more than there is

-- What a batch says of this client's callers, times in microseconds:
--   1  for how long the first in line has waited
--   2  and the last of those who ask now
--   3  how many ask
--   4  how many wait
--   5  the first one's ticket
--   6  0: this client does not know that it listens, 1: it does, 2: to the line's channel, too, 3: and has heard of others, who need
--      not listen
--   7  the sum of 1: nobody may pass the first in line, 2: this client looks whether those have come whom it has told, 4: it stands
--      in line, as it has been told, and 8: it may call others
--   8  how many messages of strangers were heard meanwhile
--   9  its look goes on behind so many who stand in line
-- What it is told: "turn:<held>:<told>:<pause>:<clients>:<near>:<from>"
--   held       1 if callers were held back from what is free
--   told       for how long this client is to see to it that those come who were told of it, or 0
--   pause      after how long it is to be seen whether they came, 0 if nobody is waited for
--   clients    how many stand in line
--   near       1 if this client is one of the first three
--   from       this client goes on behind so many, for whom what is free does not do; or 0
-- Behind `close_turn` the batch may ask `turn`:
--   told       all know of what is free who are to
--   silent     strangers are not to hear of it
--   sign       what stands before what they hear

local turn
local listeners, ours, steps_end = -1, 0, #ARGV
local own
if NOTES then
  steps_end = steps_end - 9
  own = ARGV[steps_end + 6] + 0
  listeners, ours = count_listeners(CHANNEL, LINE)
end
local what = NOTES and ARGV[steps_end + 7] + 0 or 0
local strict = what % 2 == 1

local time
if NOTES and listeners > (own < 3 and math.min(own, 1) or 0) then
  time = redis.pcall('TIME')
elseif NOTES then
  -- Nobody waits for whoever may stand there; and who comes next finds the line empty, and calls this client.
  local gone = redis.pcall('ZRANGE', LINE, 0, 999)
  if gone[1] then change('ZREM', LINE, unpack(gone)) end
end
if time and not time.err then
  local now, first = time[1] * 1000000 + time[2], steps_end + 1
  local clients, named = length_of(LINE), ARGV[first + 2] + 0
  local line = open_line({
    key = LINE, notes = NOTES, publish = ARGV[1], id = CLIENT, now = now, asks = named > 0, since = now - ARGV[first], count = clients,
    stood = what % 8 >= 4, life = '60000', slack = 5000, part = 0.1,
  })
  clients = math.max(1, math.min(ours, clients))
  turn = {
    line = line, strangers = math.max(0, listeners - ours), clients = clients, ours = ours, own = math.min(own, 2),
    head = now - ARGV[first], last = now - ARGV[first + 1], named = named, waiting = ARGV[first + 3] + 0,
    ticket = ARGV[first + 4] + 0, looks = what % 4 >= 2, heard = ARGV[first + 7] + 0, from = ARGV[first + 8] + 0, asked = 0, served = 0, kept = 0, held = false,
  }
  if turn.strangers > 0 then
    turn.account = open_account(line, turn.strangers, clients, before, turn.heard)
    turn.kept = turn.account.kept
  end
end

-- How many of those who ask came by `instant`; they are taken to have come evenly.
local function came_by(instant)
  if turn.last <= instant then return turn.named end
  if turn.head > instant then return 0 end
  return 1 + math.floor((instant - turn.head) / (turn.last - turn.head) * (turn.named - 1))
end

-- Callers want `amount` of `total`. The look goes on where it ended, unless more is free since then.
local function walk(total, amount)
  local line = turn.line
  line.most = math.max(line.most or 0, total)
  line.reach = line.most + amount
  if total <= before then line:skip(turn.from) end
end

-- How many of `count` callers may take `amount` permits each, of `total`.
local function due(total, amount, count)
  local line, result, kept, may = turn.line, 0, turn.kept, 0
  walk(total, amount)
  -- Where strangers who have had too much are busy, they take what is free before the first in line comes: whoever stands there
  -- and asks is to be faster.
  local all = line.stands and turn.account and turn.account.contested and total <= before
  if turn.stops then count = 0 end
  -- What this caller, and no other of this client, has been told of need not be looked for, as long as nobody may stop the line.
  local called = line.on_time and line.me.ticket == turn.ticket
  if turn.asked == 0 and called and count > 0 and total - kept >= amount and (line:leads() or not line:may_stop()) then result = 1 end
  while result < count and total - kept - result * amount >= amount do
    local left = total - kept - result * amount
    local limit = line:limit(all)
    may = math.min(count, came_by(limit) - turn.asked, math.floor(left / amount) + result)
    if may > result then
      result = may
    elseif limit == math.huge or not line:at(line.place) then
      break
    else
      kept = kept + line:keep(left)
    end
  end
  turn.held = turn.held or result < count and total - result * amount >= amount
  if result < count then turn.want = turn.want or amount end
  if turn.asked == 0 then
    turn.amount, turn.refused = amount, result == 0
    -- Where one who came before stops the line for what is too little for this one as well, that one does.
    while turn.refused and total > kept and line:is_behind(turn.head) do kept = kept + line:keep(total - kept) end
    turn.stops = result == 0 and total - kept > 0 and line:stops_at(turn.head, turn.ticket)
  end
  turn.kept, turn.asked, turn.served = kept, turn.asked + count, turn.served + result
  return result
end

local function first_three() return redis.pcall('ZRANGE', LINE, '0', '2') end
-- Says so to one of them; whether it is heard.
local function tell(id, word)
  local heard = id and id ~= turn.line.id and redis.pcall(ARGV[1], LINE .. ':' .. id, word)
  return type(heard) == 'number' and heard > 0
end

-- Leaves this client's place, tells whose turn it is, and says how the turns stand.
local function close_turn(total, announces)
  local line, account, grants = turn.line, turn.account, turn.served
  if account then close_account(line, account, total, grants) end
  local waits = turn.waiting > turn.served
  local head, part = turn.head, math.min(1, turn.served / math.max(1, turn.named - 1))
  walk(total, turn.amount or 1)
  local left = line:close(math.max(0, total - turn.kept), {
    since = turn.refused and head or head + (turn.last - head) * part, want = turn.want or turn.amount or 1,
    ticket = turn.refused and turn.ticket or 0, stops = turn.stops, waits = waits,
    others = turn.ours > math.max(turn.own - 1, 0), calls = what >= 8 and grants > 0, passes = grants > 0 and head or 0,
  })
  local from = 0
  if line.more and left and left > 0 then
    -- No script is to last long: this client looks after the others in another one, at once.
    from, line.told = line.loaded, true
    line:see(1)
  elseif (announces or turn.looks and turn.from == 0 and turn.named == 0 and total > 0) and left ~= 0 then
    -- Nobody in line can use it: whoever waits may look, and all do who can't stand in line. So it is where who looks finds that those
    -- it has told have not come: who has lost its place is called by nobody else.
    local heard = redis.pcall(ARGV[1], LINE, left and '+' .. line.id or 'all')
    line.unheard = line.unheard or type(heard) == 'table'
  end
  -- Strangers hear of everything, and so do all where somebody could not be told.
  turn.told = turn.strangers == 0 and not line.unheard
  turn.sign = line.unheard and '' or '+'
  if not left then return ' turn:off' end
  -- Who comes near the head of the line answers what strangers say from then on.
  local come = math.max(line.gone, grants > 0 and 1 or 0)
  local near = (come > 0 or waits or account) and first_three() or {}
  for i = math.max(1, 4 - come), 3 do tell(near[i], 'soon') end
  turn.silent = account and account.overdrawn and left == 0 and not line.unheard and near[2]
  if turn.silent and account.contested and announces then
    tell(near[2], 'turn')
    tell(near[3], 'turn')
  end
  local is_near = near[1] == line.id or near[2] == line.id or near[3] == line.id
  -- Whoever told them may have seen meanwhile that nothing was free, and look no more: that falls to whoever has made it free again, or
  -- has heard of it.
  local told = line.told or line.kept_before and (total > before or turn.heard > 0)
  return string.format(' turn:%d:%d:%d:%d:%d:%d', turn.held and 1 or 0, told and math.max(1, line.last > 0 and line.last or line.pause) or 0, line.pause,
    turn.clients, is_near and 1 or 0, from)
end
