-- Purpose: keeps on record how many permits the guards of this client hold, so that they come back when its process
--   dies; see reclaim.lua
-- Counterpart: extension: a part behind counter.lua, only in the script of clients that are watched
-- KEYS[1..] keys: those of counter.lua, and one that is taken off behind them: held, a hash, holder -> "<permits> <since
--   when, in milliseconds since 1970> <the client's name>", and what held.lua puts into a second line. Where the holder is to be
--   put on record there is another one: alive, a zset, holder -> until when it is believed alive
-- ARGV[1..] those of batch.lua, and behind them two that are taken off: the holder, under which this client's permits
--   are on record; "1" if it is to be put on record where it is not. Then two stand before them: for how many milliseconds it is
--   believed alive from then on, and the client's name. A step whose kind begins with "*" is about permits on record: what it
--   takes from the counter is added to the record and the other way round. "*forget" takes off the record only
-- Returns: "done gone" if the holder is not on record (any more), or what the record of this batch has instead; else
--   nothing, it goes on with the next part, whose answer has "held:<permits on record>" behind the results. It
--   defines `holders` for batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, by envelope.lua
-- Invariant: a step on record leaves the sum of counter and record as it is, but "*forget"; nothing is given back that
--   is not on record

local opens = table.remove(ARGV) == '1'
local id = table.remove(ARGV)
local name = opens and table.remove(ARGV)
local time_out = opens and table.remove(ARGV)
local alive = opens and table.remove(KEYS)
local held = table.remove(KEYS)
LINE, NOTES = KEYS[4], KEYS[5]
local entry = redis.pcall('HGET', held, id)
local held_before, about
if type(entry) == 'string' then done_elsewhere = string.match(entry, '\n(%d+) ') end
if type(entry) == 'table' then
  refusal = 'refused ' .. entry.err
else
  held_before, about = string.match(entry or '', '^(%d+)( [^\n]*)')
  if not held_before and not (opens and not entry) then refusal = 'done gone' end
end
if refusal then return on_record(refusal) or refusal end
held_before = (held_before or 0) + 0
holders = { held = held_before }

-- What `count` calls of this kind are to the counter, and whether they are about permits on record.
holders.begin = function(kind, amount, count)
  if string.byte(kind) ~= 42 then return kind, count, false end
  kind = string.sub(kind, 2)
  if kind == 'forget' then
    holders.held = holders.held - amount * math.min(count, math.floor(holders.held / amount))
    return 'available', count, false
  elseif kind == 'release' then
    count = math.min(count, math.floor(holders.held / amount))
  end
  return kind, count, true
end

-- What writes it down.
holders.write = function(changes)
  if holders.held == held_before then return end
  local undo = { 'HDEL', held, id }
  if entry then
    undo = { 'HSET', held, id, entry }
  else
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    about = string.format(' %.0f %s', now, name)
    changes[1] = { 'ZADD', alive, string.format('%.0f', now + time_out), id, undo = { 'ZREM', alive, id } }
  end
  changes[#changes + 1] = { 'HSET', held, id, holders.held .. about, undo = undo }
end
