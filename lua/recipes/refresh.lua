-- Purpose: refreshes holders of one semaphore with ids, for one client
-- Counterpart: extension: the last part of a script behind setting.lua and the part that keeps the holders, `store`, whose
--   keys are where they are in batch.lua's
-- ARGV[1] limit
-- ARGV[2] how long each lasts from now on, in milliseconds
-- ARGV[3] flags: those of setting.lua
-- ARGV[4] how long a holder lasts, in milliseconds, where each lasts as long as the others; else how long one from now on
--   that has no expiry
-- ARGV[5..] their ids
-- Returns: a digit for each: 1 if it is held, and lasts so long at least, 0 if it is not; "units <score>" for a time in
--   other units
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: nothing is left of what is not held; what is held lasts no shorter than before

local setting = setting_of(ARGV[1], ARGV[4], ARGV[3])
local refusal = store.open(setting)
if refusal then return refusal end
local ids, lasting = { unpack(ARGV, 5) }, {}
for i = 1, #ids do lasting[i] = ARGV[2] end
local held = store.refresh(setting, ids, lasting)
for i = 1, #ids do held[i] = held[i] and '1' or '0' end
return table.concat(held)
