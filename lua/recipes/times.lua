-- Purpose: a zset of ids by the time at which their holders came or last refreshed: what has expired, what
--   is written in other units, what is refreshed
-- Counterpart: extension: the part before timestamp.lua and fair.lua
-- KEYS[1..] keys: those of steps.lua, and as the fourth the times: zset, id -> time in seconds (with fractions) or milliseconds
-- Returns: nothing by itself; it defines `times` for the parts behind it
-- Publishes: nothing
-- Repeat-safe: yes, each function leaves the same when it is called again
-- Invariant: an entry that has not expired is not removed

local MOST_EXPIRED = 512
-- So many holders are told of together.
local PAGE = 256
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
  return string.format('%d', math.floor(micros / 1e3))
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
  local found = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', last, 'WITHSCORES', 'LIMIT', '0', MOST_EXPIRED)
  local latest = setting.seconds and redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2]
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
  return redis.call('ZADD', KEYS[4], 'GT', unpack(entries))
end

-- Milliseconds until the oldest entry expires; -1 where none will.
function times.first_end(setting)
  local oldest = redis.call('ZRANGE', KEYS[4], '0', '0', 'WITHSCORES')[2]
  return oldest and millis_left(setting, tonumber(oldest)) or -1
end

local function to_hex(text)
  return (string.gsub(text, '.', function(byte) return string.format('%02x', string.byte(byte)) end))
end

local function from_hex(text)
  return (string.gsub(text, '..', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- Where a page begins that is behind the member `from` of the zset `key`, "<its score> <itself in hex>"; `0` where there
-- is none. What has been removed or refreshed since may bring some of the page before again, but none is left out.
local function start_of(key, from)
  local score, member = string.match(from, '^(%S+) (%x*)$')
  if not score then return 0 end
  member = from_hex(member)
  if redis.call('ZMSCORE', key, member)[1] == score then return redis.call('ZRANK', key, member) + 1 end
  return redis.call('ZCOUNT', key, '-inf', '(' .. score)
end

-- A page of the first `most` members of the zset `key`: where it ends ("": it is the last), then "id", "milliseconds
-- left or -1", "0" for each that has an entry.
function times.page(setting, key, most, from)
  local start = start_of(key, from)
  local last = math.min(start + PAGE, most) - 1
  local page = last >= start and redis.call('ZRANGE', key, start, last, 'WITHSCORES') or {}
  local ids, list = {}, { '' }
  for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
  if #ids == 0 then return list end
  if #ids == PAGE then list[1] = page[#page] .. ' ' .. to_hex(page[#page - 1]) end
  local scores = redis.call('ZMSCORE', KEYS[4], unpack(ids))
  for i = 1, #ids do
    local left = scores[i] and millis_left(setting, tonumber(scores[i]))
    if left then
      local size = #list
      list[size + 1], list[size + 2], list[size + 3] = ids[i], string.format('%.0f', left), '0'
    end
  end
  return list
end
