-- Purpose: when a grant ends that is renewed now; it holds as long as its entry is there
-- Counterpart: extension; the part before queue/renew.lua
-- ARGV[1] lease in milliseconds
-- Returns: nothing by itself; it defines `later`, which returns when, in microseconds of the server's clock
-- Publishes: nothing
-- Repeat-safe: yes, it changes nothing
-- Invariant: nothing is changed

local time = redis.call('TIME')
local ends = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[1] * 1000)
local function later() return ends end

