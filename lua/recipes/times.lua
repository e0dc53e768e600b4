-- Purpose: a zset of ids by the time at which their holders came or last refreshed: what has expired, what
--   is written in other units, what is refreshed
-- Counterpart: extension: the first part of the scripts that timestamp.lua and fair.lua belong to
-- KEYS[1] times: zset, id -> time in seconds (with fractions) or milliseconds
-- Returns: nothing by itself; it defines `times` for the parts behind it
-- Publishes: nothing
-- Repeat-safe: yes, each function leaves the same when it is called again
-- Invariant: an entry that has not expired is not removed

local MOST_EXPIRED = 512
local CHUNK = 1000
local times = {}

-- How long an entry of this score lasts; -1: for ever.
local function millis_left(setting, score)
  if score == math.huge then return -1 end
  local millis = setting.seconds and score * 1e3 or score
  return math.max(0, math.ceil(millis + setting.timeout - setting.now / 1e3))
end

-- A time in microseconds as a score.
function times.score(micros, seconds)
  if seconds then return string.format('%.6f', micros / 1e6) end
  return string.format('%.0f', math.floor(micros / 1e3))
end

-- A score that would be a time of these days if it were in the other unit.
local function is_foreign(setting, score)
  local other = setting.seconds and setting.now / 1e3 or setting.now / 1e6
  return score >= other / 2 and score <= other * 2
end

-- Ids whose time is over, and whether there may be more of them; before that a refusal, where times are in
-- the other unit. Seconds among milliseconds look long over; milliseconds among seconds come last.
function times.expired(setting)
  local last = times.score(setting.now - setting.timeout * 1e3, setting.seconds)
  local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'WITHSCORES', 'LIMIT', 0, MOST_EXPIRED)
  local latest = setting.seconds and redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  if latest and is_foreign(setting, tonumber(latest)) then return 'units ' .. latest end
  local ids = {}
  for i = 1, #found, 2 do
    if is_foreign(setting, tonumber(found[i + 1])) then return 'units ' .. found[i + 1] end
    ids[#ids + 1] = found[i]
  end
  return nil, ids, #ids == MOST_EXPIRED
end

-- Enters ids with the time of now; no entry is set back.
function times.enter(setting, ids)
  local score, entries = times.score(setting.now, setting.seconds), {}
  for i = 1, #ids do
    entries[2 * i - 1], entries[2 * i] = score, ids[i]
  end
  return redis.call('ZADD', KEYS[1], 'GT', unpack(entries))
end

-- Milliseconds until the oldest entry expires; -1 where none will.
function times.first_end(setting)
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  return oldest and millis_left(setting, tonumber(oldest)) or -1
end

-- "id", "milliseconds left or -1", "0", ... for those of `ids` that have an entry.
function times.left(setting, ids)
  local list = {}
  for from = 1, #ids, CHUNK do
    local chunk = { unpack(ids, from, math.min(#ids, from + CHUNK - 1)) }
    local scores = redis.call('ZMSCORE', KEYS[1], unpack(chunk))
    for i = 1, #chunk do
      local left = scores[i] and millis_left(setting, tonumber(scores[i]))
      if left then
        local size = #list
        list[size + 1], list[size + 2], list[size + 3] = chunk[i], string.format('%.0f', left), '0'
      end
    end
  end
  return list
end
