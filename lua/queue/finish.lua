-- Purpose: ends a script of the queue: notifies JVMs, and returns the answer
-- Counterpart: extension; the part behind queue/jvms.lua, or recipes/first.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- Returns: nothing by itself. It defines `finish`, which returns "done <free> <when to look> <first foreign> <jvms> <watches> <now>", one word a
--   step, "|", and the entries of this client that were served, or could not be. Times in microseconds, -1 for none; when to look is
--   below -1 where more entries than so many were passed, see `look_in`
-- Publishes: as announce.lua has it, with "+" while a client watches
-- Repeat-safe: yes, by record.lua
-- Invariant: nothing but notes is changed, and clients that cannot be notified leave the queue

-- `own`: the entries that were served. `tells`: JVMs are notified in any case that something is free; `again`: if any listen. `ends`: when something
-- ends that was granted. From the permits that are left to them, `say` computes how many permits there are for them, and how many of these are new.
local function finish(results, own, tells, again, say, ends)
  local watches = choose_watcher()
  close_lent()
  local left = close_account()
  -- Where this client's callers have taken the added permits, a message would wake JVMs for nothing.
  if total > 0 and (tells or again or left > 0) then
    watcher = watcher or heal('HGET', NOTES, 'watch')
    if again then jvms = count_jvms() end
    local heard, refusal = 0, nil
    local all, new = say(left)
    if not again or jvms > 0 then heard, refusal = announce(CHANNEL, all, new, watcher and '+' or '') end
    if refusal then error({ err = refusal }) end
    -- Listeners of a pattern are no waiters.
    jvms = heard > 0 and count_jvms() or 0
    if jvms > 0 and not account then note('left', total) end
  end
  if waiting == 0 and not watcher then
    -- The account of JVMs is kept for a second without waiters.
    if noted then redis.call('PEXPIRE', NOTES, 1000) elseif has_notes and jvms == 0 then redis.call('DEL', NOTES) end
  end
  if left > 0 then ends = math.min(ends or account.ends, account.ends) end
  if block_end then ends = math.min(ends or block_end, block_end) end
  local look = look_in(ends)
  return string.format('done %.0f %.0f %.0f %d %d %s ', total, look, first_foreign(), jvms, watches and 1 or 0,
    clock and score(clock) or '0') .. table.concat(results, ' ') .. ' | ' .. table.concat(own, ' ')
end
