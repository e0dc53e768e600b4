-- Purpose: where a fair semaphore keeps its holders: a zset by time and one by a counter that rises with
--   each acquisition; who is among the first in the second holds
-- Counterpart: extension: the part behind times.lua and before look.lua and batch.lua
-- KEYS[1..] keys: those of steps.lua, and from the fourth on
--   times: zset, id -> time
--   owners: zset, id -> the counter's value when it came
--   counter: string, the value given out last, a decimal integer
--   tokens: list, one entry for each waiter of other programs to be woken, where the layout has one
-- Returns: nothing by itself; it defines `store` for look.lua and batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, by steps.lua
-- Invariant: an id enters both zsets or none; the counter never falls below a score that is given out

-- Half of what a double counts exactly: 2^52.
local LAST = 4503599627370496
-- So many owners are looked at together.
local WINDOW = 256
local store = {}
local timed, owned, owned_before

-- Owners without a time are left where another program has removed them from the first zset only. The
-- originals intersect both zsets each time; here it is looked for where there are more owners than times, first
-- among the oldest, then anywhere; `true` while some may be left.
local function drop_strays(setting, strays)
  local from = 0
  for _ = 1, 2 do
    local ids, gone = redis.call('ZRANGE', KEYS[5], from, from + WINDOW - 1), {}
    local scores = redis.call('ZMSCORE', KEYS[4], unpack(ids))
    for i = 1, #ids do
      if not scores[i] then gone[#gone + 1] = ids[i] end
    end
    if #gone > 0 then redis.call('ZREM', KEYS[5], unpack(gone)) end
    strays, owned = strays - #gone, owned - #gone
    if strays <= 0 then return false end
    from = setting.now % owned
  end
  return true
end

-- Looks for flaws, and removes what has expired: a refusal or nil, whether there is more to remove, and whether any
-- was.
function store.open(setting)
  owned = redis.call('ZCARD', KEYS[5])
  owned_before = owned
  if setting.tokens then redis.call('LLEN', KEYS[7]) end
  local refusal, expired, more = times.expired(setting)
  if refusal then return refusal end
  if #expired > 0 then
    owned = owned - redis.call('ZREM', KEYS[5], unpack(expired))
    redis.call('ZREM', KEYS[4], unpack(expired))
  end
  timed = redis.call('ZCARD', KEYS[4])
  if owned > timed then more = drop_strays(setting, owned - timed) or more end
  return nil, more, #expired > 0 or owned < owned_before
end

-- An entry that is in the first zset only is somebody in the middle of his steps, or his leavings: he
-- may have a counter's value below the next one, so he counts.
local function held()
  return math.max(timed, owned)
end

-- How many permits are left under a limit.
function store.room(_, limit)
  return limit - held()
end

-- Gives out `count` values of the counter: the one before the first of them; or nil, and why not.
local function give_out(setting, count)
  local empty = timed == 0 and owned == 0
  local last = redis.pcall('INCRBY', KEYS[6], count)
  if type(last) == 'table' then
    local text = redis.call('GET', KEYS[6]) or '0'
    if not string.match(text, '^-?%d+$') then return nil, 'unreadable ' .. string.sub(text, 1, 64) end
    -- Only as long a number can't be counted on; otherwise it is the server that refuses.
    last = #text < 19 and redis.call('INCRBY', KEYS[6], count) or LAST * 2
  end
  local before = last - count
  -- Without a lock somebody may have taken a value and not entered it yet; nothing tells for how long.
  if empty and (setting.locked or before >= LAST / 2) then
    before = 0
  elseif before < owned then
    -- Somebody has deleted it or set it back.
    local highest = redis.call('ZREVRANGEBYSCORE', KEYS[5], LAST, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    before = highest and math.max(before, math.floor(tonumber(highest))) or before
  end
  if before > LAST - count then return nil, 'ERR the counter is at its end until nobody holds' end
  if before + count ~= last then redis.call('SET', KEYS[6], string.format('%.0f', before + count)) end
  return before
end

-- Makes holders of `ids`, behind all others; or returns nil, and why not.
function store.take(setting, ids)
  local before, reason = give_out(setting, #ids)
  if not before then return nil, reason end
  local entries = {}
  for i = 1, #ids do
    entries[2 * i - 1], entries[2 * i] = before + i, ids[i]
  end
  redis.call('ZADD', KEYS[5], unpack(entries))
  times.enter(setting, ids)
  timed, owned = timed + #ids, owned + #ids
end

-- Nobody has this id: whether anything may be removed, which is the server's error where it may not.
function store.may_drop() redis.call('ZREM', KEYS[4], '\0') end

-- Removes all traces of `ids`; which of them were there.
function store.drop(_, ids)
  local count, held = #ids, nil
  if count > 1 then held = redis.call('ZMSCORE', KEYS[4], unpack(ids)) end
  owned = owned - redis.call('ZREM', KEYS[5], unpack(ids))
  local removed = redis.call('ZREM', KEYS[4], unpack(ids))
  timed = timed - removed
  return held or { removed == 1 }
end

-- Which of `ids` hold; those do from now on. Nothing is left of the others.
function store.refresh(setting, ids)
  local held, kept, gone = redis.call('ZMSCORE', KEYS[4], unpack(ids)), {}, {}
  local number = redis.call('ZMSCORE', KEYS[5], unpack(ids))
  for i = 1, #ids do
    held[i] = held[i] and number[i]
    local list = held[i] and kept or gone
    list[#list + 1] = ids[i]
  end
  if #kept > 0 then times.enter(setting, kept) end
  if #gone > 0 then store.drop(setting, gone) end
  return held
end

function store.first_end(setting)
  return times.first_end(setting)
end

-- A page of the holders: where it ends, and what is known of them.
function store.list(setting, from)
  return times.page(setting, KEYS[5], setting.limit, from)
end

function store.clear()
  local held = held()
  redis.call('DEL', KEYS[5])
  redis.call('DEL', KEYS[4])
  timed, owned = 0, 0
  return held
end

-- Keeps the tokens in step: one for each waiter of other programs that has come within the limit by this
-- call and for each permit left, as far as permits were given back; none for a permit that was taken.
function store.settle(setting, given_back, taken)
  if not setting.tokens or given_back + taken == 0 then return end
  local free = math.max(0, setting.limit - owned)
  local promoted = math.max(0, math.max(0, owned_before - setting.limit) - math.max(0, owned - setting.limit))
  local tokens, wanted = redis.call('LLEN', KEYS[7]), free + promoted
  if tokens > wanted and taken > 0 then
    redis.call('RPOP', KEYS[7], tokens - wanted)
  end
  for _ = 1, math.min(given_back, wanted - tokens) do redis.call('LPUSH', KEYS[7], '1') end
end
