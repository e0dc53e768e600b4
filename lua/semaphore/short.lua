-- Purpose: the usual case in short: nobody waits, no JVM either, there is enough, and for guards nothing has run out. The first part of
--   the script; what it does not carry out, the others do. It defines no function, as that takes longer than all it does
-- Counterpart: RSemaphore.acquire, release
-- KEYS[1..] keys: those of steps.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of the batch
-- ARGV[3] life of its record in milliseconds
-- ARGV[4] "0": the first sending
-- ARGV[5..] those of queue/queue.lua; steps from ARGV[11] on, of which it knows release, leave, try, take and wait
-- Returns: what steps.lua does, for guards; else "done <free> <jvms>" and the results; nothing where it has changed nothing
-- Publishes: as steps.lua does for a release; of more than one permit it leaves that to it
-- Repeat-safe: yes, by the record
-- Invariant: what it changes is what steps.lua would

do
  local pcall, KEYS, ARGV = redis.pcall, KEYS, ARGV
  local guards = ARGV[11] == 'leave' or ARGV[11] == 'take' or ARGV[14] == 'g'
  local time = guards and pcall('TIME')
  local clock = time and time[1] and time[1] * 1000000 + time[2] or nil
  local now = clock or 0
  local first = clock and pcall('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')
  local ends = first and tonumber(first[2])
  local text = (not guards or first and not first.err) and not (ends and ends <= now) and ARGV[4] == '0' and pcall('EXISTS', KEYS[4], KEYS[6]) == 0 and pcall('GET', KEYS[2])
  local before = type(text) == 'string' and tonumber(text)
  if before and string.find(text, '^%d+$') and before .. '' == text and before < 2147483647 then
    local total, results, adds, rems, i, fits = before, '', {}, {}, 11, true
    while fits and ARGV[i] do
      local kind, amount, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
      if kind == 'release' then
        total, results, i = total + amount * count, results .. ' ' .. count, i + 3
      elseif kind == 'try' and amount * count <= total then
        total, results, i = total - amount * count, results .. ' ' .. count, i + 3
      elseif (kind == 'wait' or kind == 'take') and amount * count <= total and (guards or ARGV[i + 3] == 'a') then
        local ticket, life, size = ARGV[i + 4], ARGV[i + 7], 9
        if kind == 'take' then ticket, life, size = ARGV[i + 3], '0', 4 end
        total, results = total - amount * count, results .. ' ' .. count
        for at = ticket, ARGV[i + 3] ~= 'a' and ticket + count - 1 or -1 do
          adds[#adds + 1] = string.format('%.0f', now + ARGV[6] * 1000)
          adds[#adds + 1] = string.format('%s:g%.0f:%s:%s%s', ARGV[5], at, amount, life, ARGV[7])
        end
        i = i + size
      elseif kind == 'leave' and string.match(amount, '^g%d+:(%d+):') == ARGV[i + 2] and #adds + #rems < 1000
        and type(pcall('ZSCORE', KEYS[5], ARGV[5] .. ':' .. amount)) == 'string' then
        rems[#rems + 1] = ARGV[5] .. ':' .. amount
        total, results, i = total + count, results .. ' 1', i + 3
      else
        fits = false
      end
    end
    if fits and i > 11 and total <= 2147483647 and total <= before + 1 and #adds < 1000 then
      local heard = tonumber(total > before and redis.pcall(ARGV[1], KEYS[3], total) or -1)
      -- Listeners of a pattern are no waiters.
      if heard and heard > 0 then
        heard = tonumber(pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[3])[2]) or heard
        -- From now on they have an account, which is the business of the other parts.
        if heard > 0 and type(pcall('HSET', KEYS[6], 'left', total)) == 'number' then pcall('PEXPIRE', KEYS[6], 1000) end
      end
      local answer = guards
        and string.format('done %.0f %.0f -1 %d 0 %.0f%s | ', total, ends and ends - now or -1, heard or 0, now, results)
        or 'done ' .. total .. ' ' .. (heard or 0) .. results
      local old = heard and pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
      local is_new = heard and (not old or type(old) == 'string' and old < ARGV[2])
      local done = is_new and (total == before or pcall('INCRBY', KEYS[2], total - before))
      if done and type(done) ~= 'table' then
        done = not adds[1] or pcall('ZADD', KEYS[5], unpack(adds))
        done = type(done) == 'table' and done or not rems[1] or pcall('ZREM', KEYS[5], unpack(rems))
        if type(done) ~= 'table' then return answer end
        answer = 'unsure ' .. done.err
        pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
        return answer
      end
      if heard and type(old) ~= 'table' then pcall('SET', KEYS[1], old or '0', 'PX', ARGV[3]) end
    end
  end
end
