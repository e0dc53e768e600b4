-- Purpose: puts off the end of what one client holds, as long as it holds it
-- Counterpart: extension (the watchdog of RLock and RReadWriteLock)
-- KEYS[1..] objects: of locks hash, owner -> how often; of slots string, the id of its holder; else zset, holder -> its time. Behind the
--   objects stand the holds of readers, so that Redis refuses the script while their slot is on its way
-- ARGV[1] lease in milliseconds
-- ARGV[2] the kind: grants, permits, times (of recipes), locks, read-write or slots
-- ARGV[3..] for each object how many hold it, 1000 at the most, and their ids
-- Returns: 1 for each that holds it, for so long at least, 0 for each that does not any more; an error where the server does not let it
--   be seen, and some may have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: what others hold, and what is free, stays as it is

local lease, kind, time = tonumber(ARGV[1]), ARGV[2], redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The new time of a member of a zset; nothing for one whose time is over. That of a recipe is in the unit of the one before: seconds with
-- fractions, or milliseconds. Milliseconds of these days are more.
local later = {
  grants = function() return string.format('%.0f', time[1] * 1000000 + time[2] + lease * 1000) end,
  permits = function(score) return score > now and string.format('%.0f', now + lease) end,
  times = function(score)
    local seconds = score < 1e11
    if (seconds and score * 1e3 or score) + lease <= now then return nil end
    return seconds and string.format('%.6f', time[1] + time[2] / 1e6) or string.format('%.0f', now)
  end,
}

local function put_off(key, left)
  if left < lease then redis.call('PEXPIRE', key, lease) end
end

-- Whether `id` holds a lock or a slot, from what is found there. The first command needs no memory, so a server without memory takes the next.
local holds = {
  locks = function(lock)
    put_off(lock, redis.call('PTTL', lock))
    return true
  end,
  slots = function(slot, id, found)
    local left = found == id and redis.call('PTTL', slot)
    if left and left >= 0 then put_off(slot, left) end
    return left
  end,
  ['read-write'] = function(lock, owner, found)
    local count = tonumber(found)
    if count then put_off(lock, redis.call('PTTL', lock)) end
    local own = (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. owner .. ':rwlock_timeout:'
    for number = 1, count and not string.find(owner, ':write$') and math.min(count, 1024) or 0 do
      local key = own .. string.format('%.0f', number)
      if redis.call('PTTL', key) < lease then redis.call('SET', key, 1, 'PX', lease) end
    end
    return count
  end,
}

local answer, at, index = {}, 3, 0

-- A key of another type holds nothing of ours. Any other refusal says nothing of it.
local function is_refused(found) return type(found) == 'table' and found.err and not string.find(found.err, '^WRONGTYPE ') end

while ARGV[at] do
  index = index + 1
  local key, changes = KEYS[index], {}
  local ids = { unpack(ARGV, at + 1, at + ARGV[at]) }
  local scores = later[kind] and redis.pcall('ZMSCORE', key, unpack(ids))
  if is_refused(scores) then return scores end
  for i, id in ipairs(ids) do
    local held
    if scores then
      local score = not scores.err and tonumber(scores[i] or nil)
      held = score and later[kind](score)
      if held then changes[#changes + 1], changes[#changes + 2] = held, id end
    else
      local found = redis.pcall(unpack(kind == 'slots' and { 'GET', key } or { 'HGET', key, id }))
      if is_refused(found) then return found end
      held = type(found) == 'string' and holds[kind](key, id, found)
    end
    answer[#answer + 1] = held and 1 or 0
  end
  if #changes > 0 then
    -- This changes nothing and needs no memory, so a server without memory takes the next one.
    redis.call('ZREM', key, '')
    redis.call('ZADD', key, 'XX', 'GT', unpack(changes))
  end
  at = at + 1 + #ids
end
return answer
