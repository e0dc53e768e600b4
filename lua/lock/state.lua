-- Purpose: looks whether a lock is free, where turns are kept, and says by what names lua/semaphore/turns.lua goes, to which it is a
--   semaphore of one permit
-- Counterpart: extension: the part of the script behind queue/announce.lua, and before engine/line.lua, turns.lua and batch.lua
-- KEYS[1..] keys: those of batch.lua
-- Returns: nothing by itself; it defines `CHANNEL`, `CLIENT`, this client's id, `FIRST`, where the steps begin, and, where turns are
--   kept, `LINE`, `NOTES`, and `before`: 1 if the lock is free, else 0
-- Publishes: nothing
-- Repeat-safe: yes, it only reads
-- Invariant: nothing is changed

local CHANNEL, CLIENT, FIRST, LINE, NOTES = KEYS[2], string.sub(KEYS[3], -36), 6, nil, nil
if #KEYS > 4 then LINE, NOTES = KEYS[4], KEYS[5] end
local before = LINE and 1 - redis.call('EXISTS', KEYS[1]) or 0
