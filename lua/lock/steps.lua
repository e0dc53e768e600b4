-- Purpose: carries out the calls of one client on one lock, in order; then serves the queue
-- Counterpart: RLock.tryLock, unlock, forceUnlock; RFencedLock.tryLockAndGetToken; RReadWriteLock: the same of its two locks; the last part of
--   the script, behind a part that says what the lock is
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2..] those of the parts before; from the eleventh on steps of three words: kind, owner, a number. Entries are given without the
--   client's id
--   confirm (entry, its arrival), extend (entry, when its grant ends), leave (entry, -)
--   take: owner, lease in ms, kind     release: owner, how often it holds the lock as the client knows
--   force: of a read-write lock which side
--   wait, as queue.lua has it: an owner; its lease behind the life
--   check: looks after the client that watches    unwatch: this client does not, any more
-- Returns: as finish.lua has it, which publishes to JVMs when the lock has become free. Of a step: 1 or 0; how many have taken it, the last
--   token, and how often the owner holds it; how many holds are left, -1 if there was none. Or "refused <error>". In an array where nothing
--   has changed that replicas could confirm
-- Publishes: as announce.lua has it, where a writer has made room for readers; the rest is finish.lua's
-- Repeat-safe: yes, by record.lua
-- Invariant: the lock is what the results say

-- Whether the owner of `entry` has the lock; if not it waits, since its `arrival`.
local function confirm(entry, arrival)
  local _, owner = read_entry(entry)
  if not has(owner) then
    enter(entry, arrival)
    return 0
  end
  if waiting > 0 then drop(entry) end
  take(entry, nil, nil, true)
  return taken(1)
end

-- Carries the step at `i` out: its result, and where the next one is.
local function step(i)
  local kind, first, second = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if kind ~= 'take' and kind ~= 'wait' then needs_no_memory() end
  if kind == 'confirm' then return confirm(entry_of(first), second + 0), i + 3 end
  if kind == 'release' then return release(first, second), i + 3 end
  if kind == 'take' then
    local takes = lets(first, ARGV[i + 3])
    if takes then take(entry_for(ARGV[i + 3], 0, first, '0:' .. second), nil, nil, true) end
    return takes and taken(1) or 0, i + 4
  elseif kind == 'wait' then
    -- The owner that has it goes first.
    local done = wait(i, first, '', goes_ahead(first, ARGV[i + 3]))
    return done > 0 and taken(done) or 0, i + 9
  end
  return kind == 'force' and force(first) or queue_step(kind, first, tonumber(second)), i + 3
end

local function work()
  local refusal = open_lock()
  if refusal then return refusal end
  check_tokens()
  open_queue()
  open_account()
  local results, i = {}, 11
  while ARGV[i] do results[#results + 1], i = step(i) end
  settle()
  local own = serve(PASSED)
  local payload, readable = close_lock()
  -- Without waiters nothing has to be left to JVMs.
  if waiting == 0 and account then reserved, account.ends = 0, nil end
  if readable then
    watcher = watcher or heal('HGET', NOTES, 'watch')
    local _, refusal = announce(CHANNEL, payload, 1, watcher and '+' or '')
    if refusal then error({ err = refusal }) end
  end
  local function say() return payload, 1 end
  -- A lock without waiters ends by itself.
  local ttl = total == 0 and waiting > 0 and redis.call('PTTL', LOCK)
  return finish(results, own, before == 0, false, say, ttl and ttl >= 0 and now() + ttl * 1000 or nil)
end

return once(work, notify)
