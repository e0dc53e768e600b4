-- Purpose: lets callers wait in the queue, and serves it; see src/queue/mod.rs
-- Counterpart: extension; the part behind queue/entries.lua and the primitive's. The primitive's parts define `free`, `fits` and `take`
-- ARGV[11..] steps, of which it knows
--   wait: what is wanted, how many callers, kind, first ticket, us that the first has waited, arrival of the client's last caller, life of a
--   grant in ms and what stands behind that in the entry, how many may queue; nine words
--   pass: where it is the only step, so many entries were passed by the last script, and are not looked at
--   apart: the last step; the batch is repeated until replicas have it, so its answer has no grant for this client
-- Returns: nothing by itself. It defines `PASSED`, `wait`, `serve`, `first_foreign`, `look_in`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: no caller is served before earlier ones, unless these want more than there is

local PASSED, APART = ARGV[11] == 'pass' and not ARGV[14] and ARGV[12] + 0 or 0, ARGV[#ARGV - 2] == 'apart'
local MOST_PASSED, LATER, DAY = 1024, 1000000, 86400000000
-- How many entries were passed, where more of them are behind.
local passed_all

-- The earliest arrival of the next caller that this script queues.
local next_arrival = 0

-- Takes `amount` for callers that came one after the other, as the step at `i` says it, behind the client's last one and those that this
-- script has queued, or `ahead` of all; queues those that it does not suffice for. `tail` stands in their entries. How many have got it.
local function wait(i, amount, tail, ahead)
  local kind, count, ticket, life = ARGV[i + 3], ARGV[i + 2] + 0, ARGV[i + 4] + 0, ARGV[i + 7]
  local head = waiting > 0 and redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')[2]
  local arrival, done = ahead and 0 or math.max(now() - ARGV[i + 5], ARGV[i + 6], next_arrival), 0
  if not head or head + 0 > arrival then
    while done < count and fits(amount, kind) and take(entry_for(kind, ticket + done, amount, life) .. tail, amount, life, true) do
      done = done + 1
    end
  end
  for place = done, math.min(count, done + ARGV[i + 8]) - 1 do
    enter(entry_for(kind, ticket + place, amount, life) .. tail, arrival + place)
    next_arrival = arrival + place + 1
  end
  served = served + done
  return done
end

-- The last time at which an entry that came at `arrival` begins to block those behind it, and when that ends: when it has waited for
-- 1/4 s, for half as long as that; the same at 1 s, at 4 s, and so on; for 20 s at the most.
local function window(arrival)
  -- It is endless where another program has written the arrival.
  local waited, from = math.min(now() - arrival, DAY), 250000
  while from * 4 <= waited do from = from * 4 end
  return arrival + from, arrival + from + math.min(from / 2, 20000000)
end

-- Whether it blocks now. When it was not served, no entry blocks for twice as long. Windows are compared by their ends.
local function blocks(arrival)
  local from, ends = window(arrival)
  if now() < from or now() >= ends then return false end
  local began, ended = string.match(block or '', '^(%d+) (%d+)$')
  if ended ~= score(ends) then
    if ended and now() < ended + 2 * (ended - began) then return false end
    block = score(now()) .. ' ' .. score(ends)
    note('block', block)
  end
  block_end = ends
  return true
end

-- The entry that came at `arrival` is served: if it has blocked others, it is noted that something came of that.
local function blocks_no_more(arrival)
  local _, ends = window(arrival)
  if string.match(block or '', '%d+$') ~= score(ends) then return end
  block = ''
  note('block', block)
end

-- Grants what is free to the first entries behind the first `passed` ones that it suffices for. Those of this client, which has them by
-- the answer; "-" stands before those that cannot be granted.
local function serve(passed)
  local own, gone, size, most = {}, {}, 2, passed + MOST_PASSED
  while waiting > passed and free() do
    if passed >= most then
      passed_all = passed
      break
    end
    local page = redis.call('ZRANGE', QUEUE, passed, passed + size - 1, 'WITHSCORES')
    if not page[1] then return own end
    size = math.min(64, 2 * size)
    for i = 1, #page, 2 do
      local entry, client = page[i], client_of(page[i])
      local kind, ticket, amount, life = parse(entry)
      if not free() then return own end
      if gone[client] == nil then gone[client] = client ~= CLIENT and count_listeners(QUEUE .. ':' .. client) == 0 end
      if not kind or gone[client] then
        drop(entry)
      elseif fits(amount, kind) and APART and client == CLIENT then
        return own
      elseif fits(amount, kind) then
        drop(entry)
        local mine = client == CLIENT
        local more = take(entry, amount, life, mine)
        if not mine then
          message(client, more and 'grant ' .. kind .. ticket .. ' ' .. score(now()) .. more or 'none ' .. kind .. ticket)
        else
          own[#own + 1] = more and string.match(entry, '^[^:]+:(%l%d+:%d+:%d+)') .. more or '-' .. ticket
        end
        if more then served = served + 1 end
        if more and block then blocks_no_more(page[i + 1] + 0) end
      elseif strict or blocks(page[i + 1] + 0) then
        return own
      else
        passed = passed + 1
      end
    end
  end
  return own
end

-- How long the first entry of another client has waited, in microseconds; -1 where there is none.
local function first_foreign()
  local from, size = 0, 1
  while waiting > from do
    local page = redis.call('ZRANGE', QUEUE, from, from + size - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      if client_of(page[i]) ~= CLIENT then return math.max(0, now() - page[i + 1]) end
    end
    from, size = from + size, 64
  end
  return -1
end

-- In how many microseconds this client is to look again, as something ends at `ends`; -1: it need not. One client looks after what ends
-- soon, and after the entry that blocks. Below -1: at once, as more entries than so many are behind those that were passed.
local function look_in(ends)
  if passed_all then return -1 - passed_all end
  if not ends then return -1 end
  local left = math.max(0, ends - now())
  if left >= LATER and ends ~= block_end then return left end
  local time, client = string.match(looks or looks == nil and heal('HGET', NOTES, 'look') or '', '^(%d+) (.+)$')
  time = tonumber(time)
  if time and client ~= CLIENT and time >= now() and time <= ends + 50000 then return -1 end
  note('look', score(ends) .. ' ' .. CLIENT)
  return left
end
