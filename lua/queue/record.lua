-- Purpose: makes a batch take effect once, however often its request arrives
-- Counterpart: extension; a part of each script of src/queue, behind the usual case in short and queue/announce.lua
-- KEYS[1] record: string, "<number> <answer>" of the client's last batch on this object that changed something
-- ARGV[2] number of this batch: rises within a client, always of the same width
-- ARGV[3] life of the record in milliseconds
-- ARGV[4] "0": the first sending; "1": the batch may have been carried out; "2": the first sending under this number, behind one
--   that found a foreign record; "3": the batch may have been carried out, and is not to be any more; "4": the steps take
--   back what the batch of this number has done, if that is on record
-- Returns: for a number on record its answer, for a lower one "stale", for one that is not to be carried out "none"; else nothing by itself.
--   Where the server refuses a command "unsure <error>" if something has changed before it, else "refused <error>". It defines `change`,
--   `change_order`, `needs_no_memory`, `heal` and `once`
-- Publishes: nothing
-- Repeat-safe: yes, that is its purpose
-- Invariant: the record is written before the first change, so a server that forbids it says so while nothing has changed

local NUMBER, LIFE, SENDING = ARGV[2], ARGV[3], ARGV[4]
-- Whether the record is written, whether something has changed behind it, and whether the order of callers has.
local claimed, changed, ordered = false, false, false

local function put(answer) redis.call('SET', KEYS[1], NUMBER .. ' ' .. answer, 'PX', LIFE) end

local function change(...)
  if not claimed then put('none') end
  claimed = true
  local answer = redis.call(...)
  changed = true
  return answer
end

-- A change of the order of callers, which no replica has to have.
local function change_order(...)
  ordered = true
  return redis.call(...)
end

-- A server without memory refuses a script whose first write needs some, and none behind it: so one that needs none goes first.
local function needs_no_memory() redis.call('PEXPIRE', KEYS[1], LIFE) end

-- A command on a key that is ours; what stands there and is of another type goes.
local function heal(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer) end
  redis.call('DEL', key)
  return redis.call(command, key, ...)
end

-- Carries `work` out, whose answer is on record if something has changed or an earlier sending may arrive still; `tell` is last, as
-- nothing takes a message back. A first sending that fails before any change leaves no record: the client may send it again.
local function once(work, tell)
  local earlier = redis.call('GET', KEYS[1])
  local last = earlier and string.match(earlier, '^(%d+) ')
  local word = last == NUMBER and string.match(earlier, ' (%l+)', #NUMBER + 1)
  if SENDING == '4' and word == 'back' then
    needs_no_memory()
    return string.sub(earlier, #NUMBER + 7)
  elseif SENDING == '4' and word ~= 'done' then
    return 'none'
  end
  if SENDING ~= '4' and last and #last == #NUMBER and (last == NUMBER or last > NUMBER and SENDING ~= '2') then
    -- Replicas are asked for the last thing that this connection has written. This takes no memory.
    needs_no_memory()
    return last == NUMBER and SENDING ~= '0' and string.sub(earlier, #NUMBER + 2) or 'stale'
  end
  local done, answer = pcall(function()
    local answer = SENDING == '3' and 'none' or work()
    if SENDING == '4' then
      put('back ' .. answer)
    elseif claimed or ordered or SENDING == '1' or SENDING == '3' then
      put(answer)
    end
    tell()
    return answer
  end)
  if done then return changed and answer or { answer } end
  local refusal = type(answer) == 'table' and answer.err or tostring(answer)
  if not claimed and (SENDING == '0' or SENDING == '2') then return redis.error_reply(refusal) end
  answer = (changed and 'unsure ' or 'refused ') .. refusal
  put(answer)
  return answer
end
