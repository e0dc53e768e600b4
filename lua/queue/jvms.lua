-- Purpose: leaves JVMs their share of the permits, as they do not stand in the queue; and one client listens to their channel
--   In the notes stand "watch" -> that client, and the account of the JVMs: "left" -> the counter as the last script left it,
--   "credit" -> how many permits they are behind, "until" -> until when what is left to them stays, "stay" -> how long that
--   is, "taken" -> how many they have taken since it began. Behind a stay in which they take none there is a pause, ten times as
--   long. Behind one in which they take fewer than there are, their credit is what they took: they use no more at a time
-- Counterpart: extension; the part behind queue/queue.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[9] how many releases of JVMs this client has been notified of
-- ARGV[10] how many callers this client has served without Redis
-- Returns: nothing by itself. It defines `count_jvms`, `open_account`, `close_account`, `choose_watcher`, `queue_step`
-- Publishes: "watch" to the client that is chosen; the permits left to JVMs as announce.lua has it
-- Repeat-safe: yes, by record.lua
-- Invariant: the account moves no permits; it only keeps some for a while

local STAY, LONGEST_STAY, PAUSES, MOST_CREDIT = 10000, 80000, 10, 64

-- JVMs that listen; -1 where that was not asked.
local jvms = -1
local account, has_notes
-- This client has watched until now: its subscription may last a moment longer.
local unwatches

local function count_jvms() return math.max(0, count_listeners(CHANNEL) - ((watcher or unwatches) and 1 or 0)) end

local function open_account()
  if waiting == 0 and redis.call('EXISTS', NOTES) == 0 then return end
  has_notes = true
  local notes = heal('HMGET', NOTES, 'watch', 'left', 'credit', 'until', 'stay', 'taken', 'look', 'block', 'lent')
  watcher, looks, block = notes[1], notes[7], notes[8]
  open_lent(notes[9])
  jvms = count_jvms()
  if jvms == 0 then
    if notes[2] then redis.call('HDEL', NOTES, 'left', 'credit', 'until', 'stay', 'taken') end
    return
  end
  account = { credit = tonumber(notes[3]) or 0, ends = tonumber(notes[4]), stay = tonumber(notes[5]) or STAY }
  -- Each release of a JVM was an acquisition before; the others show in the counter.
  local taken = (tonumber(notes[2]) or before) - before + ARGV[9]
  account.credit, account.taken = account.credit - taken, (tonumber(notes[6]) or 0) + taken
  if account.ends and account.ends <= now() then
    if account.taken > 0 then
      account.credit, account.stay = math.min(account.credit, account.taken), math.max(STAY, account.stay / 2)
    elseif now() <= account.ends + PAUSES * account.stay then
      -- Nobody has taken it: the JVMs are far away, or want more at a time. The credit grows on in the pause.
      return
    else
      account.stay = math.min(LONGEST_STAY, account.stay * 2)
    end
    account.ends = nil
  end
  reserved = math.max(0, math.floor(account.credit))
end

local function clients_queued()
  local seen, count = { [CLIENT] = true }, 1
  for _, entry in ipairs(redis.call('ZRANGE', QUEUE, 0, 63)) do
    local client = client_of(entry)
    if not seen[client] then seen[client], count = true, count + 1 end
  end
  return count
end

-- How many permits are left to JVMs.
local function close_account()
  if not account then return 0 end
  local credit = account.credit + (served + ARGV[10]) * jvms / clients_queued()
  credit = math.max(-MOST_CREDIT, math.min(MOST_CREDIT, credit))
  local left = math.min(reserved, math.max(0, total))
  if left == 0 and account.taken > 0 then account.ends = nil end
  if left > 0 and not account.ends then account.ends, account.taken = now() + account.stay, 0 end
  note('left', total, 'credit', string.format('%.3f', credit), 'stay', account.stay, 'taken', account.taken, 'until',
    account.ends and score(account.ends) or '')
  return left
end

-- Chooses the client that listens to JVMs from now on, where there is none: the first in the queue. Clients that cannot be notified leave the
-- queue, and return when they can. Returns whether it is this one.
local function choose_watcher()
  if waiting > 0 and not watcher then watcher = heal('HGET', NOTES, 'watch') end
  if watcher then return watcher == CLIENT end
  local deaf = {}
  while waiting > 0 do
    local entry = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local client = client_of(entry)
    local own, mine = QUEUE .. ':' .. client, client == CLIENT
    if not deaf[client] and (mine and count_listeners(own) or redis.call(ARGV[1], own, 'watch')) ~= 0 then
      note('watch', client)
      return mine
    end
    if mine then break end
    deaf[client] = true
    drop(entry)
  end
  return false
end

-- A watcher that cannot be notified watches no more. The queue is kept.
local function check_watcher()
  redis.call('PEXPIRE', QUEUE, KEPT)
  if watcher and watcher ~= CLIENT and count_listeners(QUEUE .. ':' .. watcher) == 0 then
    redis.call('HDEL', NOTES, 'watch')
    watcher = nil
  end
end

local function unwatch()
  watcher = watcher or heal('HGET', NOTES, 'watch')
  if watcher ~= CLIENT then return end
  redis.call('HDEL', NOTES, 'watch')
  watcher, unwatches = nil, true
end

-- Carries a step out that all primitives with a queue have: its result.
local function queue_step(kind, what, number)
  if kind == 'extend' then return extend(entry_of(what), number) end
  if kind == 'leave' then return leave(entry_of(what), number) end
  if kind == 'check' then check_watcher() elseif kind == 'unwatch' then unwatch() end
  return 1
end
