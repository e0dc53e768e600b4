-- Purpose: the usual batch of a fair semaphore, in few steps: nobody stands in the line, nothing has expired, there is
--   room for all who ask, and they only acquire and release. Everything else is left to batch.lua.
-- Counterpart: extension: the part behind record.lua and before times.lua
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

-- A word that is no key.
local IDLETIME = 'IDLETIME'

-- The time in microseconds and as a score, both as text; or nothing, if anything has expired or looks strange.
local function clock(timeout, somebody)
  local time, format = redis.call('TIME'), string.format
  local micros = format('%06d', time[2])
  local now, seconds = time[1] .. micros, ARGV[8] == 's'
  local millis = math.floor(now / 1e3)
  local score = seconds and time[1] .. '.' .. micros or format('%.0f', millis)
  if somebody then
    local last = seconds and format('%.6f', (now - timeout * 1e3) / 1e6) or format('%.0f', millis - timeout)
    if redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'LIMIT', 0, 1)[1] then return end
    -- Milliseconds among seconds come last.
    if seconds and tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]) * 2 >= millis then return end
  end
  return now, score
end

-- Removes the ids in the even places of `entries`, with their neighbours.
local function leave(entries)
  redis.pcall('ZREM', KEYS[2], unpack(entries))
  redis.pcall('ZREM', KEYS[1], unpack(entries))
end

-- Whether the ids in the even places of the result have become holders.
local function enter(wanted, owned, score)
  local last = redis.pcall('INCRBY', KEYS[3], wanted)
  if type(last) ~= 'number' then return end
  local before = last - wanted
  -- Half of what a double counts exactly is 2^52; a counter far below its end needs no care.
  if before < owned or last > 2251799813685248 then
    redis.call('INCRBY', KEYS[3], -wanted)
    return
  end
  local format, prefix, number, entries = string.format, ARGV[13], ARGV[14] - 1, {}
  for i = 1, wanted do
    entries[2 * i - 1], entries[2 * i] = before + i, format('%s%012x', prefix, number + i)
  end
  local done = redis.pcall('ZADD', KEYS[2], unpack(entries))
  if type(done) == 'number' then
    for i = 1, 2 * wanted, 2 do entries[i] = score end
    done = redis.pcall('ZADD', KEYS[1], unpack(entries))
    if type(done) == 'number' then return entries end
  end
  leave(entries)
end

local function usual()
  local releases, tries, timeout = tonumber(ARGV[15]), tonumber(ARGV[17]), tonumber(ARGV[7])
  local served = 0
  for i = 19 + releases, #ARGV, 2 do served = served + ARGV[i] end
  if served ~= tonumber(ARGV[12]) then return end

  local wanted, timed, owned = served + tries, 0, 0
  local there = redis.pcall('EXISTS', KEYS[1], KEYS[2], KEYS[5])
  if there == 2 then
    timed, owned = redis.pcall('ZCARD', KEYS[1]), redis.pcall('ZCARD', KEYS[2])
    -- Where neither is empty the line is.
    if timed ~= owned or timed == 0 then return end
  elseif there ~= 0 then
    return
  end
  if wanted > ARGV[6] - owned then return end
  local now, score = clock(timeout, owned > 0)
  if not now then return end

  local entries
  if wanted > 0 then
    if owned == 0 then
      -- Untouched for longer than a holder lasts: the counter restarts.
      local idle = redis.pcall('OBJECT', IDLETIME, KEYS[3])
      if type(idle) == 'number' and idle * 1e3 > timeout then return end
    end
    entries = enter(wanted, owned, score)
    if not entries then return end
  end

  local bits = '-'
  if releases > 0 then
    local last, held = 17 + releases, nil
    local known = redis.call('ZREM', KEYS[2], unpack(ARGV, 18, last))
    if known < releases and releases > 1 then held = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 18, last)) end
    local removed = redis.call('ZREM', KEYS[1], unpack(ARGV, 18, last))
    if removed == releases then
      bits = string.rep('1', releases)
    else
      -- Where all were owners but not all had a time, another program was dropping some: "0" for each.
      bits = ''
      for i = 1, releases do bits = bits .. (held and held[i] and '1' or '0') end
    end
  end

  local answer = 'done ' .. now .. ' -1 0 0 ' .. served .. ' ' .. tries .. ' 0 ' .. bits .. ' - - -'
  local recorded = redis.pcall('SET', RECORD, ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
  if recorded.err and entries then
    -- Nobody holds what could be granted twice.
    leave(entries)
    return recorded
  end
  return answer
end

if #KEYS == 6 and ARGV[4] == '0' and ARGV[5] == 'batch' and ARGV[16] == '0' then
  local answer = usual()
  if answer then return answer end
end
