-- Runs a method of a nacre program inside Ceph's class `lua`: Lua 5.3, in an OSD.
--
-- The input is the program's source, the method's name and the method's input, each after its
-- length. In the program's environment, each function either does what it does in nacre or calls
-- `refuse`. After `refuse` the call fails, even if the program catches the error, and the client
-- runs the method itself. So a call that succeeds here did exactly what it does in nacre. A refused
-- call fails with a status of its own: the usual status of a failing script could also come from an
-- OSD that cannot load the class.

local outer = objclass

-- Bounds of nacre that stock Ceph does not have, or has otherwise.
local MAX_KEY, MAX_VALUE = 4096, 1024 * 1024
local MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE, MAX_ATTRIBUTES = 96, 64 * 1024, 256
-- Ceph passes statuses, offsets and lengths as C's `int`, which would keep only the lower bits of a
-- greater number.
local MAX_INT = 2 ^ 31 - 1
-- The longest answer to a change that an OSD allows, in bytes. The OSD treats every call of the
-- class as a change. If a call changes nothing, the OSD keeps the whole answer in its log.
local MAX_OUTPUT = 64
-- `EBADE`, which no OSD says of itself.
local REFUSED = -52
-- Up to here whole numbers are the same in doubles and in 64 bits.
local MAX_WHOLE = 2 ^ 53

local refused, written, read_only = false, false, false

local function refuse()
  refused = true
  error("this is not for stock cls_lua", 0)
end

-- A number as Luau would write it: whole ones without a fraction.
local function whole(number)
  if type(number) ~= "number" then refuse() end
  if math.type(number) ~= "float" then
    if number > MAX_WHOLE or number < -MAX_WHOLE then refuse() end
    return number
  end
  if number ~= math.floor(number) or number >= MAX_WHOLE or number <= -MAX_WHOLE then refuse() end
  return math.tointeger(number)
end

local function normal(value)
  if type(value) == "number" then return whole(value) end
  return value
end

-- The text of a key; bytes 0 and 1 are stored otherwise.
local function key_of(value)
  local key = normal(value)
  if type(key) == "number" then key = tostring(key) end
  if type(key) ~= "string" or #key == 0 or #key > MAX_KEY or key:find("[\0\1]") then refuse() end
  return key
end

local function size_of(value)
  local size = normal(value)
  if math.type(size) ~= "integer" or size < 0 or size > MAX_INT then refuse() end
  return size
end

-- An offset and a length of the byte stream, whose sum must fit as well.
local function range_of(offset, length)
  offset, length = size_of(offset), size_of(length)
  if offset + length > MAX_INT then refuse() end
  return offset, length
end

local function bound_of(value)
  if type(value) ~= "string" or #value > MAX_KEY or value:find("[\0\1]") then refuse() end
  return value
end

-- Reads the object. Refuses after a write, which the read would not see.
local function look(read)
  if written then refuse() end
  return read
end

local function change(write)
  if read_only then refuse() end
  written = true
  return write
end

-- Refuses if a read fails, because it would fail differently in nacre.
local function surely(read, ...)
  local found, first, second = pcall(read, ...)
  if not found then refuse() end
  return first, second
end

-- Returns at most `most` entries after a key; `list` reads them. An OSD limits how many entries it
-- returns, and does not say whether it left some out. So if it returns fewer than `most` entries,
-- this checks that no entry follows the last one.
local function listed(list, after, most)
  local entries = surely(list, after, most)
  local count, last = 0, ""
  for key in pairs(entries) do
    count = count + 1
    if key:find("[\0\1]") then refuse() end
    if key > last then last = key end
  end
  if count > 0 and count < most and next(surely(list, last, 1)) ~= nil then refuse() end
  return entries
end

local given = {}

function given.create(exclusive)
  if exclusive then look() end
  return change(outer.create)(exclusive)
end

function given.stat()
  return surely(look(outer.stat))
end

function given.read(offset, length)
  return surely(look(outer.read), range_of(offset, length))
end

function given.write(offset, length, data)
  offset, length = range_of(offset, length)
  if length ~= #data then refuse() end
  return change(outer.write)(offset, length, data)
end

function given.write_full(data)
  return change(outer.write_full)(data)
end

function given.getxattr(name)
  return surely(look(outer.getxattr), name)
end

function given.setxattr(name, data)
  if type(name) ~= "string" or #name == 0 or #name > MAX_ATTRIBUTE_NAME then refuse() end
  if name:find("^nacre%.") or name:find("\0") or #data > MAX_ATTRIBUTE_VALUE then refuse() end
  local found, all = pcall(outer.getxattrs)
  local count = 0
  for _ in pairs(found and all or {}) do count = count + 1 end
  -- What this call set already is not among them.
  if count >= MAX_ATTRIBUTES // 2 then refuse() end
  return change(outer.setxattr)(name, data)
end

function given.map_get_val(key)
  return look(outer.map_get_val)(key_of(key))
end

function given.map_set_val(key, data)
  if #data > MAX_VALUE then refuse() end
  return change(outer.map_set_val)(key_of(key), data)
end

function given.map_set_vals(values)
  if next(values) == nil then refuse() end
  local checked = {}
  for key, value in pairs(values) do
    if type(value) ~= "string" or #value > MAX_VALUE then refuse() end
    checked[key_of(key)] = value
  end
  return change(outer.map_set_vals)(checked)
end

function given.map_remove_key(key)
  return change(outer.map_remove_key)(key_of(key))
end

function given.map_get_keys(after, most)
  return listed(look(outer.map_get_keys), bound_of(after), size_of(most))
end

function given.map_get_vals(after, prefix, most)
  local vals, prefix = look(outer.map_get_vals), bound_of(prefix)
  local function list(after, most) return vals(after, prefix, most) end
  return listed(list, bound_of(after), size_of(most))
end

given.log = outer.log

local registered = {}

function given.register(method, access)
  if type(method) ~= "function" or registered[method] ~= nil then refuse() end
  registered[method] = access == "readonly"
end

for name, value in pairs(outer) do
  if type(value) == "number" then given[name] = value end
end
given.ENODATA, given.ESTALE, given.EOPNOTSUPP = 61, 116, 95

-- A table that cannot be changed nor listed.
local function library(functions)
  local function find(_, name)
    local found = functions[name]
    if found == nil then refuse() end
    return found
  end
  return setmetatable({}, { __index = find, __newindex = refuse, __pairs = refuse })
end

-- Luau writes `%q` and `%a` otherwise, and negative numbers in other bases.
local function format(pattern, ...)
  if pattern:find("%%[^%a%%]*[qaA]") then refuse() end
  local in_other_base = pattern:find("%%[^%a%%]*[oxX]")
  local values = { ... }
  for index, value in pairs(values) do
    values[index] = normal(value)
    if in_other_base and type(value) == "number" and value < 0 then refuse() end
  end
  return string.format(pattern, table.unpack(values, 1, select("#", ...)))
end

local function concat(values, ...)
  for _, value in ipairs(values) do
    if math.type(value) == "float" then refuse() end
  end
  return table.concat(values, ...)
end

-- Computes `a .. b`. Lua would join numbers in its own notation, so nacre has replaced `..` in the
-- program: it contains `a << _nacre_concat << b` instead.
local function text_of(value)
  if type(value) == "number" then return tostring(whole(value)) end
  if type(value) ~= "string" then refuse() end
  return value
end

local half_joined = {}
half_joined.__shl = function(left, right) return left[1] .. text_of(right) end
local joiner = setmetatable({}, {
  __shl = function(left) return setmetatable({ text_of(left) }, half_joined) end,
})

-- The message of an error that the program itself raised without a position. The program must not
-- see any other error message, because Luau words those differently.
local raised

local function raise(value, level)
  raised = level == 0 and value or nil
  if level == nil then level = 1 end
  error(value, level == 0 and 0 or level + 1)
end

local function after_call(succeeded, failure, ...)
  local known = raised
  raised = nil
  if not succeeded and type(failure) == "string" and failure ~= known then refuse() end
  return succeeded, failure, ...
end

local function protected(...)
  return after_call(pcall(...))
end

-- Lua and Luau go through the fields of a table in different orders.
local function pairs_of_one(values)
  local first = next(values)
  if first ~= nil and next(values, first) ~= nil then refuse() end
  return pairs(values)
end

-- Whole numbers are integers there, however they came about.
local function kind_of_number(...)
  local value = ...
  if math.type(...) == nil then return nil end
  whole(value)
  return "integer"
end

local function to_integer(value)
  if type(value) == "string" then refuse() end
  return type(value) == "number" and whole(value) or nil
end

local function unsigned_less(a, b)
  return math.ult(whole(a), whole(b))
end

local strings = library {
  byte = string.byte, char = string.char, find = string.find, format = format,
  gmatch = string.gmatch, gsub = string.gsub, len = string.len, lower = string.lower,
  match = string.match, rep = string.rep, reverse = string.reverse, sub = string.sub,
  upper = string.upper,
}
local unpack = string.unpack

local environment = {
  _nacre_concat = joiner,
  assert = assert, error = raise, ipairs = ipairs, pairs = pairs_of_one, pcall = protected,
  select = select, type = type, unpack = table.unpack,
  bufferlist = library { new = bufferlist.new },
  objclass = library(given),
  string = strings,
  table = library {
    concat = concat, insert = table.insert, remove = table.remove, unpack = table.unpack,
  },
  math = library {
    abs = math.abs, ceil = math.ceil, floor = math.floor, max = math.max, min = math.min,
    tointeger = to_integer, type = kind_of_number, ult = unsigned_less,
  },
}

function environment.tonumber(value, base)
  if base ~= nil then refuse() end
  -- Luau reads `inf` and `nan`, and other forms in hexadecimal.
  if type(value) == "string" and value:find("[^%d%s%.eE%+%-]") then refuse() end
  return normal(tonumber(value))
end

function environment.tostring(value)
  local kind = type(value)
  if kind ~= "number" and kind ~= "string" and kind ~= "boolean" and kind ~= "nil" then refuse() end
  return tostring(normal(value))
end

-- Names that nacre gives a meaning and this does not; any other is nil in both.
local ABSENT = {
  _G = true, _VERSION = true, bit32 = true, buffer = true, coroutine = true, getmetatable = true,
  next = true, rawequal = true, rawget = true, rawlen = true, rawset = true, setmetatable = true,
  typeof = true, utf8 = true, vector = true, xpcall = true,
}

setmetatable(environment, {
  __index = function(_, name)
    if ABSENT[name] then refuse() end
  end,
})

-- The status that a method returned, if that is one in nacre too.
local function finish(output, ...)
  local status = select(-1, 0, ...)
  if math.type(status) ~= "integer" or status > MAX_INT or status < 0 then refuse() end
  if refused or #output > MAX_OUTPUT then refuse() end
  return status
end

local function run_method(input, output)
  local source, method, text = unpack("<s4s4s4", input:str())
  -- Methods of strings are looked up there.
  local of_strings = getmetatable("")
  of_strings.__index = strings
  -- Asked for strings that are numbers in Luau only.
  for _, operator in ipairs { "add", "sub", "mul", "div", "mod", "pow", "unm", "idiv" } do
    of_strings["__" .. operator] = refuse
  end
  local chunk = load(source, "=program", "t", environment)
  if not chunk then refuse() end
  chunk()
  local run = rawget(environment, method)
  if registered[run] == nil then refuse() end
  read_only = registered[run]
  local data = bufferlist.new()
  data:append(text)
  return finish(output, run(data, output))
end

function run_program(input, output)
  local answer = bufferlist.new()
  local done, status = pcall(run_method, input, answer)
  if not done then return REFUSED end
  -- Drop the output of a failing call: the OSD would keep it in its log.
  output:append(answer:str())
  return status
end
objclass.register(run_program)
