-- Purpose: where a timestamp semaphore keeps its holders: one zset by time; who stands in it holds
-- Counterpart: extension: the part behind times.lua and before look.lua and batch.lua
-- KEYS[1..] keys: those of steps.lua, and as the fourth the times: zset, id -> time
-- Returns: nothing by itself; it defines `store` for look.lua and batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, by steps.lua
-- Invariant: no more ids are entered than batch.lua has found room for

local store = {}

-- Looks for flaws, and removes what has expired: a refusal or nil, whether there is more to remove, and whether any
-- was.
function store.open(setting)
  local refusal, expired, more = times.expired(setting)
  if refusal then return refusal end
  if #expired > 0 then redis.call('ZREM', KEYS[4], unpack(expired)) end
  return nil, more, #expired > 0
end

-- How many permits are left under a limit.
function store.room(_, limit)
  return limit - redis.call('ZCARD', KEYS[4])
end

-- Makes holders of `ids`.
function store.take(setting, ids)
  times.enter(setting, ids)
end

-- Nobody has this id: whether anything may be removed, which is the server's error where it may not.
function store.may_drop() redis.call('ZREM', KEYS[4], '\0') end

-- Removes all traces of `ids`; which of them held.
function store.drop(_, ids)
  local held = #ids > 1 and redis.call('ZMSCORE', KEYS[4], unpack(ids))
  local removed = redis.call('ZREM', KEYS[4], unpack(ids))
  return held or { removed == 1 }
end

-- Which of `ids` hold; those do from now on.
function store.refresh(setting, ids)
  local held, kept = redis.call('ZMSCORE', KEYS[4], unpack(ids)), {}
  for i = 1, #ids do
    if held[i] then kept[#kept + 1] = ids[i] end
  end
  if #kept > 0 then times.enter(setting, kept) end
  return held
end

function store.first_end(setting)
  return times.first_end(setting)
end

-- A page of the holders: where it ends, and what is known of them.
function store.list(setting, from)
  return times.page(setting, KEYS[4], math.huge, from)
end

function store.clear()
  local held = redis.call('ZCARD', KEYS[4])
  redis.call('DEL', KEYS[4])
  return held
end

function store.settle() end
