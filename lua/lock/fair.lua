-- Purpose: carries out the calls of one client on one fair lock, in order
-- Counterpart: RFairLock.lock, tryLock, unlock, forceUnlock; the last part of the script, behind lock/hold.lua
-- KEYS[4] queue: list, the fields of the waiters, in the order of their arrival
-- KEYS[5] ends: zset, field -> when the waiter's time at the head is over, in ms since 1970: by the clock of the server, or of a JVM
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[6] watchdog time-out in milliseconds: the lease of a hold that is renewed
-- ARGV[11..] steps
--   take: the owner's number, lease in ms, a waiter's share of the queue's time in ms (negative: it does not queue); four words
--   release: the owner's number, -
--   leave: the number of an owner that waits no more, its share of the queue's time
--   force: takes the lock from its owner
-- Returns: "done <free> -1 -1 -1 0 0 <results> |". Of a take "1:0:<how often the owner holds it>", or in how many ms something ends, -1 for
--   never; of a release how many holds are left, -1 if there was none; of the others 1 or 0. Or "refused <error>". In an array where
--   nothing has changed that replicas could confirm
-- Publishes: "0" to the channel, ":" and the field of the queue's head: when the lock has become free; when the head has left without it; and
--   when it is held under a lease of its own from now on, whose end the head is to look after
-- Repeat-safe: yes, by record.lua
-- Invariant: no waiter gets the lock before an earlier one whose time is not over. The queue and its ends have the same fields

local WAITS, ENDS, WATCHDOG = KEYS[4], KEYS[5], ARGV[6] + 0
-- A free lock waits for the queue's head for so many milliseconds: a waiter that has missed its message tries twice in that time.
local TURN = 10000

-- Whether the queue's head has left without the lock; whether it is held under a lease of its own from now on.
local moved, leased = false, false

local function millis() return math.floor(now() / 1000) end

-- Drops the first waiters whose time is over, but `speaker`, which is there. Returns the head of the queue.
local function head(speaker)
  while true do
    local field = redis.call('LINDEX', WAITS, 0)
    if not field or field == speaker then return field end
    local ends = tonumber(redis.call('ZSCORE', ENDS, field) or 0)
    if ends > millis() then
      local turn = millis() + TURN
      if total == 1 and ends > turn then change_order('ZADD', ENDS, score(turn), field) end
      return field
    end
    change_order('LPOP', WAITS)
    change_order('ZREM', ENDS, field)
    moved = true
  end
end

-- Takes waiters out of the queue, each with its share in `shares`. The time of those behind it ends sooner by that, but not before a share
-- from now on. By field, whether it was there.
local function leave_queue(shares)
  local all, scores, sooner, share = redis.call('ZRANGE', ENDS, 0, -1, 'WITHSCORES'), {}, 0, 0
  local new, left = {}, {}
  for i = 1, #all, 2 do scores[all[i]] = tonumber(all[i + 1]) end
  for i, field in ipairs(redis.call('LRANGE', WAITS, 0, -1)) do
    local late = scores[field] or 0
    if shares[field] and not left[field] then
      left[field], share = 1, math.max(share, shares[field])
      sooner, moved = sooner + shares[field], moved or i == 1
      change_order('LREM', WAITS, 1, field)
    elseif sooner > 0 then
      local ends = math.max(late - sooner, millis() + share)
      if ends < late then new[#new + 1], new[#new + 2] = score(ends), field end
    end
  end
  for i = 1, #all, 2 do
    if shares[all[i]] then
      change_order('ZREM', ENDS, all[i])
      left[all[i]] = 1
    end
  end
  for i = 1, #new, 2000 do
    change_order('ZADD', ENDS, unpack(new, i, math.min(i + 1999, #new)))
  end
  return left
end

-- Puts a waiter at the end of the queue, where it is not there yet. It has its share behind the waiter before it, and from each attempt on.
local function join_queue(field, share)
  local place, ends = redis.call('LPOS', WAITS, field), redis.call('ZSCORE', ENDS, field)
  local before = place ~= 0 and redis.call('LINDEX', WAITS, place and place - 1 or -1)
  before = before and redis.call('ZSCORE', ENDS, before)
  local from = math.max(tonumber(before or 0), millis())
  local new = math.max(place and tonumber(ends or 0) or 0, from + share)
  if ends and new == tonumber(ends) then return end
  change_order('ZADD', ENDS, score(new), field)
  if not place then change_order('RPUSH', WAITS, field) end
end

-- The owner takes the lock where it holds it, or where the lock is free and no other waiter is first; else it queues.
local function take_or_queue(number, lease, share)
  local field = entry_of(number)
  local front = head(field)
  local first = not front or front == field
  if holds(number) or total == 1 and first then
    local gone = moved
    if front then leave_queue({ [field] = math.abs(share) }) end
    moved, leased = gone, lease + 0 ~= WATCHDOG
    take(entry_for('g', 0, number, '0:' .. lease), nil, nil, true)
    return taken(1)
  end
  if share > 0 then join_queue(field, share) end
  local left = total == 0 and redis.call('PTTL', LOCK) or -1
  local ends = not first and redis.call('ZSCORE', ENDS, front) - millis() or -1
  return score(left >= 0 and ends >= 0 and math.min(left, ends) or math.max(left, ends))
end

-- Carries the step at `i` out: its result, and where the next one is.
local function step(i)
  local kind, first, second = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if kind ~= 'take' then needs_no_memory() end
  if kind == 'take' then return take_or_queue(first, second, ARGV[i + 3] + 0), i + 4 end
  if kind == 'release' then return release(first), i + 3 end
  if kind == 'force' then return force(), i + 3 end
  -- A step of the queue: there is none here.
  if kind ~= 'leave' then return 1, i + 3 end
  local fields, shares = {}, {}
  while ARGV[i] == 'leave' do
    fields[#fields + 1] = entry_of(ARGV[i + 1])
    shares[fields[#fields]], i = ARGV[i + 2] + 0, i + 3
  end
  local left = leave_queue(shares)
  for place, field in ipairs(fields) do fields[place] = left[field] or 0 end
  return table.concat(fields, ' '), i
end

local function work()
  local refusal = open_lock()
  if refusal then return refusal end
  -- Keys of another type are an error before anything has changed.
  redis.call('LINDEX', WAITS, 0)
  redis.call('ZRANGE', ENDS, 0, 0)
  local results, i = {}, 11
  while ARGV[i] do results[#results + 1], i = step(i) end
  if moved or total == 1 and before == 0 or total == 0 and leased then
    local front = head()
    if front then
      messages[1] = { ARGV[1], CHANNEL .. ':' .. front, '0' }
    elseif total == 1 then
      -- Without a queue nothing is left of it.
      redis.call('DEL', ENDS)
    end
  end
  return 'done ' .. total .. ' -1 -1 -1 0 0 ' .. table.concat(results, ' ') .. ' |'
end

return once(work, notify)
