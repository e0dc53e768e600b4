-- Purpose: carries out, once, what a primitive decides about a batch of calls: looks up the record, lets it decide, puts
--   the answer on record, publishes and writes, and takes the record back where that is refused
-- Counterpart: extension: the first part of the scripts of src/engine/primitive; the primitive's part, behind it, ends
--   with `return carry_out(decide)`, or, where it changes one thing after the other, with `carry_out_steps(work, undo)`
-- KEYS[1] record: string, "<sequence number> <answer>" of this client's last batch that is on record
-- KEYS[2..] others: the object, its channel, and the object's further keys; `OBJECT`, `CHANNEL` and, of the latter, the
--   first as `FURTHER` to the primitive
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "1": put the batch on record even if it changes nothing (an earlier copy may still arrive); "2": the
--   same, and a later number that stands there now is not by this client; else "0"
-- ARGV[5..] steps, as the primitive has them, `FIRST` being the place of the first; without any it is asked what has
--   become of this number
-- Returns: "done", and what the primitive answers; "none" for a number that was asked about, and will do nothing from now
--   on; "stale" for a batch older than the record, and for one that is sent for the first time and is on record;
--   "unreadable <text>" for something that does not belong there; "refused <error>": nothing has changed, by any sending;
--   "unrecorded <one of these>" where it should have been put on record by ARGV[4], and could not. In an array where nothing
--   has changed: there is nothing that replicas could confirm. An error, and this sending has changed nothing
-- Publishes: what the primitive says, before it is written: to the listeners it is one moment
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: what is answered is what was written; after a refusal nothing has changed

local RECORD, OBJECT, CHANNEL, FURTHER, FIRST = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 5
local messages, commands, undo_first = {}, {}, nil

-- What a primitive asks for: messages, each so often (once, if nothing is said) as long as somebody hears it; and commands
-- that change something. The first of them may be refused; and the second one, where it is told how to take the first one
-- back. What stands behind has been tried by the primitive, with something that changes nothing.
local function publish(message, times) messages[#messages + 1] = { message, times or 1 } end
local function write(...) commands[#commands + 1] = { ... } end
local function take_back_first(...) undo_first = { ... } end

local function put_on_record(answer)
  return redis.pcall('SET', RECORD, ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
end

-- The answer to a batch that is on record, or that is asked about; else nothing, and the record as it stands.
local function from_record()
  local old = redis.call('GET', RECORD)
  local last, sequence = tonumber(string.match(old or '', '^(%d+) ')), tonumber(ARGV[2])
  if last == sequence and ARGV[4] == '1' then
    local answer = string.sub(old, #ARGV[2] + 2)
    -- Replicas are asked for the last thing that this connection has written.
    put_on_record(answer)
    return answer
  end
  -- One that is sent for the first time can't be there: somebody else has written that, or this is a late copy.
  if last and (last == sequence or last > sequence and ARGV[4] ~= '2') then return 'stale' end
  if not ARGV[FIRST] then
    local recorded = put_on_record('none')
    return recorded.err and recorded or 'none'
  end
  return nil, old
end

local function unreadable(found)
  return 'unreadable ' .. string.sub(found, 1, 64)
end

-- `decide` answers with words; with nothing and what it has found instead of a number.
local function carry_out(decide)
  local known, old = from_record()
  if known then return known end
  local words, found = decide()
  if not words then return unreadable(found) end
  local answer = 'done ' .. words
  if #commands == 0 and #messages == 0 and ARGV[4] == '0' then return { answer } end

  -- The record first: a server that can't or may not write says so before anything has changed.
  local recorded = put_on_record(answer)
  if recorded.err then return recorded end
  local refusal
  for i = 1, #messages do
    local message, times = unpack(messages[i])
    while times > 0 and not refusal do
      local heard = redis.pcall(ARGV[1], CHANNEL, message)
      refusal = type(heard) == 'table' and heard.err
      times = heard == 0 and 0 or times - 1
    end
  end
  for i = 1, refusal and 0 or #commands do
    local written = redis.pcall(unpack(commands[i]))
    refusal = (i == 1 or undo_first) and type(written) == 'table' and written.err
    if refusal then
      if i > 1 then redis.pcall(unpack(undo_first)) end
      break
    end
  end
  if not refusal then return answer end

  answer = 'refused ' .. refusal
  local taken_back = { err = true }
  if ARGV[4] == '0' then
    taken_back = old and redis.pcall('SET', RECORD, old, 'PX', ARGV[3]) or redis.pcall('DEL', RECORD)
  end
  -- What can't be taken back, or must keep earlier copies out, says that it was refused.
  if type(taken_back) == 'table' and taken_back.err then put_on_record(answer) end
  return answer
end

-- `work` changes one thing after the other. It answers with words, and whether something has changed that must not be done
-- twice; with nothing and what it has found; or with an error. `undo`, told of an error, takes back what nobody may have who
-- is not told of it: what is to be said then, or "refused" if that was all; nothing if there was nothing to take back.
local function carry_out_steps(work, undo)
  local known = from_record()
  if known then return known end
  local done, words, more = pcall(work)
  if not done then
    local text = type(words) == 'table' and words.err or tostring(words)
    undo(text)
    if ARGV[4] ~= '0' then put_on_record('refused ' .. text) end
    return type(words) == 'table' and words or redis.error_reply(text)
  end
  local answer = words and 'done ' .. words or unreadable(more)
  if ARGV[4] == '0' and not (words and more) then return { answer } end
  local recorded = put_on_record(answer)
  if not recorded.err then return answer end
  local left = undo(recorded.err)
  if left == 'refused' then return recorded end
  answer = left and 'done ' .. left or answer
  return ARGV[4] ~= '0' and 'unrecorded ' .. answer or answer
end
