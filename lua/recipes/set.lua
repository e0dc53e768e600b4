-- Purpose: where a set semaphore keeps its holders: a set of ids; who stands in it holds, for ever
-- Counterpart: extension: the part before look.lua and batch.lua
-- KEYS[1..] keys: those of steps.lua, and as the fourth the holders: set of ids
-- Returns: nothing by itself; it defines `store` for look.lua and batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, by steps.lua
-- Invariant: no more ids are entered than batch.lua has found room for

-- So many holders are told of together, as far as the server keeps to it.
local PAGE = 256
local store = {}

-- Nobody expires.
function store.open() end

-- How many permits are left under a limit.
function store.room(_, limit)
  return limit - redis.call('SCARD', KEYS[4])
end

function store.take(_, ids)
  redis.call('SADD', KEYS[4], unpack(ids))
end

local function holding(ids)
  local held = redis.call('SMISMEMBER', KEYS[4], unpack(ids))
  for i = 1, #ids do held[i] = held[i] == 1 end
  return held
end

-- Nobody has this id: whether anything may be removed, which is the server's error where it may not.
function store.may_drop() redis.call('SREM', KEYS[4], '\0') end

-- Removes `ids`; which of them held.
function store.drop(_, ids)
  local held = holding(ids)
  redis.call('SREM', KEYS[4], unpack(ids))
  return held
end

-- Which of `ids` hold.
function store.refresh(_, ids)
  return holding(ids)
end

function store.first_end()
  return -1
end

-- A page of the holders: where it ends, and what is known of them.
function store.list(_, from)
  local page = redis.call('SSCAN', KEYS[4], from == '' and '0' or from, 'COUNT', PAGE)
  local list = { page[1] == '0' and '' or page[1] }
  for _, id in ipairs(page[2]) do
    local size = #list
    list[size + 1], list[size + 2], list[size + 3] = id, '-1', '0'
  end
  return list
end

function store.clear()
  local held = redis.call('SCARD', KEYS[4])
  redis.call('DEL', KEYS[4])
  return held
end

function store.settle() end
