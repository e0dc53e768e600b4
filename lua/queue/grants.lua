-- Purpose: grants as entries of a zset, for what has no time to live of its own
-- Counterpart: extension; the part behind queue/entries.lua. The primitive's part before it defines `spend` and `put_back`
-- KEYS[5] grants: zset, entry -> until when it is granted, in microseconds of the server's clock. The kind of an entry is "g" for what is
--   held under a lease
-- ARGV[6] lease of what is held from now on, in milliseconds
-- ARGV[7] what this client adds to the entries of what it holds under a lease
-- Returns: nothing by itself. It defines `open_grants`, `take`, `hold`, `confirm`, `leave`, `extend`, `reclaim`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: taken permits stand in the grants, or their caller learns of them by the answer

local GRANTS, LEASE, LEASED = KEYS[5], ARGV[6] * 1000, 'g'
-- A grant that the counter cannot take back is tried again after so many microseconds.
local AGAIN_AFTER, MOST_RECLAIMED = 60000000, 1024
-- When the first grant ends.
local first_end

local function open_grants() first_end = heal('ZRANGE', GRANTS, 0, 0, 'WITHSCORES')[2] end

local function held_for(kind, ticket, amount, life)
  return entry_for(kind, ticket, amount, life) .. (kind == LEASED and ARGV[7] or '')
end
local function grant(entry, ends) change('ZADD', GRANTS, score(ends), entry) end
local function end_grant(entry) change('ZREM', GRANTS, entry) end

-- The holder of `entry` has it from now on: under a lease, or for good.
local function hold(entry, granted)
  if parse(entry) ~= LEASED then
    if granted then end_grant(entry) end
  elseif granted then
    change('ZADD', GRANTS, 'XX', score(now() + LEASE), entry)
  else
    grant(entry, now() + LEASE)
  end
end

-- Takes `amount` for `entry`, whose caller learns of it by the answer, or has to confirm it within `life` milliseconds. The answer
-- or the message adds nothing.
local function take(entry, amount, life, by_answer)
  spend(amount, entry)
  if by_answer then hold(entry) else grant(entry, now() + life * 1000) end
  return ''
end

-- Whether `entry` is granted still; its holder has it then. If not it waits, since its `arrival`.
local function confirm(entry, arrival)
  if not redis.call('ZSCORE', GRANTS, entry) then
    enter(entry, arrival)
    return 0
  end
  hold(entry, true)
  return 1
end

-- So much of `entry` is not wanted or held any more, and is free where it was granted; unless it `stays` taken. The rest of what is held under
-- a lease is renewed by that.
local function leave(entry, part, stays)
  local ends = redis.call('ZSCORE', GRANTS, entry)
  if not ends then
    if waiting > 0 then drop(entry) end
    return 0
  end
  local refused = not stays and put_back(part, entry)
  if refused then return refused end
  local kind, ticket, amount, life = parse(entry)
  end_grant(entry)
  if part < amount then
    grant(held_for(kind, ticket, amount - part, life), kind == LEASED and now() + LEASE or ends)
  end
  return 1
end

-- Puts the end of what is held off; 0 where it is not held any more.
local function extend(entry)
  local granted = redis.call('ZSCORE', GRANTS, entry)
  if granted then hold(entry, true) end
  return granted and 1 or 0
end

-- Frees what was granted until a time that has passed. A client that has let that happen queues again when it speaks.
local function reclaim()
  if not first_end or first_end + 0 > now() then return end
  local gone, reclaimed = {}, {}
  local over = redis.call('ZRANGEBYSCORE', GRANTS, '-inf', score(now()), 'WITHSCORES', 'LIMIT', 0, MOST_RECLAIMED)
  for i = 1, #over, 2 do
    local entry = over[i]
    local kind, _, amount = parse(entry)
    if kind and put_back(amount, entry) then
      change('ZADD', GRANTS, 'XX', score(now() + AGAIN_AFTER), entry)
    else
      end_grant(entry)
      if kind and not string.find(entry, '[%s,|]') then reclaimed[#reclaimed + 1] = entry end
      gone[client_of(entry)] = client_of(entry) ~= CLIENT
    end
  end
  drop_all(gone)
  return reclaimed
end
