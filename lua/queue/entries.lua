-- Purpose: the entries of waiting callers, and notes beside them; see src/queue/mod.rs
-- Counterpart: extension; the part behind queue/record.lua
-- KEYS[4] queue: zset, entry -> arrival in microseconds of the server's clock. An entry is
--   "<client>:<kind><ticket>:<amount>:<life of its grant in ms>", and more behind that, by the primitive
-- KEYS[6] notes: hash, "look" -> "<time> <client>": until then the client looks whether something has run out; "block" -> "<from> <until>" an
--   entry has blocked those behind it; "lent" -> "<client> <when its first grant ends that it has not confirmed> ...", where grants end by themselves; and those of jvms.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[5] this client's id
-- ARGV[8] for how many milliseconds queue and notes are kept without use
-- Returns: nothing by itself. It defines `now`, `parse`, `entry_for`, `open_queue`, `note`, `drop`, `drop_all`, `lend`, `open_lent`, `close_lent`, `enter`, `message`,
--   `notify`
-- Publishes: to the queue's name, ":" and a client's id: "grant <kind><ticket> <now in microseconds>", and what `take` adds; "none <kind><ticket>"
--   where it cannot be granted: it has left the queue; "gone" where its entries have left the queue
-- Repeat-safe: yes, by record.lua
-- Invariant: queue and notes have a time to live

local QUEUE, NOTES, CLIENT, KEPT = KEYS[4], KEYS[6], ARGV[5], ARGV[8]

-- The server's clock in microseconds, where it has been asked.
local clock

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
  return string.format('%s:%s%.0f:%s:%s', CLIENT, kind, ticket, amount, life)
end
local function parse(entry)
  local kind, ticket, amount, life = string.match(entry, '^[^:]+:(%l)(%d+):(%d+):(%d+)')
  return kind, ticket, tonumber(amount), tonumber(life)
end

-- How many entries there are; how many callers this script has served; whether the queue is kept; the notifications of those that were
-- granted something.
local waiting, served, kept, messages = 0, 0, false, {}
-- The note of the client that looks, and the client that listens to JVMs, where these have been read; whether a note was written.
local looks, watcher, noted
-- By client, when the first of its grants ends that were made since its last script; whether that has changed.
local lent, lent_changed = {}, false
-- Until when an entry blocks those behind it; and the note of the last one that did so, from when to when. Where the order is `strict` it always
-- does.
local block_end, block, strict

local function open_queue() waiting = heal('ZCARD', QUEUE) end

local function note(...)
  ordered = true
  heal('HSET', NOTES, ...)
  if not noted then redis.call('PEXPIRE', NOTES, KEPT) end
  noted = true
end

local function drop(entry) waiting = waiting - change_order('ZREM', QUEUE, entry) end
local function message(client, text) messages[#messages + 1] = { ARGV[1], QUEUE .. ':' .. client, text } end
local function notify()
  for _, command in ipairs(messages) do redis.call(unpack(command)) end
end
-- Removes the entries of these clients, and notifies the clients. None of them listens to JVMs any more.
local function drop_all(gone)
  if next(gone) and gone[heal('HGET', NOTES, 'watch')] then
    redis.call('HDEL', NOTES, 'watch')
    watcher = nil
  end
  for _, entry in ipairs(waiting > 0 and redis.call('ZRANGE', QUEUE, 0, -1) or {}) do
    if gone[client_of(entry)] then drop(entry) end
  end
  for client, others in pairs(gone) do
    if others then message(client, 'gone') end
  end
end
-- `client` is granted something for `life` milliseconds, by a message.
local function lend(client, life)
  local ends = now() + life * 1000
  if ends < (lent[client] or math.huge) then lent[client], lent_changed = ends, true end
end
-- Reads the note of such clients. One that has let a grant run out leaves the queue, and queues again when it speaks.
local function open_lent(text)
  local gone = {}
  for client, ends in string.gmatch(text or '', '(%S+) (%d+)') do
    if client ~= CLIENT and ends + 0 > now() then
      lent[client] = ends + 0
    else
      lent_changed, gone[client] = true, client ~= CLIENT or nil
    end
  end
  drop_all(gone)
end
local function close_lent()
  if not lent_changed then return end
  local words = {}
  for client, ends in pairs(waiting > 0 and lent or {}) do words[#words + 1] = client .. ' ' .. score(ends) end
  if words[1] then note('lent', table.concat(words, ' ')) else redis.call('HDEL', NOTES, 'lent') end
end
local function enter(entry, arrival)
  waiting = waiting + change_order('ZADD', QUEUE, 'NX', score(arrival), entry)
  if not kept then redis.call('PEXPIRE', QUEUE, KEPT) end
  kept = true
end
