-- Purpose: gives the permits of dead clients back, and keeps this client's own on record, for many semaphores at once
-- Counterpart: extension; to Redisson's waiters it is a release. The part behind engine/change.lua and announce.lua
-- KEYS[1..] semaphores: four for each, the semaphore and its channel, and the two of holders.lua: held and alive
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] for how many milliseconds this client is believed alive from now on
-- ARGV[3..] two for each semaphore: under which holder this client's permits are on record, "" for none; "1" if the
--   record may go where there are none
-- Returns: for each semaphore a table: how many permits this client has on record, -1 where it is not; in how many
--   milliseconds the next one's time is up, -1 where nobody is on record; how many permits are free behind a reclaim,
--   -1 without one; why something could not be done, "" where all was; then two for each client that was dead: the
--   holder, and what stood under it in held. A replica answers with an error
-- Publishes: as batch.lua does for a release
-- Repeat-safe: yes, a record is turned into permits once
-- Invariant: the sum of counter and records stays as it is, but where there is no semaphore any more; a counter
--   keeps its time to live, and stays within 32 bits

local HIGHEST, MOST_AT_ONCE = 2147483647, 64
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Turns what is on record of the dead into permits. Says why that could not be done.
local function reclaim(semaphore, channel, held, alive, answer)
  local dead = redis.pcall('ZRANGEBYSCORE', alive, '-inf', string.format('(%.0f', now), 'LIMIT', 0, MOST_AT_ONCE)
  if dead.err then return dead.err end
  if #dead == 0 then return '' end
  local texts = redis.pcall('HMGET', held, unpack(dead))
  if texts.err then return texts.err end
  local permits = 0
  for i = 1, #dead do
    permits = permits + (tonumber(string.match(texts[i] or '', '^(%d+) ')) or 0)
  end
  local total
  if permits > 0 then
    local text = redis.pcall('GET', semaphore)
    if type(text) == 'table' then return text.err end
    local before = tonumber(text or 0)
    if not before or before + permits > HIGHEST then return 'the counter cannot take them: ' .. string.sub(text or 'none', 1, 64) end
    -- What does not exist is not made by the dead.
    if text then
      total = change('INCRBY', semaphore, permits)
      if type(total) == 'table' then return total.err end
    end
  end
  local removed = change('HDEL', held, unpack(dead))
  if type(removed) == 'table' then
    if total then redis.pcall('INCRBY', semaphore, -permits) end
    return removed.err
  end
  redis.pcall('ZREM', alive, unpack(dead))
  for i = 1, #dead do
    answer[#answer + 1], answer[#answer + 2] = dead[i], texts[i] or ''
  end
  if total then
    answer[3] = total
    if total > 0 then announce(channel, total, permits, '') end
  end
  return ''
end

-- Whose end somebody has taken away, by an eviction or by hand, is believed alive for as long again.
local function give_ends(held, alive)
  local count, known = redis.pcall('HLEN', held), redis.pcall('ZCARD', alive)
  if type(count) ~= 'number' or type(known) ~= 'number' or count <= known then return end
  local all = redis.pcall('HGETALL', held)
  for i = 1, #all, 2 do change('ZADD', alive, 'NX', string.format('%.0f', now + ARGV[2]), all[i]) end
end

-- Puts the end of `id` off; how many permits it has on record.
local function renew(held, alive, id, may_go)
  local text = redis.pcall('HGET', held, id)
  -- Where the record holds another type by now, nothing is on it. Any other refusal says nothing of it.
  if type(text) == 'table' and not string.find(text.err, '^WRONGTYPE ') then return text end
  local permits = type(text) == 'string' and tonumber(string.match(text, '^(%d+) '))
  if not permits then return -1 end
  if permits == 0 and may_go then
    change('HDEL', held, id)
    redis.pcall('ZREM', alive, id)
    return -1
  end
  local put = change('ZADD', alive, string.format('%.0f', now + ARGV[2]), id)
  return type(put) == 'table' and put or permits
end

local function look(i)
  local own, may_go = ARGV[2 * i + 1], ARGV[2 * i + 2] == '1'
  local semaphore, channel, held, alive = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  local answer = { -1, -1, -1, '' }
  answer[4] = reclaim(semaphore, channel, held, alive, answer)
  if own ~= '' then
    local permits = renew(held, alive, own, may_go)
    if type(permits) == 'table' then answer[4] = permits.err else answer[1] = permits end
  end
  give_ends(held, alive)
  local next = redis.pcall('ZRANGE', alive, 0, 0, 'WITHSCORES')
  if next[2] then answer[2] = math.max(0, next[2] - now) end
  return answer
end

local answers = {}
for i = 1, #KEYS / 4 do
  answers[i] = look(i)
end
return answers
