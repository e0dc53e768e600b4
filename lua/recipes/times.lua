-- Purpose: the holders of a timestamp or fair semaphore: a zset of ids by the time at which they came or were refreshed; in a fair one
--   also a zset of ids by a counter that rises with each acquisition
-- Counterpart: extension; the part behind queue/entries.lua
-- KEYS[2] times: zset, id -> time in seconds (with fractions) or milliseconds
-- KEYS[7] owners: zset, id -> the value of the counter when it came
-- KEYS[8] counter: string, the last value, a decimal integer
-- KEYS[9] tokens: list, one entry for each waiter of other programs to be woken, where the layout has one
-- Returns: nothing by itself. It defines `store`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: an id enters both zsets or none. The counter never falls below a score that is given out. Holders that have not expired stay

local TIMES, SECONDS = KEYS[2], string.find(FLAGS, 's', 1, true)
local OWNERS, COUNTER, TOKENS = string.find(FLAGS, 'f', 1, true) and KEYS[7], KEYS[8], string.find(FLAGS, 't', 1, true) and KEYS[9]
-- Half of what a double counts exactly: 2^52.
local LAST, SOME = 4503599627370496, 512
local timed, owned, owned_before, given_back, taken = 0, 0, 0, 0, 0

local function score_at(micros)
  return SECONDS and string.format('%.6f', micros / 1e6) or string.format('%.0f', math.floor(micros / 1e3))
end

-- How many milliseconds an entry of this score lasts; -1: for ever.
local function left_of(time)
  if time == math.huge then return -1 end
  return math.max(0, math.ceil((SECONDS and time * 1e3 or time) + TIMEOUT - now() / 1e3))
end

-- A time of these days in the other unit is refused. Seconds among milliseconds look long over.
local function check_units()
  local other = now() / (SECONDS and 1e3 or 1e6)
  local found = redis.call('ZRANGEBYSCORE', TIMES, other / 2, other * 2, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return found and 'unreadable units ' .. found
end

local function forget(ids)
  if OWNERS then owned = owned - redis.call('ZREM', OWNERS, unpack(ids)) end
  redis.call('ZREM', TIMES, unpack(ids))
end

-- Another program has removed them from the first zset only. They are looked for among the oldest owners, then anywhere.
local function drop_strays()
  local from = 0
  for _ = 1, 2 do
    local ids, gone = redis.call('ZRANGE', OWNERS, from, from + SOME - 1), {}
    local times = redis.call('ZMSCORE', TIMES, unpack(ids))
    for i = 1, #ids do
      if not times[i] then gone[#gone + 1] = ids[i] end
    end
    if #gone > 0 then owned = owned - redis.call('ZREM', OWNERS, unpack(gone)) end
    if owned <= timed then return end
    from = now() % owned
  end
end

-- Removes what has expired. Returns the answer to the batch where the times are in other units.
function store.open()
  if OWNERS then owned = redis.call('ZCARD', OWNERS) end
  owned_before = owned
  if TOKENS then redis.call('LLEN', TOKENS) end
  local checked, over = false, nil
  repeat
    over = redis.call('ZRANGEBYSCORE', TIMES, '-inf', score_at(now() - TIMEOUT * 1e3), 'LIMIT', 0, SOME)
    local refusal = not checked and (SECONDS or #over > 0) and check_units()
    if refusal then return refusal end
    checked = true
    if #over > 0 then forget(over) end
  until #over < SOME
  timed = redis.call('ZCARD', TIMES)
  if owned > timed then drop_strays() end
end

-- A peer that is in the first zset only is in the middle of its steps. It may have a value below the next one, so it counts.
function store.fits(limit) return limit > math.max(timed, owned) end

-- The next value of the counter; or nil, and why there is none.
local function next_value()
  local last = redis.pcall('INCR', COUNTER)
  if type(last) == 'table' then
    local text = redis.call('GET', COUNTER) or '0'
    if not string.match(text, '^-?%d+$') then return nil, 'unreadable counter ' .. string.gsub(string.sub(text, 1, 64), '[%z%c]', '?') end
    -- Only as long a number cannot be counted on; otherwise it is the server that refuses.
    last = #text < 19 and redis.call('INCR', COUNTER) or LAST * 2
  end
  local value = last
  -- Without a lock a peer may have taken a value and not entered it yet; for how long is unknown.
  if timed == 0 and owned == 0 and (LOCK or last > LAST / 2) then
    value = 1
  elseif last <= owned then
    -- Somebody has deleted it or set it back.
    local highest = redis.call('ZREVRANGEBYSCORE', OWNERS, LAST, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    value = highest and math.max(last, math.floor(highest) + 1) or last
  end
  if value > LAST then return nil, 'ERR the counter is at its end until nobody holds' end
  if value ~= last then redis.call('SET', COUNTER, string.format('%.0f', value)) end
  return value
end

-- Makes a holder of `id`, for so many milliseconds at first; or returns nil, and why not.
function store.put(id, lasts)
  if OWNERS then
    local value, why = next_value()
    if not value then return nil, why end
    change('ZADD', OWNERS, value, id)
    owned = owned + 1
  end
  change('ZADD', TIMES, score_at(now() - math.max(0, TIMEOUT - lasts) * 1e3), id)
  timed, taken = timed + 1, taken + 1
  return 0
end

-- Removes all traces of `id`; whether it held.
function store.drop(id)
  if OWNERS and redis.call('ZSCORE', OWNERS, id) then owned = owned - change('ZREM', OWNERS, id) end
  if not redis.call('ZSCORE', TIMES, id) then return false end
  timed, given_back = timed - change('ZREM', TIMES, id), given_back + 1
  return true
end

-- Whether `id` holds; it does from now on.
function store.renew(id)
  local time = redis.call('ZSCORE', TIMES, id)
  local value = time and (not OWNERS or redis.call('ZSCORE', OWNERS, id))
  if value then
    change('ZADD', TIMES, 'GT', score_at(now()), id)
    return 0
  end
  store.drop(id)
end

-- Milliseconds until the first holder expires by itself; -1: never.
function store.first_end()
  local oldest = redis.call('ZRANGE', TIMES, 0, 0, 'WITHSCORES')[2]
  return oldest and left_of(oldest + 0) or -1
end

-- Those of a page that hold: where it ends, and each with the milliseconds that it lasts and its slot. The first owners hold.
function store.list(from)
  local page = redis.call('ZSCAN', OWNERS or TIMES, from, 'COUNT', PAGE)
  local last = OWNERS and tonumber(redis.call('ZRANGE', OWNERS, LIMIT - 1, LIMIT - 1, 'WITHSCORES')[2]) or math.huge
  local list = { page[1] }
  for i = 1, #page[2], 2 do
    local id, value = page[2][i], page[2][i + 1] + 0
    local time = OWNERS and redis.call('ZSCORE', TIMES, id) or not OWNERS and value
    if time and (not OWNERS or value <= last) then list[#list + 1] = { id, left_of(time + 0), 0 } end
  end
  return list
end

function store.clear()
  local held = math.max(timed, owned)
  if OWNERS then change('DEL', OWNERS) end
  change('DEL', TIMES)
  given_back, timed, owned = given_back + held, 0, 0
  return held
end

-- Keeps the tokens in step: one for each waiter of other programs that has come within the limit by this script and for each permit that
-- is left, as far as permits were released; none for a permit that was taken.
function store.settle()
  if not TOKENS or given_back + taken == 0 then return end
  local promoted = math.max(0, math.max(0, owned_before - LIMIT) - math.max(0, owned - LIMIT))
  local tokens, wanted = redis.call('LLEN', TOKENS), math.max(0, LIMIT - owned) + promoted
  for _ = 1, taken > 0 and tokens - wanted or 0 do change('RPOP', TOKENS) end
  for _ = 1, math.min(given_back, wanted - tokens) do change('LPUSH', TOKENS, '1') end
end
