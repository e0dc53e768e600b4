-- Purpose: carries out the calls of one client on one semaphore or lock of the recipes, in order; then serves the queue
-- Counterpart: extension; the last part of the scripts
-- ARGV[1..] those of the parts before; from the eleventh on steps of three words. Entries are given without the client's id
--   confirm (entry, its arrival), leave (entry, -)
--   take: ticket, kind, limit, ms that it lasts; five words; past those that wait, where something is left
--   release (id, -); refresh (id, ms that it lasts); back (ticket, -): what was taken under it
--   list (where the page before has ended, "0" for the first, -)    clear
--   wait, as queue.lua has it: a limit; behind the life the ms that it lasts
--   check: the queue is kept, and its first client can be notified
-- Returns: as finish.lua has it. Of a step: 1 or 0; "<how many>:<last slot>:1"; "locked": by a
--   peer; of a refresh one more than the slot, or 0: it does not hold; how many were cleared; of a list where the page
--   ends ("0": it is the last), and behind a semicolon each id, ms left (-1: for ever) and slot (0: none). A text that is no word
--   is "=" and hexadecimal digits. Or "unreadable units <score>", "refused <error>"
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: permits go to callers that wait in the order of their arrival, before those that only try

-- The entries of this client that were served; whether permits have come back.
local own, come_back = {}, false

-- A text as one word of the answer.
local function word(text)
  if text ~= '' and not string.find(text, '[^%w:_.-]') then return text end
  return '=' .. string.gsub(text, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
end

local function list(from)
  local page = store.list(from)
  for i = 2, #page do page[i] = string.format('%s,%.0f,%d', word(page[i][1]), page[i][2], page[i][3]) end
  return table.concat(page, ';')
end

local function serve_queue(passed)
  for _, entry in ipairs(waiting > 0 and not left_until and serve(passed) or {}) do own[#own + 1] = entry end
end

local function try(ticket, kind, limit, lasts)
  serve_queue(0)
  if lock_left() then return 'locked' end
  if left_until or not fits(limit) then return 0 end
  take(entry_for(kind, ticket, limit, '0:' .. lasts), nil, nil, true)
  return '1:' .. last_slot .. ':1'
end

local function wait_for(limit, i)
  local done = wait(i, limit, '')
  if waiting > 0 then note_limit(limit) end
  return done > 0 and done .. ':' .. last_slot .. ':1' or 0
end

-- Carries the step at `i` out: its result, and where the next one is.
local function step(i)
  local kind, text, second = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if kind == 'confirm' then return confirm(entry_of(text), second + 0), i + 3 end
  if kind == 'leave' then
    local back = leave(entry_of(text))
    come_back = come_back or back > 0
    return back, i + 3
  end
  if kind == 'take' then return try(text + 0, second, ARGV[i + 3] + 0, ARGV[i + 4]), i + 5 end
  if kind == 'wait' then return wait_for(text + 0, i), i + 9 end
  local result = 1
  if kind == 'release' then
    result = store.drop(text) and 1 or 0
  elseif kind == 'refresh' then
    local slot = store.renew(text, second + 0)
    result = slot and 1 + slot or 0
  elseif kind == 'back' then
    result = store.drop(id_of(CLIENT, text)) and 1 or 0
  elseif kind == 'list' then
    result = list(text)
  elseif kind == 'clear' then
    result = store.clear()
  elseif kind == 'check' then
    check_first()
  end
  if kind == 'release' or kind == 'back' or kind == 'clear' then come_back = come_back or result > 0 end
  return result, i + 3
end

local function work()
  local refusal = store.open()
  if refusal then return refusal end
  open_queue()
  open_grants()
  open_first()
  reclaim()
  look_for_peers()
  local results, i = {}, 11
  while ARGV[i] do results[#results + 1], i = step(i) end
  if come_back then leave_to_peers() end
  serve_queue(PASSED)
  store.settle()
  local ends = first_end and redis.call('ZRANGE', GRANTS, 0, 0, 'WITHSCORES')[2]
  local answer = finish(results, own, false, false, nil, tonumber(ends))
  -- Signs of peers outlast a moment without waiters.
  if waiting == 0 and noted then redis.call('PEXPIRE', NOTES, 500) end
  return answer
end

return once(work, notify)
