-- The environment of a script besides Lua itself. It is built from `call` and `protected_call`, which carry a
-- command out, `line`, which says where the script is, and `refusal`, which reads an error that `call` throws.
-- Returns a function that compiles a script, and a function that runs one.
local call, protected_call, line, refusal, digest, pack = ...
local error, loadstring, native_pcall, pcall_with, rawget, select, setfenv, setmetatable, tostring, type =
  error, loadstring, pcall, xpcall, rawget, select, setfenv, setmetatable, tostring, type
local string_match, string_sub = string.match, string.sub

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3, call = call, pcall = protected_call,
}

local function single_text(field, ...)
  if select('#', ...) ~= 1 or type(...) ~= 'string' then
    return { err = 'ERR wrong number or type of arguments' }
  end
  return { [field] = (...) }
end

function redis.status_reply(...) return single_text('ok', ...) end

function redis.error_reply(...)
  local reply = single_text('err', ...)
  if not rawget(reply, 'err') or select('#', ...) ~= 1 or type(...) ~= 'string' then return reply end
  local text = string_match(reply.err, '^[\r\n]*(.-)[\r\n]*$')
  -- After a dash the first word is a code. A single word never is a code.
  local rest = string_sub(text, 1, 1) == '-' and string_sub(text, 2) or text
  reply.err = string_match(rest, ' ') and rest or 'ERR ' .. rest
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

-- As in Redis, only the text is left of an error that is a table.
local function caught(done, ...)
  if done then return true, ... end
  local problem = ...
  if type(problem) == 'table' then
    local text = rawget(problem, 'err')
    if type(text) == 'string' or type(text) == 'number' then return false, text end
  elseif type(problem) == 'userdata' then
    return false, refusal(problem)
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
  if type(problem) == 'userdata' then
    problem = { err = refusal(problem) }
  elseif type(problem) ~= 'table' then problem = { err = 'ERR ' .. tostring(problem) } end
  problem.line = line()
  return problem
end

-- Runs a script. Returns whether the script succeeded, and its result or its error.
local function run(script, keys, arguments)
  globals.KEYS, globals.ARGV = keys, arguments
  return pcall_with(script, describe)
end

-- Compiles a script to a function. Returns nothing and the reason if this fails.
local function compile(source)
  local script, problem = loadstring(source, '@user_script')
  if script then setfenv(script, sandbox) end
  return script, problem
end

return compile, run
