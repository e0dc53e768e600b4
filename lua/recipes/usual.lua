-- Purpose: the usual batch of a fair semaphore, in few steps: nobody stands in the line, nothing has expired, there is
--   room for all who ask, and they only acquire and release. Everything else is left to batch.lua.
-- Counterpart: extension: the part behind ids.lua and before times.lua
-- KEYS[1] times: zset, id -> time
-- KEYS[2] owners: zset, id -> the counter's value when it came
-- KEYS[3] counter: string, the value given out last, a decimal integer
-- KEYS[4..] others: record, line and channel, as in batch.lua; with more keys than these six, a peers' lock or
--   tokens, no case is usual
-- ARGV[1..] those of batch.lua
-- Returns: the "done" of batch.lua, or nothing: it goes on with the next part
-- Publishes: nothing
-- Repeat-safe: yes, it leaves the same record as batch.lua
-- Invariant: where it goes on with the next part, nothing has changed but, after an error, the counter

-- The time as a score and in microseconds, both as text; or nothing, if anything has expired or looks strange.
local function clock(timeout, somebody)
  local time = redis.call('TIME')
  local micros = string.sub('000000' .. time[2], -6)
  local now, score, last = time[1] .. micros, nil, nil
  if ARGV[8] == 's' then
    score, last = time[1] .. '.' .. micros, string.format('%.6f', (now - timeout * 1e3) / 1e6)
  else
    score = time[1] .. string.sub(micros, 1, 3)
    last = score - timeout
  end
  if somebody then
    local expired = redis.pcall('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'LIMIT', 0, 1)
    if expired.err or expired[1] then return end
    -- Milliseconds among seconds come last.
    local latest = ARGV[8] == 's' and redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
    if latest and latest * 2 >= score * 1e3 then return end
  end
  return score, now
end

-- How many hold; or nothing, if somebody may stand in the line, or the zsets are not in step. Each of several who
-- release is told his own truth, so then the ids must be the same; where that takes long to see, no case is usual.
local function holders(releases)
  local there = redis.pcall('EXISTS', KEYS[1], KEYS[2], KEYS[5])
  if there == 0 then return 0 end
  if there ~= 2 then return end
  local owned = redis.pcall('ZCARD', KEYS[2])
  -- Where neither is empty the line is.
  if owned ~= redis.pcall('ZCARD', KEYS[1]) or owned == 0 then return end
  if releases < 2 then return owned end
  if owned <= 8 * releases and redis.pcall('ZINTERCARD', 2, KEYS[1], KEYS[2]) == owned then return owned end
end

-- The ids of `wanted` new holders; or nothing.
local function enter(wanted, owned, score)
  local last = redis.pcall('INCRBY', KEYS[3], wanted)
  if type(last) ~= 'number' then return end
  local before = last - wanted
  -- Half of what a double counts exactly is 2^52; a counter far below its end needs no care.
  if before < owned or last > 2251799813685248 then
    redis.call('INCRBY', KEYS[3], -wanted)
    return
  end
  local ids, entries = new_ids(ARGV[13], wanted), {}
  local digits, tens = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }, nil
  for i = 1, wanted do
    local digit = (before + i) % 10
    if digit == 0 or i == 1 then tens = string.format('%.0f', (before + i - digit) / 10) end
    entries[2 * i - 1], entries[2 * i] = tens .. digits[digit], ids[i]
  end
  local done = redis.pcall('ZADD', KEYS[2], unpack(entries))
  if type(done) == 'number' then
    for i = 1, 2 * wanted, 2 do entries[i] = score end
    done = redis.pcall('ZADD', KEYS[1], unpack(entries))
    if type(done) == 'number' then return ids end
  end
  return nil, ids
end

-- Takes those back who could not be entered or put on record.
local function leave(ids)
  redis.pcall('ZREM', KEYS[2], unpack(ids))
  redis.pcall('ZREM', KEYS[1], unpack(ids))
end

-- Removes those who release: "1" for each who held, "0" for one who did not or is named again; or nothing.
local function remove(releases)
  local last, held = 17 + releases, nil
  local known = redis.pcall('ZREM', KEYS[2], unpack(ARGV, 18, last))
  if type(known) ~= 'number' then return end
  if known < releases and releases > 1 then held = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 18, last)) end
  if redis.call('ZREM', KEYS[1], unpack(ARGV, 18, last)) == releases then return string.rep('1', releases) end
  if not held then return '0' end
  local bits, seen = {}, {}
  for i = 1, releases do
    local id = ARGV[17 + i]
    bits[i] = held[i] and not seen[id] and '1' or '0'
    seen[id] = true
  end
  return table.concat(bits)
end

local function usual()
  local releases, tries, timeout = tonumber(ARGV[14]), tonumber(ARGV[16]), tonumber(ARGV[7])
  local named = 0
  for i = 19 + releases, #ARGV, 2 do named = named + ARGV[i] end
  local wanted, owned = named + tries, nil
  if named ~= tonumber(ARGV[12]) then return end

  if wanted > 0 or releases > 1 then
    owned = holders(releases)
    if not owned or wanted > ARGV[6] - owned then return end
  elseif redis.call('EXISTS', KEYS[5]) ~= 0 then
    return
  end
  local score, now = clock(timeout, owned ~= 0)
  if not score then return end

  local entered
  if wanted > 0 then
    local refused
    entered, refused = enter(wanted, owned, score)
    if refused then leave(refused) end
    if not entered then return end
  end
  local bits = '-'
  if releases > 0 then bits = remove(releases) end
  if not bits then return end

  local answer = 'done ' .. now .. ' -1 0 0 - ' .. ARGV[12] .. ' ' .. ARGV[16] .. ' 0 ' .. bits .. ' - - -'
  local recorded = redis.pcall('SET', RECORD, ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
  if recorded.err and entered then
    -- Nobody holds what could be granted twice.
    leave(entered)
    return recorded
  end
  return answer
end

if #KEYS == 6 and ARGV[4] == '0' and ARGV[5] == 'batch' and ARGV[15] == '0' then
  local answer = usual()
  if answer then return answer end
end
