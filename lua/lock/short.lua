-- Purpose: the usual case in short: one step takes the lock, which is free, or gives back what is held once; nobody waits, and it is not
--   fenced. The first part of the script; what it does not carry out, the others do
-- Counterpart: RLock.tryLock, unlock
-- KEYS[1..] keys: those of steps.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of the batch
-- ARGV[3] life of its record in milliseconds
-- ARGV[4] "0": the first sending
-- ARGV[5..] those of steps.lua; the step from ARGV[11] on, of which it knows take, wait and release
-- Returns: "done <free> <jvms> <result of the step>": what steps.lua says, in short; nothing where it has changed nothing
-- Publishes: "0" when the lock has become free
-- Repeat-safe: yes, by the record
-- Invariant: what it changes is what steps.lua would

if ARGV[4] == '0' then
  local pcall, ARGV, lock, kind, number = redis.pcall, ARGV, KEYS[2], ARGV[11], ARGV[12]
  local owner, lease, fits = ARGV[5] .. ':' .. (number or ''), nil, nil
  if kind == 'take' and not ARGV[15] and ARGV[14] == 'g' then
    lease = ARGV[13]
  elseif kind == 'wait' and not ARGV[20] and ARGV[14] == 'g' and ARGV[13] == '1' then
    lease = string.match(ARGV[18], ':(%d+)$')
  end
  if lease then
    fits = pcall('EXISTS', lock, KEYS[4], KEYS[6]) == 0
  elseif kind == 'release' and not ARGV[14] and ARGV[7] == number .. ':1' then
    fits = pcall('HGET', lock, owner) == '1' and pcall('EXISTS', KEYS[4], KEYS[6]) == 0
  end
  if fits then
    local record = ARGV[2] .. (lease and ' done 0 -1 1:0:1' or ' done 1 -1 0')
    local old = pcall('SET', KEYS[1], record, 'PX', ARGV[3], 'GET')
    local done, heard = not old or type(old) == 'string' and old < ARGV[2], -1
    if done and lease then
      -- No lock without an end is left where setting it is forbidden.
      done = pcall('PEXPIRE', lock, lease) == 0 and pcall('HSET', lock, owner, 1) == 1
      if done then pcall('PEXPIRE', lock, lease) end
    elseif done then
      heard = redis.pcall(ARGV[1], KEYS[3], '0')
      done = type(heard) == 'number' and pcall('DEL', lock) == 1
      if done and heard > 0 then
        -- Listeners of a pattern are no waiters.
        heard = tonumber(pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[3])[2]) or heard
        -- From now on they have an account, which is the business of the other parts.
        if heard > 0 and type(pcall('HSET', KEYS[6], 'left', 1)) == 'number' then pcall('PEXPIRE', KEYS[6], 1000) end
      end
    end
    if done then return lease and 'done 0 -1 1:0:1' or 'done 1 ' .. heard .. ' 0' end
    if type(old) ~= 'table' then pcall('SET', KEYS[1], old or '0', 'PX', ARGV[3]) end
  end
end
