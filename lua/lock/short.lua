-- Purpose: the usual case in short: one step takes the lock, which is free, or gives back what is held once; nobody waits, and it is not
--   fenced. The first part of the script; what it does not carry out, the others do
-- Counterpart: RLock.tryLock, unlock
-- KEYS[1..] keys: those of steps.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of the batch
-- ARGV[3] life of its record in milliseconds
-- ARGV[4] "0": the first sending
-- ARGV[5..] those of steps.lua; the step from ARGV[11] on, of which it knows take, wait and release
-- Returns: what steps.lua does; nothing where it has changed nothing. It defines `clock`
-- Publishes: "0" when the lock has become free
-- Repeat-safe: yes, by the record
-- Invariant: what it changes is what steps.lua would

-- The server's clock in microseconds, where it has been asked.
local clock

do
  local pcall, ARGV, lock, record = redis.pcall, ARGV, KEYS[2], KEYS[1]
  local kind, number, lease, owner = ARGV[11], ARGV[12], ARGV[13], ARGV[5] .. ':' .. (ARGV[12] or '')
  local size = kind == 'take' and ARGV[14] == 'g' and 4 or kind == 'wait' and lease == '1' and ARGV[14] == 'g' and 9 or kind == 'release' and 3
  if size == 9 then lease = string.match(ARGV[18], ':(%d+)$') end
  if size and not ARGV[11 + size] and ARGV[4] == '0' and pcall('EXISTS', KEYS[4], KEYS[6]) == 0 then
    local heard, word, free, old = -1, '1:0:1', 0, nil
    if size > 3 and pcall('HLEN', lock) == 0 then
      old = pcall('SET', record, ARGV[2] .. ' done 0 -1 -1 -1 0 0 1:0:1 | ', 'PX', ARGV[3], 'GET')
    elseif size == 3 and pcall('HGET', lock, owner) == '1' and string.find(ARGV[7], '^' .. number .. ':1:') then
      word, free = '0', 1
      old = pcall('SET', record, ARGV[2] .. ' done 1 -1 -1 -1 0 0 0 | ', 'PX', ARGV[3], 'GET')
    end
    if old ~= nil and type(old) ~= 'table' then
      local done = not old or type(old) == 'string' and old < ARGV[2]
      if done and size == 3 then
        local ttl = pcall('PTTL', lock)
        done = type(ttl) == 'number' and pcall('DEL', lock) == 1
        heard = done and redis.pcall(ARGV[1], KEYS[3], '0')
        if type(heard) == 'table' then
          done = false
          pcall('HSET', lock, owner, 1)
          if ttl >= 0 then pcall('PEXPIRE', lock, ttl) end
        elseif done and heard > 0 then
          -- Listeners of a pattern are no waiters.
          heard = tonumber(pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[3])[2]) or heard
          -- From now on they have an account, which is the business of the other parts.
          if heard > 0 and type(pcall('HSET', KEYS[6], 'left', 1)) == 'number' then pcall('PEXPIRE', KEYS[6], ARGV[8]) end
        end
      elseif done then
        done = pcall('HSET', lock, owner, 1) == 1
        if done and pcall('PEXPIRE', lock, lease) ~= 1 then
          done = false
          pcall('DEL', lock)
        end
      end
      if done then return 'done ' .. free .. ' -1 -1 ' .. heard .. ' 0 0 ' .. word .. ' | ' end
      local _ = old and pcall('SET', record, old, 'PX', ARGV[3]) or pcall('DEL', record)
    end
  end
end
