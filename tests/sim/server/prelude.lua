-- What a script sees of its server besides Lua itself; put together around `raw`, which carries a command out, and
-- `line`, which tells where the script is. Returns how to run a script, and what its globals are.
local raw, line, digest, pack, unpack_struct = ...
local error, next, native_pcall, pcall_with, rawget, select, setmetatable, tostring, type =
  error, next, pcall, xpcall, rawget, select, setmetatable, tostring, type
local format = string.format

-- The arguments with each number as the text that Redis makes of it.
local function exactly(...)
  local arguments, count = { ... }, select('#', ...)
  for i = 1, count do
    if type(arguments[i]) == 'number' then arguments[i] = format('%.17g', arguments[i]) end
  end
  return unpack(arguments, 1, count)
end

local function carry_out(...)
  local state, reply = raw(...)
  -- A zero may have a sign, which only Lua can see.
  if state == 'sign' then return raw(exactly(...)) end
  return state, reply
end

local redis = { LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3 }

function redis.call(...)
  local state, reply = carry_out(...)
  if state == 'error' then error({ err = reply, ignore_error_stats_update = true }) end
  return reply
end

function redis.pcall(...)
  local state, reply = carry_out(...)
  if state == 'error' then return { err = reply, ignore_error_stats_update = true } end
  return reply
end

local function single_text(field, ...)
  if select('#', ...) ~= 1 or type(...) ~= 'string' then
    return { err = 'ERR wrong number or type of arguments' }
  end
  return { [field] = (...) }
end

function redis.status_reply(...) return single_text('ok', ...) end

function redis.error_reply(...)
  local reply = single_text('err', ...)
  if select('#', ...) ~= 1 or type(...) ~= 'string' then return reply end
  local text = string.gsub(string.gsub((...), '^[\r\n]+', ''), '[\r\n]+$', '')
  if string.sub(text, 1, 1) ~= '-' then
    text = 'ERR ' .. text
    local code, rest = string.match((...), '^(%S+) (.*)$')
    if code then text = code .. ' ' .. rest end
  else
    local code, rest = string.match(text, '^%-(%S*) (.*)$')
    text = code and code .. ' ' .. rest or 'ERR ' .. string.sub(text, 2)
  end
  reply.err = text
  return reply
end

function redis.sha1hex(...)
  if select('#', ...) ~= 1 then error({ err = 'ERR wrong number of arguments' }) end
  return digest(tostring((...)))
end

function redis.log() end

local struct = {}

local function checked(fine, ...)
  if not fine then error((...), 3) end
  return ...
end

function struct.pack(...) return checked(pack(...)) end
function struct.unpack(...) return checked(unpack_struct(...)) end

-- As Redis has it: of an error that is a table only the text is left.
local function caught(done, ...)
  if done then return true, ... end
  local problem = ...
  if type(problem) == 'table' then
    local text = rawget(problem, 'err')
    if type(text) == 'string' or type(text) == 'number' then return false, text end
  elseif type(problem) == 'userdata' then
    error(problem, 0)
  end
  return false, problem
end

local globals = { redis = redis, struct = struct, _VERSION = _VERSION }
for _, name in ipairs({
  'assert', 'collectgarbage', 'coroutine', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'load', 'loadstring', 'math',
  'next', 'pairs', 'rawequal', 'rawget', 'rawset', 'select', 'setmetatable', 'string', 'table', 'tonumber', 'tostring',
  'type', 'unpack', 'xpcall',
}) do
  globals[name] = _G[name]
end

function globals.pcall(...) return caught(native_pcall(...)) end

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

local sandbox = setmetatable({}, {
  __index = globals,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})
globals._G = sandbox

local function describe(problem)
  if type(problem) ~= 'table' then problem = { err = 'ERR ' .. tostring(problem) } end
  problem.line = line()
  return problem
end

-- Runs a script: whether it went well, and what it returned or the error.
local function run(script, keys, arguments)
  globals.KEYS, globals.ARGV = keys, arguments
  return pcall_with(script, describe)
end

return run, sandbox
