-- Purpose: the queue of waiting callers, which the script that frees something serves; see src/queue/mod.rs
-- Counterpart: extension. The primitive's part before it defines `free`, `fits`, `take` and `take_back`
-- KEYS[4] queue: zset, entry -> arrival in microseconds of the server's clock. An entry is
--   "<client>:<kind><ticket>:<amount>:<life of its grant in ms>", and what the client adds; the kind is "g" for what is held under a lease
-- KEYS[5] grants: zset, entry -> until when it is granted, in the same unit
-- KEYS[6] notes: hash, "look" -> "<time> <client>": until then the client looks whether grants have run out; "block" -> "<from> <until>" an
--   entry has blocked those behind it
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[5] this client's id
-- ARGV[6] lease of what is held from now on, in milliseconds
-- ARGV[7] what this client adds to the entries of what it holds under a lease
-- ARGV[8] for how many milliseconds queue and notes are kept without use
-- Returns: nothing by itself. It defines `open_queue`, `wait`, `confirm`, `leave`, `extend`, `reclaim`, `serve`, `first_foreign`, `look_in`,
--   `notify`
-- Publishes: "grant <kind><ticket> <now in microseconds>" to the queue's name, ":" and the client's id; "gone" to a client whose entries
--   have left the queue
-- Repeat-safe: yes, by record.lua
-- Invariant: what is taken stands in the grants, or its caller is told by the answer

local QUEUE, GRANTS, NOTES, CLIENT, LEASE, KEPT = KEYS[4], KEYS[5], KEYS[6], ARGV[5], ARGV[6] * 1000, ARGV[8]
local LEASED = 'g'
local MOST_PASSED, SOON, DAY = 1024, 1000000, 86400000000

local function now()
  if not clock then
    local time = redis.call('TIME')
    clock = time[1] * 1000000 + time[2]
  end
  return clock
end

local function score(time) return string.format('%.0f', time) end
local function client_of(entry) return string.sub(entry, 1, 36) end
local function entry_of(text) return CLIENT .. ':' .. text end
local function entry_for(kind, ticket, amount, life)
  return string.format('%s:%s%.0f:%d:%d%s', CLIENT, kind, ticket, amount, life, kind == LEASED and ARGV[7] or '')
end
local function parse(entry)
  local kind, ticket, amount, life = string.match(entry, '^[^:]+:(%l)(%d+):(%d+):(%d+)')
  return kind, ticket, tonumber(amount), tonumber(life)
end

-- How many entries there are; how many callers this script has served; when the first grant ends; whether the queue is kept; the
-- notifications of those that were granted something.
local waiting, granted, first_end, kept, messages = 0, 0, nil, false, {}
-- The note of the client that looks, where it has been read; whether a note was written.
local looks, noted
-- Until when an entry blocks those behind it; and the note of the last one that did so, from when to when.
local block_end, block
-- How many entries were passed, where more of them are behind.
local passed_all

local function open_queue()
  waiting = read('ZCARD', QUEUE)
  first_end = read('ZRANGE', GRANTS, 0, 0, 'WITHSCORES')[2]
end

-- Notes come back by themselves, and all of them go where that is not allowed.
local function note(...)
  change({ 'HSET', NOTES, ... }, 'DEL', NOTES)
  if not noted then redis.call('PEXPIRE', NOTES, KEPT) end
  noted = true
end

local function drop(entry, arrival)
  waiting = waiting - change({ 'ZREM', QUEUE, entry }, unpack(arrival and { 'ZADD', QUEUE, 'NX', arrival, entry } or {}))
end
local function message(client, text) messages[#messages + 1] = { ARGV[1], QUEUE .. ':' .. client, text } end
local function notify()
  for _, command in ipairs(messages) do redis.call(unpack(command)) end
end
local function enter(entry, arrival)
  waiting = waiting + change({ 'ZADD', QUEUE, 'NX', score(arrival), entry }, 'ZREM', QUEUE, entry)
  if not kept then redis.call('PEXPIRE', QUEUE, KEPT) end
  kept = true
end

local function grant(entry, ends)
  change({ 'ZADD', GRANTS, score(ends), entry }, 'ZREM', GRANTS, entry)
end
local function end_grant(entry, ends)
  change({ 'ZREM', GRANTS, entry }, 'ZADD', GRANTS, ends, entry)
end

-- The holder of `entry` has it from now on: under a lease, or for good. `ends`: it was granted until then.
local function hold(entry, ends)
  if parse(entry) ~= LEASED then
    if ends then end_grant(entry, ends) end
  elseif ends then
    change({ 'ZADD', GRANTS, 'XX', score(now() + LEASE), entry }, 'ZADD', GRANTS, 'XX', ends, entry)
  else
    grant(entry, now() + LEASE)
  end
end

-- Takes `amount` for up to `count` callers that came one after the other, the first of them `waited` microseconds ago, and behind
-- the client's caller that came at `behind`; queues up to `room` of those that it does not suffice for. How many have got it.
local function wait(kind, amount, count, ticket, waited, behind, life, room)
  local head = waiting > 0 and redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')[2]
  local served = 0
  if not head or head + 0 > math.max(now() - waited, behind) then
    while served < count and fits(amount) do
      take(amount)
      served = served + 1
    end
  end
  if kind == LEASED then
    for i = 0, served - 1 do hold(entry_for(kind, ticket + i, amount, life)) end
  end
  for i = served, math.min(count, served + room) - 1 do
    enter(entry_for(kind, ticket + i, amount, life), math.max(now() - waited, behind) + i)
  end
  granted = granted + served
  return served
end

-- Whether `entry` is granted still; its holder has it then. If not it waits, since its `arrival`.
local function confirm(entry, arrival)
  local ends = redis.call('ZSCORE', GRANTS, entry)
  if not ends then
    enter(entry, arrival)
    return 0
  end
  hold(entry, ends)
  return 1
end

-- So much of `entry` is not wanted or held any more, and is free where it was granted; unless it `stays` taken.
local function leave(entry, part, stays)
  local ends = redis.call('ZSCORE', GRANTS, entry)
  if not ends then
    if waiting > 0 then drop(entry) end
    return 0
  end
  local refused = not stays and take_back(part)
  if refused then return refused end
  local kind, ticket, amount, life = parse(entry)
  end_grant(entry, ends)
  if part < amount then grant(entry_for(kind, ticket, amount - part, life), ends) end
  return 1
end

-- Puts the end of what is held off; 0 where it is not held any more.
local function extend(entry)
  local ends = redis.call('ZSCORE', GRANTS, entry)
  if ends then hold(entry, ends) end
  return ends and 1 or 0
end

-- Frees what was granted until a time that has passed. A client that has let that happen queues again when it speaks.
local function reclaim()
  if not first_end or first_end + 0 > now() then return end
  local gone, reclaimed = {}, {}
  local over = redis.call('ZRANGEBYSCORE', GRANTS, '-inf', score(now()), 'WITHSCORES', 'LIMIT', 0, MOST_PASSED)
  for i = 1, #over, 2 do
    local entry = over[i]
    local kind, _, amount = parse(entry)
    if kind and take_back(amount) then
      -- It can take no more now.
      change({ 'ZADD', GRANTS, 'XX', score(now() + 60 * SOON), entry })
    else
      end_grant(entry, over[i + 1])
      if kind and not string.find(entry, '[%s,|]') then reclaimed[#reclaimed + 1] = entry end
      gone[client_of(entry)] = client_of(entry) ~= CLIENT
    end
  end
  for _, entry in ipairs(waiting > 0 and redis.call('ZRANGE', QUEUE, 0, -1) or {}) do
    if gone[client_of(entry)] then drop(entry) end
  end
  for client, others in pairs(gone) do
    if others then message(client, 'gone') end
  end
  return reclaimed
end

-- The last time at which an entry that came at `arrival` begins to block those behind it, and when that ends: when it has waited for
-- 1/4 s, for half as long as that; the same at 1 s, at 4 s, and so on; for 20 s at the most.
local function window(arrival)
  -- It is endless where somebody else has written the arrival.
  local waited, from = math.min(now() - arrival, DAY), 250000
  while from * 4 <= waited do from = from * 4 end
  return arrival + from, arrival + from + math.min(from / 2, 20000000)
end

-- Whether it blocks now. When nothing came of that, nobody blocks for twice as long. The end is looked at.
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
-- the answer.
local function serve(passed)
  local own, gone, size, most = {}, {}, 2, passed + MOST_PASSED
  while waiting > passed and free() do
    if passed >= most then
      passed_all = passed
      break
    end
    local page = redis.call('ZRANGE', QUEUE, passed, passed + size - 1, 'WITHSCORES')
    size = math.min(64, 2 * size)
    for i = 1, #page, 2 do
      local entry, client = page[i], client_of(page[i])
      local kind, ticket, amount, life = parse(entry)
      if not free() then return own end
      if gone[client] == nil then gone[client] = client ~= CLIENT and count_listeners(QUEUE .. ':' .. client) == 0 end
      if not kind or gone[client] then
        drop(entry)
      elseif fits(amount) then
        drop(entry, page[i + 1])
        if client ~= CLIENT then
          grant(entry, now() + life * 1000)
          message(client, 'grant ' .. kind .. ticket .. ' ' .. score(now()))
        else
          own[#own + 1] = string.format('%s%s:%d:%d', kind, ticket, amount, life)
          if kind == LEASED then hold(entry) end
        end
        take(amount)
        granted = granted + 1
        if block then blocks_no_more(page[i + 1] + 0) end
      elseif blocks(page[i + 1] + 0) then
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
  if left > SOON and ends ~= block_end then return left end
  local time, client = string.match(looks or looks == nil and read('HGET', NOTES, 'look') or '', '^(%d+) (.+)$')
  time = tonumber(time)
  if time and client ~= CLIENT and time >= now() and time <= ends + 50000 then return -1 end
  note('look', score(ends) .. ' ' .. CLIENT)
  return left
end
