-- Purpose: permits with ids, as the queue uses them. Those that are held stand in a zset; a grant is a permit that ends soon
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease; the part behind semaphore/permits.lua, whose counter it moves, and
--   queue/entries.lua. Behind the life of an entry stand its lease in milliseconds, "0" for none, and a secret of its client: the
--   ids of its permits come of that and of its ticket
-- KEYS[5] permits: zset, id of 16 bytes -> when it ends, in milliseconds since 1970; 922337203685477: never
-- ARGV[7] this client's secret
-- Returns: nothing by itself. It defines `free`, `fits`, `take`, `enter_permits`, `confirm`, `leave`, `extend`, `reclaim`, and for the steps
--   `millis`, `end_in`, `ids_of`, `look_up`, `remove`, `set_ends`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: a permit is counted in the counter, or its id stands in the zset

local PERMITS, SECRET = KEYS[5], ARGV[7]
local ENDLESS, MOST = 922337203685477, 1024

-- So many were taken by this script; more than 2048 are left to the next one. More have ended than one script takes out.
local taken, full, more_ended = 0, false, false
-- Permits that are entered together: ends and ids.
local entered = {}

local function millis() return math.floor(now() / 1000) end
local function end_in(lease) return lease == '0' and ENDLESS or math.min(ENDLESS, millis() + lease) end

local function free() return exists and total - reserved >= 1 and not full end
local function fits(permits)
  full = full or taken + permits > 2 * MOST
  return not full and exists and total - reserved >= permits
end

local function ids_of(secret, ticket, amount)
  local hash, ids = redis.sha1hex(secret .. ':' .. ticket), {}
  local first, second = tonumber(string.sub(hash, 1, 12), 16), tonumber(string.sub(hash, 13, 24), 16)
  local third = tonumber(string.sub(hash, 25, 28), 16)
  for place = 1, amount do ids[place] = struct.pack('>I6I6I2I2', first, second, third, place) end
  return ids
end

-- The ids and the lease of an entry.
local function read_entry(entry)
  local ticket, amount, lease, secret = string.match(entry, '^[^:]+:%l(%d+):(%d+):%d+:(%d+):(%x+)$')
  if ticket and amount + 0 <= MOST then return ids_of(secret, ticket, amount + 0), lease end
end

-- Takes permits for `entry`: for its lease where its caller learns of it by the answer, else for `life` milliseconds, rounded up.
-- Returns the text that the answer adds: the lease. Nothing for an entry that is not of this crate.
local function take(entry, amount, life, by_answer)
  local ids, lease = read_entry(entry)
  if not ids then return end
  local ends = by_answer and end_in(lease) or millis() + life + 1
  if not by_answer then lend(client_of(entry), life) end
  for i = 1, amount do
    entered[#entered + 1] = score(ends)
    entered[#entered + 1] = ids[i]
  end
  spend(amount)
  taken = taken + amount
  return by_answer and ':' .. lease or ''
end

-- Permits expire with the semaphore.
local function enter_permits()
  for i = 1, #entered, 2 * MOST do change('ZADD', PERMITS, unpack(entered, i, math.min(#entered, i + 2 * MOST - 1))) end
  local ttl = entered[1] and text and redis.call('PTTL', SEMAPHORE) or 0
  if ttl > 0 then redis.call('PEXPIRE', PERMITS, ttl) end
  entered = {}
end

-- Those of `ids` that stand there, as a list of ids and ends; how many of them are held.
local function look_up(ids)
  local list, held, seen = {}, 0, {}
  for i, ends in ipairs(redis.call('ZMSCORE', PERMITS, unpack(ids))) do
    if ends and not seen[ids[i]] then
      list[#list + 1], list[#list + 2], seen[ids[i]] = ids[i], ends, ends + 0
      if ends + 0 > millis() then held = held + 1 end
    end
  end
  return list, held, seen
end

-- Frees the permits of such a list.
local function remove(list)
  local ids = {}
  for i = 1, #list, 2 do ids[#ids + 1] = list[i] end
  if not ids[1] then return 0 end
  change('ZREM', PERMITS, unpack(ids))
  total, exists = total + #ids, true
  return #ids
end

-- The permits of such a list end then; `later`: those that would end sooner.
local function set_ends(list, ends, later)
  local new = {}
  for i = 1, #list, 2 do
    if not later or list[i + 1] + 0 < ends then new[#new + 1], new[#new + 2] = score(ends), list[i] end
  end
  if new[1] then change('ZADD', PERMITS, 'XX', unpack(new)) end
end

-- Whether the permits of `entry` are held; they last for their lease then. If not it waits, since its `arrival`.
local function confirm(entry, arrival)
  local ids, lease = read_entry(entry)
  local list, held = look_up(ids)
  if held == #ids then
    set_ends(list, end_in(lease))
    return 1
  end
  remove(list)
  enter(entry, arrival)
  return 0
end

-- `entry` is not wanted any more. Its grant is released.
local function leave(entry)
  if waiting > 0 then drop(entry) end
  return remove(look_up((read_entry(entry))))
end

-- The permits of `entry` last for their lease from now on, or longer; 0 where they are not held any more.
local function extend(entry)
  local ids, lease = read_entry(entry)
  local list, held = look_up(ids)
  if held < #ids then return 0 end
  set_ends(list, end_in(lease), true)
  return 1
end

-- Frees what has ended.
local function reclaim()
  more_ended = remove(redis.call('ZRANGEBYSCORE', PERMITS, '-inf', score(millis()), 'WITHSCORES', 'LIMIT', 0, MOST)) == MOST
end
