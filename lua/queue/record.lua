-- Purpose: makes a batch take effect once, however often its request arrives; and undoes it where the server refuses a part
-- Counterpart: extension; the first part of each script of src/queue
-- KEYS[1] record: string, "<number> <answer>" of the client's last batch on this object that changed something
-- ARGV[2] number of this batch: rises within a client, always of the same width
-- ARGV[3] life of the record in milliseconds
-- ARGV[4] "0": the first sending; "1": the batch may have been carried out; "2": the first sending under this number, behind one
--   that found a foreign record; "3": the batch may have been carried out, and is not to be any more; "4": the steps take
--   back what the batch of this number has done, if that is on record
-- Returns: for a number on record its answer, for a lower one "stale", for one that is not to be carried out "none"; else nothing by itself.
--   Where a change is refused "refused <error>", or "unsure <error>" if some of those before it could not be undone. It defines
--   `change`, `change_order`, `read`, `claim` and `once`
-- Publishes: nothing
-- Repeat-safe: yes, that is its purpose
-- Invariant: where a change is refused, those before it are undone

local NUMBER, LIFE, SENDING = ARGV[2], ARGV[3], ARGV[4]
-- A `harmless` one is about the order of callers alone: it may fail, and no replica has to have what it undoes.
local undo, earlier, written, claimed = {}, nil, false, false

-- Makes a change; the arguments behind it undo it.
local function change(command, ...)
  local answer = redis.call(unpack(command))
  if ... then undo[#undo + 1] = { ... } end
  return answer
end

-- The same where it is harmless.
local function change_order(command, ...)
  local answer = change(command, ...)
  if ... then undo[#undo].harmless = true end
  return answer
end

local function is_for_replicas()
  for _, back in ipairs(undo) do
    if not back.harmless then return true end
  end
  return claimed
end

-- Reads a key that is ours; what stands there and is of another type goes.
local function read(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer) end
  redis.call('DEL', key)
  return redis.call(command, key, ...)
end

local function put(answer)
  redis.call('SET', KEYS[1], NUMBER .. ' ' .. answer, 'PX', LIFE)
  written = true
end

-- Writes the record before anything else: a server that may not do that says so before something has changed that can't be undone.
local function claim()
  if not claimed then put('none') end
  claimed = true
end

-- Carries `work` out, whose answer is on record if something has changed or an earlier sending may arrive still; `tell` is last, as
-- nothing takes a message back. An error of a first sending may be answered by another sending.
local function once(work, tell)
  earlier = redis.call('GET', KEYS[1])
  local last = earlier and string.match(earlier, '^(%d+) ')
  local word = last == NUMBER and string.match(earlier, ' (%l+)', #NUMBER + 1)
  if SENDING == '4' and word == 'back' then
    redis.call('PEXPIRE', KEYS[1], LIFE)
    return string.sub(earlier, #NUMBER + 7)
  elseif SENDING == '4' and word ~= 'done' then
    return 'none'
  end
  if SENDING ~= '4' and last and #last == #NUMBER and (last == NUMBER or last > NUMBER and SENDING ~= '2') then
    -- Replicas are asked for the last thing that this connection has written. This takes no memory.
    redis.call('PEXPIRE', KEYS[1], LIFE)
    return last == NUMBER and SENDING ~= '0' and string.sub(earlier, #NUMBER + 2) or 'stale'
  end
  local done, answer = pcall(function()
    local answer = SENDING == '3' and 'none' or work()
    if SENDING == '4' then
      put('back ' .. answer)
    elseif claimed or #undo > 0 or SENDING == '1' or SENDING == '3' then
      put(answer)
    end
    tell()
    return answer
  end)
  if done then return is_for_replicas() and answer or { answer } end
  local word, stays = 'refused ', false
  -- The record goes back last.
  if written then table.insert(undo, 1, earlier and { 'SET', KEYS[1], earlier, 'PX', LIFE } or { 'DEL', KEYS[1] }) end
  for i = #undo, 1, -1 do
    local back = redis.pcall(unpack(undo[i]))
    if type(back) == 'table' and back.err and not undo[i].harmless then
      if undo[i][2] == KEYS[1] then stays = true else word = 'unsure ' end
    end
  end
  answer = word .. (type(answer) == 'table' and answer.err or tostring(answer))
  -- Where something stays behind no other sending may do the rest.
  if word == 'refused ' and not stays and (SENDING == '0' or SENDING == '2') then
    return redis.error_reply(string.sub(answer, #word + 1))
  end
  put(answer)
  return answer
end
