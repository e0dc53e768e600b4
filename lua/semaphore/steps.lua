-- Purpose: carries out the calls of one client on one semaphore, in order; then serves the queue
-- Counterpart: RSemaphore.acquire, tryAcquire, release, releaseIfExists, addPermits, drainPermits, trySetPermits; the last part of the
--   script
-- ARGV[1..] those of the parts before; from the eleventh on steps of three words: kind, amount, count or another number. Entries are
--   given without the client's id
--   first those about entries: confirm (entry, its arrival), extend (entry, -); leave, forget (entry, how much of it)
--   release, release_if_exists, try: count times amount     take: the same under leases; four words, the last the first ticket
--   add: amount, may be negative    drain    try_set: amount; time to live in ms, 0 for none    set: amount, with what is granted
--   wait, as queue.lua has it: an amount
--   reclaim: whose grants have run out, their entries with commas between, or 0
--   announce: tells JVMs what is free    check: looks after the client that watches    unwatch: this client does not, any more
-- Returns: as finish.lua has it. Of a step: how many of count were carried out, followed by ":<counter>" where the range forbade the others;
--   1 or 0; "missing"; the counter before a drain. Or "unreadable <text>", "refused <error>". In an array where nothing has changed that
--   replicas could confirm
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: counter and grants change by exactly what the results say; within 32 bits

local results, tells, reclaimed = {}, false, false
local OF_ENTRIES = { confirm = true, extend = true }

-- Guards of a semaphore that is gone give nothing back into the one that is made now.
local function make()
  if exists then return end
  if first_end then change('DEL', GRANTS) end
  exists, first_end = true, nil
end

local function release(permits, count)
  local done = math.max(0, math.min(count, math.floor((HIGHEST - total) / permits)))
  if done > 0 then
    make()
    total = total + done * permits
  end
  return done < count and done .. ':' .. total or done
end

local function add(permits)
  -- A counter that another client has moved out of the range may be moved back.
  if permits > 0 and total + permits > HIGHEST or permits < 0 and total + permits < LOWEST then return '0:' .. total end
  make()
  total, tells = total + permits, true
  return 1
end

-- So many with those that are granted.
local function set(permits)
  make()
  for _, entry in ipairs(redis.call('ZRANGE', GRANTS, 0, -1)) do
    local kind, _, amount = parse(entry)
    if kind then permits = permits - amount end
  end
  return add(math.max(LOWEST, permits) - total)
end

local function try(permits, count, ticket)
  local done = exists and math.max(0, math.min(count, math.floor(total / permits))) or 0
  total = total - done * permits
  for i = 0, ticket and done - 1 or -1 do hold(held_for(LEASED, ticket + i, permits, 0)) end
  return done
end

-- Carries the step at `i` out: its result, and where the next one is.
local function step(i)
  local kind, amount, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local number = tonumber(amount)
  if kind == 'confirm' then return confirm(entry_of(amount), count), i + 3 end
  if kind == 'forget' then return leave(entry_of(amount), count, true), i + 3 end
  if kind == 'release' then return release(number, count), i + 3 end
  if kind == 'release_if_exists' then return exists and release(number, count) or 'missing', i + 3 end
  if kind == 'try' then return try(number, count), i + 3 end
  if kind == 'take' then return try(number, count, ARGV[i + 3] + 0), i + 4 end
  if kind == 'add' then return add(number), i + 3 end
  if kind == 'set' then return set(number), i + 3 end
  if kind == 'wait' then
    return wait(i, number, ARGV[i + 3] == LEASED and ARGV[7] or ''), i + 9
  end
  local result = 1
  if kind == 'drain' then
    result, total = total, 0
  elseif kind == 'try_set' then
    result = exists and 0 or 1
    if not exists then
      make()
      total, ttl = number, ARGV[i + 2]
    end
  elseif kind == 'announce' then
    announces = true
  elseif kind == 'reclaim' then
    result = reclaimed[1] and table.concat(reclaimed, ',') or 0
  else
    result = queue_step(kind, amount, count)
  end
  return result, i + 3
end

local function work()
  local refusal = open_counter()
  if refusal then return refusal end
  open_queue()
  open_grants()
  open_account()
  local i = 11
  while ARGV[i] do
    if not OF_ENTRIES[ARGV[i]] and not reclaimed then reclaimed = reclaim() or {} end
    results[#results + 1], i = step(i)
  end
  if not reclaimed then reclaim() end
  local own = serve(PASSED)
  write_counter()
  local ends = changed and redis.call('ZRANGE', GRANTS, 0, 0, 'WITHSCORES')[2] or first_end
  return finish(results, own, total > before or tells, announces, say, tonumber(ends))
end

return once(work, notify)
