-- Purpose: carries out, once, the calls that the owners of one client made on one lock: in order, as if
--   their single scripts had run back to back; so an unlock and the next local owner's turn cost one call.
-- Counterpart: RLock.tryLock, unlock, forceUnlock; RFencedLock.tryLockAndGetToken
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] fence: string, a number of this client; what it sent before that is refused
-- KEYS[4] token: string, the last fencing token; where a step asks for one
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] number of this sending, rising within a client
-- ARGV[3] time to live of the fence in milliseconds
-- ARGV[4] "1": an earlier sending may have been carried out, or may still arrive
-- ARGV[5..] steps of four: kind, owner, how often it held the lock before, lease in milliseconds
--   acquire: also by the owner that holds it       acquire_fenced: the same, with a token
--   release: one hold; the lease is that of those which are left
--   force: whoever holds it
-- Returns: listeners (-1: unknown), then two values for each step. acquire: how often the owner holds it now,
--   and the token, or 0 and the remaining time to live (-1: none). release: how many holds are left, -1 if there
--   was none, and 0. force: 1 or 0, and 0. A step that is refused: -2 and the error.
--   "stale" for a sending older than the fence
-- Publishes: "0" when the lock has become free
-- Repeat-safe: yes, a repeated step sees by the owner's count that it has been carried out, and the fence keeps
--   late copies out
-- Invariant: at most one owner; always with a time to live; an owner's count changes by what the results say

local lock, token = KEYS[1], KEYS[4]
local doubtful = ARGV[4] == '1'

local fence = redis.call('GET', KEYS[3])
if fence and tonumber(fence) > tonumber(ARGV[2]) then return 'stale' end
if doubtful then redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3]) end
-- Says so before anything has changed if it holds something else.
local last_token = token and redis.call('GET', token)
if last_token and not tonumber(last_token) then
  return redis.error_reply('ERR the fencing token is not an integer')
end

local answer = { -1 }
-- The owner that has given the lock back in this call, when nobody has followed yet.
local leaving
local handed_over = false

for i = 5, #ARGV, 4 do
  local kind, owner, expected, lease = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local result, extra = 0, 0
  if kind == 'force' then
    result = redis.call('HLEN', lock) > 0 and 1 or 0
    -- To the listeners it is one moment; a server that may not publish says so first.
    if result == 1 then
      answer[1] = redis.call(ARGV[1], KEYS[2], '0')
      redis.call('DEL', lock)
    end
    leaving = nil
  elseif kind == 'release' then
    local count = redis.call('HGET', lock, owner)
    if not count or leaving then
      result = -1
    else
      count = tonumber(count)
      result = doubtful and count < expected and count or count - 1
      if result < 1 then
        result, leaving = 0, owner
      else
        redis.call('HSET', lock, owner, result)
        redis.call('PEXPIRE', lock, lease)
      end
    end
  else
    local ttl = not leaving and redis.call('PTTL', lock) or -2
    local held = ttl ~= -2 and redis.call('HGET', lock, owner)
    if ttl ~= -2 and not held then
      extra = ttl
    else
      local count = tonumber(held or 0)
      local repeated = doubtful and count > expected
      result = repeated and count or count + 1
      local written = redis.pcall('HSET', lock, owner, result)
      if type(written) == 'table' then
        result, extra = -2, written.err
      else
        if leaving then
          if leaving ~= owner then redis.call('HDEL', lock, leaving) end
          leaving, handed_over = nil, true
        end
        redis.call('PEXPIRE', lock, lease)
        if kind == 'acquire_fenced' then
          extra = repeated and tonumber(last_token) or redis.call('INCR', token)
        end
      end
    end
  end
  answer[#answer + 1] = result
  answer[#answer + 1] = extra
end

if leaving then
  answer[1] = redis.call(ARGV[1], KEYS[2], '0')
  redis.call('DEL', lock)
elseif handed_over then
  -- Does anybody else wait for the lock?
  local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, KEYS[2])
  if not counted.err then answer[1] = counted[2] end
end

return answer
