-- Purpose: where a set semaphore keeps its holders: a set of ids; who stands in it holds, for ever
-- Counterpart: extension: the part before batch.lua
-- KEYS[1] holders: set of ids
-- Returns: nothing by itself; it defines `store` for batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, batch.lua keeps a record
-- Invariant: no more ids are entered than batch.lua has found room for

local store = {}

function store.open() end

function store.held()
  return redis.call('SCARD', KEYS[1])
end

function store.take(_, ids)
  redis.call('SADD', KEYS[1], unpack(ids))
end

local function holding(ids)
  local held = redis.call('SMISMEMBER', KEYS[1], unpack(ids))
  for i = 1, #ids do held[i] = held[i] == 1 end
  return held
end

-- Removes `ids`; which of them held.
function store.drop(_, ids)
  local held = holding(ids)
  redis.call('SREM', KEYS[1], unpack(ids))
  return held
end

-- Which of `ids` hold.
function store.refresh(_, ids)
  return holding(ids)
end

function store.first_end()
  return -1
end

function store.list()
  local list = {}
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    list[#list + 1] = id
    list[#list + 1] = '-1'
    list[#list + 1] = '0'
  end
  return list
end

function store.clear()
  local held = redis.call('SCARD', KEYS[1])
  redis.call('DEL', KEYS[1])
  return held
end

function store.settle() end
