-- Purpose: carries out the calls of one client on one semaphore whose permits have ids, in order; then serves the queue
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease, updateLeaseTime, getLeaseTime, availablePermits, acquiredPermits,
--   getPermits, trySetPermits, setPermits, addPermits; the last part of the script
-- ARGV[1..] those of the parts before; from the eleventh on steps of three words: kind, what it is about, a number. Entries are given
--   without the client's id
--   first those about entries: confirm (entry, its arrival), extend (entry, -), leave (entry, -)
--   release: id    together: how many, then their ids: all of them or none    back: ticket, how many
--   take: how many, lease in ms, 0 for none, ticket
--   wait, as queue.lua has it: how many each; their lease behind the life
--   prolong: id, lease    remaining: id    available    acquired    total
--   try_set, set: permits    add: permits, may be negative    clear: takes all away from their holders
--   announce: tells JVMs what is free    check: looks after the client that watches    unwatch: this client does not, any more
-- Returns: as finish.lua has it. Of a step: 1 or 0; how many of count have taken; "o" for the id of one that Redisson 3.16.8 or an earlier one
--   has given; together: how many were released, or "0:" or "o:" and the place of one that is not held, from 0 on; milliseconds left, -1: it
--   does not end, -2: it is not held; the number asked for; "0:<counter>" where the range forbids it.
--   Or "unreadable <text>", "refused <error>". In an array where nothing has changed that replicas could confirm
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: counter and permits change by exactly what the results say

local results, stood = {}, false

-- Redisson 3.16.8 wrote the digits of an id instead of its bytes.
local function is_old(id)
  local function digits(byte) return string.format('%02x', string.byte(byte)) end
  return #id == 16 and redis.call('ZSCORE', PERMITS, (string.gsub(id, '.', digits)))
end

-- Gives back the permits of the release at `i` and of those that follow it: their results, and where the next step is.
local function release(i)
  local ids, words = {}, {}
  while ARGV[i] == 'release' and #ids < MOST do
    ids[#ids + 1], i = ARGV[i + 1], i + 3
  end
  local list, _, ends = look_up(ids)
  for n, id in ipairs(ids) do
    words[n] = ends[id] and ends[id] > millis() and '1' or ends[id] == nil and is_old(id) and 'o' or '0'
    ends[id] = false
  end
  if remove(list) > 0 then stood = true end
  return table.concat(words, ' '), i
end

local function together(i, count)
  local ids = { unpack(ARGV, i + 2, i + 1 + count) }
  local list, _, ends = look_up(ids)
  for n, id in ipairs(ids) do
    if not ends[id] or ends[id] <= millis() then return (is_old(id) and 'o:' or '0:') .. n - 1 end
  end
  stood = true
  return remove(list)
end

-- Of the permit with this id: when it ends, or, with a lease, whether that could be changed.
local function end_of(id, lease)
  local list, held = look_up({ id })
  if held == 0 then return is_old(id) and 'o' or lease and 0 or -2 end
  if lease then
    set_ends(list, end_in(lease))
    return 1
  end
  return list[2] + 0 >= ENDLESS and -1 or score(list[2] - millis())
end

local function add(permits)
  if permits > 0 and total + permits > HIGHEST or permits < 0 and total + permits < LOWEST then return '0:' .. total end
  total, exists, stood = total + permits, true, true
  return 1
end

-- Permits that are held, ended or not, count with those that are free.
local function set(permits)
  if not stood then total, exists = 0, true end
  return add(permits - total - redis.call('ZCARD', PERMITS))
end

local function clear()
  local held = redis.call('ZCARD', PERMITS)
  if held > 0 then
    change('DEL', PERMITS)
    total, exists, stood = total + held, true, true
  end
  return held
end

local function count_ended() return more_ended and redis.call('ZCOUNT', PERMITS, '-inf', score(millis())) or 0 end

-- Carries the step at `i` out: its result, and where the next one is.
local function step(i)
  local kind, what, number = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 1])
  if kind == 'confirm' then return confirm(entry_of(what), ARGV[i + 2] + 0), i + 3 end
  if kind == 'release' then return release(i) end
  if kind == 'together' then return together(i, number), i + 2 + number end
  if kind == 'back' then return remove((look_up(ids_of(SECRET, what, ARGV[i + 2] + 0)))), i + 3 end
  if kind == 'take' then
    local takes = exists and total >= number
    local entry = takes and entry_for('a', ARGV[i + 3], what, '0:' .. ARGV[i + 2]) .. ':' .. SECRET
    if takes then take(entry, number, nil, true) end
    enter_permits()
    return takes and 1 or 0, i + 4
  elseif kind == 'wait' then
    local done = wait(i, number, ':' .. SECRET)
    enter_permits()
    return done, i + 9
  end
  local result = 1
  if kind == 'prolong' then
    result = end_of(what, ARGV[i + 2])
  elseif kind == 'remaining' then
    result = end_of(what)
  elseif kind == 'available' then
    result = total + count_ended()
  elseif kind == 'acquired' then
    result = redis.call('ZCOUNT', PERMITS, '(' .. score(millis()), '+inf')
  elseif kind == 'total' then
    result = exists and total + redis.call('ZCARD', PERMITS) or 0
  elseif kind == 'try_set' then
    result = stood and 0 or set(number)
  elseif kind == 'set' then
    result = set(number)
  elseif kind == 'add' then
    result = add(number)
  elseif kind == 'clear' then
    result = clear()
  elseif kind == 'announce' then
    announces = true
  else
    result = queue_step(kind, what)
  end
  return result, i + 3
end

local function work()
  local refusal = open_counter()
  if refusal then return refusal end
  stood = exists
  open_queue()
  open_account()
  reclaim()
  local i = 11
  while ARGV[i] do results[#results + 1], i = step(i) end
  local own = serve(PASSED)
  enter_permits()
  write_counter()
  -- Without waiters nothing has to be left to JVMs.
  if waiting == 0 and account then reserved, account.ends = 0, nil end
  -- Permits without waiters end by themselves.
  local ends = waiting > 0 and (full and millis() or tonumber(redis.call('ZRANGE', PERMITS, 0, 0, 'WITHSCORES')[2] or ENDLESS))
  return finish(results, own, total > before, announces, say, ends and ends < ENDLESS and ends * 1000 or nil)
end

return once(work, notify)
