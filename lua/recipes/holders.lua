-- Purpose: makes holders of the clients' entries, and lets them go, in any layout. A holder that ends soon is the grant. The amount of an
--   entry is its client's limit, and behind the life of its grant stands how many milliseconds the permit lasts
-- Counterpart: extension; the part behind queue/grants.lua
-- Returns: nothing by itself. It defines `free`, `fits`, `take`, `confirm`, `leave`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: no more ids hold than an entry's limit says; none is granted while a peer holds the lock

-- The highest limit of the waiters, as far as it is noted; how long the peers' lock lasts, `false` where it is free.
local most, locked = 0, nil
-- The id that this script took last, and its slot.
local last_id, last_slot

-- Milliseconds that the peers' lock lasts.
local function lock_left()
  if locked == nil then locked = LOCK and redis.call('GET', LOCK) and expiring(LOCK) end
  return locked
end

local function fits(limit) return not lock_left() and store.fits(limit) end
local function free() return fits(math.max(LIMIT, most)) end

-- Makes a holder for `entry`: for as long as its client wants where that learns of it by the answer, else for `life` milliseconds and one
-- that Redis may round off. The answer or the message adds the slot, if there is one.
local function take(entry, _, life, by_answer)
  local lasts = tonumber(string.match(entry, ':(%d+)$'))
  if not lasts then return end
  local slot, why = store.put(id_in(entry), by_answer and lasts or math.min(life + 1, lasts))
  if not slot and by_answer then error({ err = why }) end
  if not slot then return nil end
  if not by_answer then
    grant(entry, now() + life * 1000)
    -- Where holders do not end, the grant alone says that nobody has this one.
    if not store.endless then redis.call('PEXPIRE', GRANTS, KEPT) end
    first_end = first_end or 0
  end
  last_id, last_slot = id_in(entry), slot
  return by_answer and string.format(':%.0f=%.0f', lasts, slot) or ' ' .. slot
end

-- Whether `entry` is granted still; it holds for its time then. If not it waits, since its `arrival`.
local function confirm(entry, arrival)
  if redis.call('ZSCORE', GRANTS, entry) then end_grant(entry) end
  local slot = store.renew(id_in(entry), tonumber(string.match(entry, ':(%d+)$')))
  if not slot then
    enter(entry, arrival)
    return 0
  end
  if waiting > 0 then drop(entry) end
  return '1:' .. slot .. ':1'
end

-- `entry` is not wanted any more. Its grant comes back.
local function leave(entry)
  if redis.call('ZSCORE', GRANTS, entry) then end_grant(entry) end
  if store.drop(id_in(entry)) then return 1 end
  if waiting > 0 then drop(entry) end
  return 0
end
