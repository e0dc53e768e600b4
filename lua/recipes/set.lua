-- Purpose: the holders of a set semaphore: a set of ids, which hold for ever
-- Counterpart: extension; the part behind queue/entries.lua
-- KEYS[2] holders: set of ids
-- Returns: nothing by itself. It defines `store`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: as many are counted as stand in the set

local HOLDERS, count = KEYS[2], 0
store.endless = true

function store.open() count = redis.call('SCARD', HOLDERS) end

function store.fits(limit) return limit > count end

function store.put(id)
  count = count + change('SADD', HOLDERS, id)
  return 0
end

function store.renew(id) return redis.call('SISMEMBER', HOLDERS, id) == 1 and 0 end

function store.drop(id)
  if not store.renew(id) then return false end
  count = count - change('SREM', HOLDERS, id)
  return true
end

function store.first_end() return -1 end

function store.list(from)
  local page = redis.call('SSCAN', HOLDERS, from, 'COUNT', PAGE)
  local list = { page[1] }
  for i, id in ipairs(page[2]) do list[i + 1] = { id, -1, 0 } end
  return list
end

function store.clear()
  local held = count
  change('DEL', HOLDERS)
  count = 0
  return held
end

function store.settle() end
