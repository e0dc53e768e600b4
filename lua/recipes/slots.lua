-- Purpose: the holders of slot strings: a string for each permit, with an id and a time to live. A string lock is the one with a
--   single slot
-- Counterpart: extension; the part behind queue/entries.lua
-- KEYS[2] slot: string, the id of the holder; the first one
-- KEYS[7..] others: string, the other slots, as many as the limit says
-- Returns: nothing by itself. It defines `store`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: a slot is taken only where there is no key, and freed only by its holder

-- Of so many slots it is found out when they expire.
local ENDS = 128
local ids, slot_of = {}, {}

local function key_of(slot) return slot == 1 and KEYS[2] or KEYS[5 + slot] end

function store.open()
  ids = redis.call('MGET', KEYS[2], unpack(KEYS, 7, 5 + LIMIT))
  for slot = 1, LIMIT do
    if ids[slot] then slot_of[ids[slot]] = slot end
  end
end

local function first_free()
  for slot = 1, LIMIT do
    if not ids[slot] then return slot end
  end
end

function store.fits(limit)
  local slot = first_free()
  if not slot and string.find(FLAGS, 'r', 1, true) then expiring(KEYS[2]) end
  return slot and slot <= limit
end

-- Gives `id` the lowest slot that is free, for so many milliseconds; or returns nil, and why not.
function store.put(id, lasts)
  local slot = first_free()
  local key = key_of(slot)
  -- To MGET, a key of another type is none.
  local other = redis.pcall('GET', key)
  if type(other) == 'table' then return nil, other.err end
  change('SET', key, id, 'PX', lasts)
  ids[slot], slot_of[id] = id, slot
  return slot
end

function store.drop(id)
  local slot = slot_of[id]
  if not slot then return false end
  change('DEL', key_of(slot))
  ids[slot], slot_of[id] = false, nil
  return true
end

-- The slot of `id`, which lasts for so many milliseconds from now on. No time is cut short, but that of a grant is no more than that.
function store.renew(id, lasts)
  local slot = slot_of[id]
  if not slot then return end
  local left = redis.call('PTTL', key_of(slot))
  if left >= 0 and left < lasts then change('PEXPIRE', key_of(slot), lasts) end
  return slot
end

function store.first_end()
  local first = -1
  for slot = 1, math.min(ENDS, LIMIT) do
    local left = ids[slot] and redis.call('PTTL', key_of(slot)) or -1
    if left >= 0 and (first < 0 or left < first) then first = left end
  end
  return first
end

-- To MGET, a key of another type is none: where no slot is held it is the server's error.
local function check_free(from, to)
  for slot = from, to do
    if not ids[slot] then redis.call('GET', key_of(slot)) end
  end
end

function store.list(from)
  local to = math.min(from + PAGE, LIMIT)
  check_free(from + 1, to)
  local list = { to < LIMIT and tostring(to) or '0' }
  for slot = from + 1, to do
    if ids[slot] then list[#list + 1] = { ids[slot], redis.call('PTTL', key_of(slot)), slot } end
  end
  return list
end

function store.clear()
  check_free(1, LIMIT)
  local held = 0
  for slot = 1, LIMIT do held = held + (ids[slot] and 1 or 0) end
  change('DEL', KEYS[2], unpack(KEYS, 7, 5 + LIMIT))
  ids, slot_of = {}, {}
  return held
end

function store.settle() end
