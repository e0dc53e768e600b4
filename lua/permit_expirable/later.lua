-- Purpose: when a permit ends that is renewed now; one whose time is over stays so
-- Counterpart: extension (a watchdog for RPermitExpirableSemaphore); the part before queue/renew.lua
-- ARGV[1] lease in milliseconds
-- Returns: nothing by itself; it defines `later`, which returns when, in milliseconds since 1970; nothing of one whose time is over
-- Publishes: nothing
-- Repeat-safe: yes, it changes nothing
-- Invariant: nothing is changed

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = string.format('%.0f', now + ARGV[1])
local function later(score) return score > now and ends end

