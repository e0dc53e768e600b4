-- Purpose: carries out, once, the calls that the owners of one client made on one lock: in order, as if
--   their single scripts had run back to back; so an unlock and the next local owner's turn cost one call.
-- Counterpart: RLock.tryLock, unlock, forceUnlock; RFencedLock.tryLockAndGetToken; the part behind engine/change.lua
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] fence: string, a number of this client in sixteen digits, what it sent before that is refused; and " forced"
--   if the call with this number took the lock away from somebody
-- KEYS[4] next: string, which client is next, as its callers have been passed for long: for how many milliseconds the
--   others leave the free lock to it, since when it has been passed, and its fence; with a time to live
-- KEYS[5] token: string, the last fencing token; where a step asks for one
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of this sending, rising within a client
-- ARGV[3] time to live of the fence in milliseconds
-- ARGV[4] "0", or the number of this call's first sending: that one may have been carried out, or may still arrive
-- ARGV[5] a fence that somebody else must have written, as it is ahead of this client: it does not count, nor does
--   anything that does not look like a fence. It is replaced
-- ARGV[6] "0", or this client is to be next if it finds the lock held, and nobody is who has been passed for longer: for how
--   many milliseconds it is left free then, and for how many this client has been passed
-- ARGV[7..] steps of four: kind, owner, how often it held the lock before, as its client knows (-1: not any more, but
--   what it held may be left over), lease in milliseconds
--   acquire: also by the owner that holds it       acquire_fenced: the same, with a token
--   wait, wait_fenced: the same, but the lock is left to the client that is next
--   release: one hold; the lease is that of those which are left
--   force: whoever holds it
-- Returns: "done", listeners (-1: unknown), then two numbers for each step. acquire: how often the owner holds it now,
--   and the token, or 0 and the remaining time to live (-1: none), or for how long the lock is left to others, or -4 and
--   the time to live if this client is next now, or -3 and 0 if the owner does not hold it, though it did. release: how many holds are left, -1 if there was none, and 0. force: 1 or 0, and 0. A step that is refused:
--   -2, of how many words the error is, and these.
--   "stale" and the fence for a sending older than that. In an array where the lock is as it was: there is nothing that
--   replicas could confirm. An error, and nothing has changed, where the server takes no
--   changes at the time
-- Publishes: "0" when the lock has become free
-- Repeat-safe: yes, a repeated step sets the owner's count to the same as before, force sees by the fence that it has
--   been carried out, and the fence keeps late copies out
-- Invariant: at most one owner; always with a time to live; an owner's count is what the results say

local lock, token = KEYS[1], KEYS[5]
local doubtful = ARGV[4] ~= '0'

local fence, forced = redis.call('GET', KEYS[3]), false
local number, mark = string.match(fence or '', '^(' .. string.rep('%d', 16) .. ')(.*)$')
local ours = number and (mark == '' or mark == ' forced') and fence ~= ARGV[5]
if ours then
  if number > ARGV[2] then return 'stale ' .. fence end
  forced = doubtful and mark == ' forced' and number >= ARGV[4]
end
if doubtful or (fence and not ours) then
  redis.call('SET', KEYS[3], ARGV[2] .. (forced and ' forced' or ''), 'PX', ARGV[3])
end
-- What is no token is told to those who ask for one; others give back what they hold all the same.
local last_token, no_token = token and redis.pcall('GET', token), nil
if type(last_token) == 'table' then
  no_token = last_token
elseif last_token and not (last_token == '0' or string.match(last_token, '^[1-9]%d*$')) then
  no_token = { err = 'ERR the last fencing token is no whole number from 0 on' }
elseif last_token and tonumber(last_token) >= 9007199254740991 then
  -- Scripts have no whole numbers beyond 2^53 - 1 that differ from the next ones.
  no_token = { err = 'ERR the last fencing token is so large that none can follow' }
end
if no_token then
  local only_taken = true
  for i = 7, #ARGV, 4 do only_taken = only_taken and ARGV[i] ~= 'release' and ARGV[i] ~= 'force' end
  if only_taken then return no_token end
end

local listeners, answer = -1, {}
-- The owner that has given the lock back in this call, when nobody has followed yet, and how often it held it; and whether it is
-- taken out already, as the one that was to follow could not be entered.
local leaving, left_of_it, gone
-- Those who listen are to be counted: the lock has gone from one of this client to the next, or one waits for others.
local counts = false
local changed = false
-- Whether an error is about what a step asks for; others are about the server. Redis 6.2 says what it forbids behind
-- where in the script that was, and a code behind a dash.
local OF_THE_STEP = { ERR = true, NOPERM = true, WRONGTYPE = true, The = true }
local function is_of_the_step(text)
  return OF_THE_STEP[string.match(string.gsub(text, '^@[^ ]+ %d+: %-?', ''), '^%a+')]
end

-- Frees the lock, which holds what is `held`, and tells the listeners; where either is refused, neither happens, unless
-- what would take the first back is forbidden, too: nobody may hold it for ever, and -1 listeners were told then. To them it
-- is one moment. With `force`, the fence has the mark.
local function free(held, force)
  local ttl = redis.pcall('PTTL', lock)
  if type(ttl) == 'table' then return ttl end
  local deleted = redis.pcall('DEL', lock)
  if type(deleted) == 'table' then return deleted end
  -- Without memory nothing may be written but behind what needs none.
  local done = force and redis.pcall('SET', KEYS[3], ARGV[2] .. ' forced', 'PX', ARGV[3])
  if not (done and done.err) then done = redis.pcall(ARGV[1], KEYS[2], '0') end
  if type(done) ~= 'table' then return done end
  local kept = redis.pcall('HSET', lock, unpack(held))
  if type(kept) ~= 'table' and ttl >= 0 then kept = redis.pcall('PEXPIRE', lock, ttl) end
  if type(kept) == 'table' then
    redis.call('DEL', lock)
    return -1
  end
  if force then redis.pcall('SET', KEYS[3], ARGV[2], 'PX', ARGV[3]) end
  return done
end

-- Who is next. What nobody of ours has written there is nobody.
local settled = redis.pcall('GET', KEYS[4])
local patience, passed_since, first = string.match(type(settled) == 'string' and settled or '', '^(%d+) (%d+) (.*)$')
if settled and not first then change('DEL', KEYS[4]) end

-- For how long those who wait leave the free lock to another client, whose time begins when the first of them sees it.
local function left_to_another()
  if not first or first == KEYS[3] then return nil end
  local most = math.min(tonumber(patience), 2000)
  local left = redis.call('PTTL', KEYS[4])
  if left < 0 or left > most then
    redis.call('PEXPIRE', KEYS[4], most)
    left = most
  end
  return left
end

-- This client is next from now on, unless one is that has been passed for longer; whether it is.
local function come_next()
  local left_free, passed_for = string.match(ARGV[6], '^(%d+) (%d+)$')
  if not left_free then return false end
  local time = redis.pcall('TIME')
  if time.err then return false end
  local since = time[1] * 1000 + math.floor(time[2] / 1000) - passed_for
  if first and first ~= KEYS[3] and tonumber(passed_since) <= since then return false end
  local set = change('SET', KEYS[4], string.format('%s %.0f %s', left_free, math.max(0, since), KEYS[3]), 'PX', 5000)
  return not set.err
end

for i = 7, #ARGV, 4 do
  local kind, owner, expected, lease = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local result, extra = 0, 0
  if kind == 'force' then
    result = (forced or redis.call('HLEN', lock) > 0) and 1 or 0
    if result == 1 and not forced then
      local told = free(redis.call('HGETALL', lock), true)
      if type(told) == 'table' then return told end
      listeners, changed = told, true
    end
    leaving = nil
  elseif kind == 'release' then
    local held = not leaving and redis.call('HGET', lock, owner)
    if not held then
      result = -1
    else
      result = math.max(expected - 1, 0)
      changed = true
      if result == 0 then
        leaving, left_of_it, gone = owner, held, false
      else
        -- Without memory nothing may be written but behind what needs none.
        local ttl = redis.call('PTTL', lock)
        redis.call('PEXPIRE', lock, lease)
        local written = redis.pcall('HSET', lock, owner, result)
        if type(written) == 'table' then
          if ttl >= 0 then redis.call('PEXPIRE', lock, ttl) end
          return written
        end
      end
    end
  else
    local ttl = not leaving and redis.call('PTTL', lock) or -2
    local held = ttl ~= -2 and redis.call('HGET', lock, owner)
    local count = math.max(expected, 0) + 1
    local waits, fenced = string.sub(kind, 1, 4) == 'wait', string.sub(kind, -7) == '_fenced'
    local left = waits and ttl == -2 and left_to_another()
    if left then
      extra = left
    elseif ttl ~= -2 and not held then
      extra = ttl
      if waits then
        result = come_next() and -4 or 0
        counts = true
      end
    elseif not held and expected > 0 then
      -- Taken now, a repetition could not tell it from what was lost.
      result = -3
    else
      local given, written = 0, true
      if fenced and no_token then
        written = no_token
      elseif fenced then
        local repeated = doubtful and expected >= 0 and tonumber(held or 0) == count
        given = repeated and tonumber(last_token) or redis.pcall('INCR', token)
        if type(given) == 'table' then written = given end
      end
      -- First who leaves, as there is one owner at the most; if nobody follows, the lock is free.
      if type(written) ~= 'table' and leaving and leaving ~= owner then
        written = redis.pcall('HDEL', lock, leaving)
        gone = gone or type(written) ~= 'table'
      end
      if type(written) ~= 'table' then written = redis.pcall('HSET', lock, owner, count) end
      if type(written) ~= 'table' then
        written = redis.pcall('PEXPIRE', lock, lease)
        if type(written) == 'table' then
          -- Nobody may hold it for ever.
          if held then
            redis.pcall('HSET', lock, owner, held)
          elseif type(redis.pcall('HDEL', lock, owner)) == 'table' then
            redis.pcall('DEL', lock)
          end
        end
      end
      if type(written) == 'table' then
        -- A server that takes no changes for the time being says so at the first one: the call is made again. To
        -- give a lock back needs no memory, though, and does not wait until the next one can have it.
        if not changed and not is_of_the_step(written.err) then return written end
        local words = {}
        for word in string.gmatch(written.err, '%S+') do words[#words + 1] = word end
        result, extra = -2, #words .. ' ' .. table.concat(words, ' ')
      else
        result, extra = count, given
        changed = true
        if waits and first == KEYS[3] then
          redis.call('DEL', KEYS[4])
          first = nil
        end
        if leaving then leaving, counts = nil, true end
      end
    end
  end
  if type(extra) == 'number' then extra = string.format('%.0f', extra) end
  answer[#answer + 1] = result .. ' ' .. extra
end

if leaving and gone then
  local told = redis.pcall(ARGV[1], KEYS[2], '0')
  listeners = type(told) == 'number' and told or -1
elseif leaving then
  local told = free({ leaving, left_of_it }, false)
  if type(told) == 'table' then return told end
  listeners = told
elseif counts then
  local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, KEYS[2])
  if not counted.err then listeners = counted[2] end
end

local said = 'done ' .. listeners .. ' ' .. table.concat(answer, ' ')
return (changed or doubtful) and said or { said }
