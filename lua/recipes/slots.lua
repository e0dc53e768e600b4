-- Purpose: where slot strings keep their holders: a string for each permit, which holds an id and expires;
--   a string lock is the one with a single slot
-- Counterpart: extension: the part before look.lua and batch.lua
-- KEYS[1..] keys: those of steps.lua, and from the fourth on the slots, as many as the limit: strings, the id of the
--   holder
-- Returns: nothing by itself; it defines `store` for look.lua and batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, by steps.lua
-- Invariant: a slot is taken only where there is no key, and freed only by its holder

-- So many holders are told of together, and of so many it is found out when they expire.
local PAGE, ENDS = 256, 128
local store = { ids = {}, slots = {} }

-- Looks who holds what. A slot without an expiry is given one where that is asked for.
function store.open(setting)
  store.ids = redis.call('MGET', unpack(KEYS, 4, 3 + setting.limit))
  for slot = 1, setting.limit do
    local id = store.ids[slot]
    if id then
      store.slots[id] = slot
      if setting.repair and redis.call('PTTL', KEYS[3 + slot]) == -1 then
        redis.call('PEXPIRE', KEYS[3 + slot], setting.timeout)
      end
    end
  end
end

-- How many slots are free under a limit, as far as this client sees them.
function store.room(setting, limit)
  local free = 0
  for slot = 1, math.min(limit, setting.limit) do
    if not store.ids[slot] then free = free + 1 end
  end
  return free
end

-- Gives each of `ids` the lowest slot that is free, for as long as `lasting` says, and returns their numbers; or nil, and
-- why not.
function store.take(_, ids, lasting)
  local given, slot = {}, 0
  for i = 1, #ids do
    repeat slot = slot + 1 until not store.ids[slot]
    local done = redis.call('SET', KEYS[3 + slot], ids[i], 'NX', 'PX', lasting[i])
    if not done then return nil, 'notastring ' .. slot end
    store.ids[slot], store.slots[ids[i]], given[i] = ids[i], slot, slot
  end
  return given
end

-- A slot that is free, and no key of another type, is freed: whether that may be done, which is the server's error where it may not.
function store.may_drop(setting)
  for slot = 1, setting.limit do
    local key = KEYS[3 + slot]
    if not store.ids[slot] and redis.call('PTTL', key) == -2 then return redis.call('DEL', key) end
  end
end

-- Frees the slots of `ids`; which of them held.
function store.drop(_, ids)
  local held = {}
  for i = 1, #ids do
    local slot = store.slots[ids[i]]
    held[i] = slot ~= nil
    if slot then
      redis.call('DEL', KEYS[3 + slot])
      store.ids[slot], store.slots[ids[i]] = false, nil
    end
  end
  return held
end

-- Which of `ids` hold; those do from now on, for as long as `lasting` says. No time is cut short.
function store.refresh(_, ids, lasting)
  local held = {}
  for i = 1, #ids do
    local slot = store.slots[ids[i]]
    held[i] = slot ~= nil
    local left = slot and redis.call('PTTL', KEYS[3 + slot]) or -1
    if left >= 0 and left < tonumber(lasting[i]) then redis.call('PEXPIRE', KEYS[3 + slot], lasting[i]) end
  end
  return held
end

-- Milliseconds until the first slot of the page that begins with `from` falls free by itself; -1 where none will.
function store.first_end(setting, from)
  local first = -1
  for slot = from, math.min(from + ENDS - 1, setting.limit) do
    local left = store.ids[slot] and redis.call('PTTL', KEYS[3 + slot]) or -1
    if left >= 0 and (first < 0 or left < first) then first = left end
  end
  return first
end

-- To MGET, a key of another type is none: where nobody holds a slot it is the server's error.
local function check_free(first, last)
  for slot = first, last do
    if not store.ids[slot] then redis.call('GET', KEYS[3 + slot]) end
  end
end

-- A page of the holders, behind the slot `from`: where it ends, and what is known of them.
function store.list(setting, from)
  local start = (tonumber(from) or 0) + 1
  local last = math.min(start + PAGE - 1, setting.limit)
  check_free(start, last)
  local list = { last < setting.limit and tostring(last) or '' }
  for slot = start, last do
    if store.ids[slot] then
      local size = #list
      list[size + 1], list[size + 2] = store.ids[slot], string.format('%.0f', redis.call('PTTL', KEYS[3 + slot]))
      list[size + 3] = tostring(slot)
    end
  end
  return list
end

-- How long a string lock is held, and a mark of who holds it; nothing if nobody does.
function store.holder()
  if not store.ids[1] then return end
  return string.format('%.0f:', math.max(0, redis.call('PTTL', KEYS[4]))) .. string.sub(redis.sha1hex(store.ids[1]), 1, 8)
end

function store.clear(setting)
  check_free(1, setting.limit)
  local held = setting.limit - store.room(setting, setting.limit)
  redis.call('DEL', unpack(KEYS, 4, 3 + setting.limit))
  store.ids, store.slots = {}, {}
  return held
end

function store.settle() end
