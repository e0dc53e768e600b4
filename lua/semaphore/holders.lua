-- Purpose: keeps on record how many permits the guards of this client hold, so that they come back when its process
--   dies; see reclaim.lua
-- Counterpart: extension: a part behind counter.lua, only in the script of clients that are watched
-- KEYS[1..] keys: those of batch.lua, and one that is taken off behind them: held, a hash, holder -> "<permits> <since
--   when, in milliseconds since 1970> <the client's name>", and what held.lua puts into a second line. Where the holder is to be put on record there is another one:
--   alive, a zset, holder -> until when it is believed alive. Without them (a question) nothing is done here
-- ARGV[1..] those of batch.lua, and behind them two that are taken off: the holder, under which this client's permits
--   are on record; "1" if it is to be put on record where it is not. Then two stand before them: for how many milliseconds it is
--   believed alive from then on, and the client's name. A step whose kind begins with "*" is about permits on record: what it
--   takes from the counter is added to the record and the other way round. "*forget" takes off the record only
-- Returns: "done gone" if the holder is not on record (any more), or what the record of this batch has instead; else
--   nothing, it goes on with the next part, whose answer has "held:<permits on record>" behind the results. It
--   defines `holders` for batch.lua
-- Publishes: nothing
-- Repeat-safe: yes, batch.lua keeps a record
-- Invariant: a step on record leaves the sum of counter and record as it is, but "*forget"; nothing is given back that
--   is not on record

if #KEYS > 3 then
  local opens = table.remove(ARGV) == '1'
  local id = table.remove(ARGV)
  local name = opens and table.remove(ARGV)
  local time_out = opens and table.remove(ARGV)
  local alive = opens and table.remove(KEYS)
  local held = table.remove(KEYS)
  local floor, min, sub, byte = math.floor, math.min, string.sub, string.byte
  local entry = redis.pcall('HGET', held, id)
  local before_it, rest, refused
  if type(entry) == 'table' then
    refused = 'refused ' .. entry.err
  else
    before_it, rest = string.match(entry or '', '^(%d+)( [^\n]*)')
    if not before_it and not (opens and not entry) then refused = 'done gone' end
  end
  if refused then
    local earlier
    if ARGV[4] ~= '0' then earlier = select(2, record(refused)) end
    return earlier or refused
  end
  local on_record = (before_it or 0) + 0
  holders = { held = on_record }

  -- What `count` calls of this kind are to the counter, and whether they are about permits on record.
  holders.begin = function(kind, amount, count)
    if byte(kind) ~= 42 then return kind, count, false end
    kind = sub(kind, 2)
    if kind == 'forget' then
      holders.held = holders.held - amount * min(count, floor(holders.held / amount))
      return 'available', count, false
    elseif kind == 'release' then
      count = min(count, floor(holders.held / amount))
    end
    return kind, count, true
  end

  holders.changed = function()
    return holders.held ~= on_record
  end

  -- Writes it down; the error if that is not possible.
  holders.write = function()
    if not rest then
      local time = redis.call('TIME')
      local now = time[1] * 1000 + floor(time[2] / 1000)
      rest = string.format(' %.0f %s', now, name)
      local added = redis.pcall('ZADD', alive, string.format('%.0f', now + time_out), id)
      if type(added) == 'table' then return added end
    end
    local written = redis.pcall('HSET', held, id, holders.held .. rest)
    return type(written) == 'table' and written
  end

  holders.undo = function()
    if entry then
      redis.pcall('HSET', held, id, entry)
    else
      redis.pcall('HDEL', held, id)
      redis.pcall('ZREM', alive, id)
    end
  end
end
