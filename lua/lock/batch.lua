-- Purpose: carries out, once, the calls that the owners of one client made on one lock: in order, as if
--   their single scripts had run back to back; so an unlock and the next local owner's turn cost one call.
-- Counterpart: RLock.tryLock, unlock, forceUnlock; RFencedLock.tryLockAndGetToken; the part behind state.lua and
--   semaphore/turns.lua
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2..] others: the channel where waiters of every client listen; the fence: string, a number of this client in sixteen digits,
--   what it sent before that is refused, and " forced" if the call with this number took the lock away from somebody; the line and its
--   notes, where turns are kept, see engine/line.lua; the last fencing token: string, where a step asks for one
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of this sending, rising within a client
-- ARGV[3] time to live of the fence in milliseconds
-- ARGV[4] "0", or the number of this call's first sending: that one may have been carried out, or may still arrive
-- ARGV[5] a fence that somebody else must have written, as it is ahead of this client: it does not count, nor does
--   anything that does not look like a fence. It is replaced
-- ARGV[6..] steps of four: kind, owner, how often it held the lock before, as its client knows (-1: not any more, but
--   what it held may be left over), lease in milliseconds
--   acquire: also by the owner that holds it       acquire_fenced: the same, with a token
--   wait, wait_fenced: the same, by the rule of turns, where those are kept
--   release: one hold; the lease is that of those which are left
--   force: whoever holds it; the only one          forced: nothing; whether that was done, as nobody wants it any more
--   tend: nothing, but what the turns need
--   Where turns are kept, nine numbers follow, see semaphore/turns.lua
-- Returns: "done", listeners (-1: unknown), then two numbers for each step. acquire: how often the owner holds it now,
--   and the token, or 0 and the remaining time to live (-1: none), or -4 and 0 if it is the turn of others, or -3 and 0 if the owner
--   does not hold it, though it did. release: how many holds are left, -1 if there was none, and 0. force and forced: 1 or 0, and 0. tend: 0, and 0.
--   A step that is refused: -2, of how many words the error is, and these. Where others listen and turns are kept, a last word, see
--   semaphore/turns.lua.
--   "stale" and the fence for a sending older than that. In an array where the lock is as it was: there is nothing that
--   replicas could confirm. An error, and nothing has changed, where the server takes no
--   changes at the time
-- Publishes: "0" when the lock has become free. With "+" before it where turns are kept, as those who take part are told in another
--   way; nothing then if no other listens, or is to hear of it
-- Repeat-safe: yes, a repeated step sets the owner's count to the same as before, force sees by the fence that it has
--   been carried out, and the fence keeps late copies out
-- Invariant: at most one owner; always with a time to live; an owner's count is what the results say

local lock, token = KEYS[1], KEYS[LINE and 6 or 4]
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
  for i = FIRST, steps_end, 4 do only_taken = only_taken and ARGV[i] ~= 'release' and ARGV[i] ~= 'force' end
  if only_taken then return no_token end
end

local answer, word = {}, nil
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

-- Tells those who wait that the lock is free; how many hear it.
local function tell_all()
  if turn then word = close_turn(1, true) end
  if turn and (turn.told or turn.silent) then return listeners end
  return redis.pcall(ARGV[1], CHANNEL, (turn and turn.sign or '') .. '0')
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
  if not (done and done.err) then done = tell_all() end
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

for i = FIRST, steps_end, 4 do
  local kind, owner, expected, lease = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local result, extra = 0, 0
  if kind == 'force' or kind == 'forced' then
    local takes = kind == 'force' and not forced and redis.call('HLEN', lock) > 0
    result = (forced or takes) and 1 or 0
    if takes then
      local told = free(redis.call('HGETALL', lock), true)
      if type(told) == 'table' then return told end
      if not LINE then listeners = told end
      changed = true
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
  elseif kind ~= 'tend' then
    local ttl = not leaving and redis.call('PTTL', lock) or -2
    local held = ttl ~= -2 and redis.call('HGET', lock, owner)
    local count = math.max(expected, 0) + 1
    local waits, fenced = string.sub(kind, 1, 4) == 'wait', string.sub(kind, -7) == '_fenced'
    -- Who has it already does not wait for it.
    local is_due = not (waits and turn) or held or due(ttl == -2 and 1 or 0, 1, 1) == 1
    if ttl ~= -2 and not held then
      extra, counts = ttl, counts or waits
    elseif not is_due then
      result = -4
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
        if waits and turn and held then turn.asked, turn.served = turn.asked + 1, turn.served + 1 end
        if leaving then leaving, counts = nil, true end
      end
    end
  end
  if type(extra) == 'number' then extra = string.format('%.0f', extra) end
  answer[#answer + 1] = result .. ' ' .. extra
end

local told
if leaving and gone then
  told = tell_all()
  if type(told) == 'table' then told = -1 end
elseif leaving then
  told = free({ leaving, left_of_it }, false)
  if type(told) == 'table' then return told end
elseif turn and not word then
  word = close_turn(1 - redis.call('EXISTS', lock), false)
end
if not LINE then
  listeners = told or listeners
  if not told and counts then listeners = count_listeners(CHANNEL) end
end

local said = 'done ' .. listeners .. ' ' .. table.concat(answer, ' ') .. (word or '')
return (changed or doubtful) and said or { said }
