-- Purpose: looks at the counter of a semaphore whose permits have ids, and says by what names lua/semaphore/turns.lua goes, as that
--   is the same for both kinds of semaphores
-- Counterpart: extension: the part of the script behind envelope.lua, and before line.lua, turns.lua and steps.lua
-- KEYS[1..] keys: those of envelope.lua; where turns are kept, the line and its notes follow
-- Returns: nothing by itself; it defines `text` and `before`, the counter as it stands in Redis, or an error, and as a number, 0
--   for none; `PERMITS`, `CLIENT`, this client's id, and, where turns are kept, `LINE` and `NOTES`
-- Publishes: nothing
-- Repeat-safe: yes, it only reads
-- Invariant: nothing is changed

local PERMITS, LINE, NOTES, CLIENT = KEYS[4], KEYS[5], KEYS[6], string.sub(KEYS[1], -36)
local text = redis.pcall('GET', OBJECT)
local before = type(text) == 'string' and tonumber(text) or 0
