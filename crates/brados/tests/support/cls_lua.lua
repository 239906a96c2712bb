-- A simulated OSD with stock `cls_lua`. It has what generated classes need: a map, attributes, a byte stream, and
-- calls that happen wholly or not at all. As in an OSD, a method does not see what it wrote.
--
-- Reads lines `METHOD INPUT` from standard input, with the input in hexadecimal digits, and replies to each with
-- `STATUS OUTPUT`. The command line names the file of the class.

local map, written = {}, {}
local attributes, set_attributes = {}, {}
-- The byte stream, and the pending writes to it in order. Each write is an offset and a string; without an offset it
-- replaces the whole stream.
local stream, writes = "", {}

local raw_pcall = pcall
-- A failed call of the object's is caught as its negative errno.
function pcall(...)
  local results = table.pack(raw_pcall(...))
  if not results[1] and type(results[2]) == "table" and results[2].errno then
    return false, results[2].errno, "failed"
  end
  return table.unpack(results, 1, results.n)
end

bufferlist = {}
local methods = {}
local meta = { __index = methods, __len = function(list) return #list.text end }
function methods.str(list) return list.text end
function methods.append(list, text)
  assert(type(text) == "string")
  list.text = list.text .. text
end
function bufferlist.new()
  return setmetatable({ text = "" }, meta)
end
local function list_of(text)
  local list = bufferlist.new()
  list:append(text)
  return list
end

local registered = {}
objclass = { ENOENT = 2 }
function objclass.getxattr(name)
  if not attributes[name] then
    error({ errno = -61 })
  end
  return list_of(attributes[name])
end
function objclass.setxattr(name, value) set_attributes[name] = value:str() end
function objclass.stat()
  if next(map) == nil then
    error({ errno = -2 })
  end
  return #stream, 0
end
function objclass.read(offset, length)
  return list_of(stream:sub(offset + 1, length == 0 and -1 or offset + length))
end
function objclass.write(offset, length, list)
  assert(length == #list)
  writes[#writes + 1] = { offset = offset, text = list:str() }
end
function objclass.write_full(list) writes[#writes + 1] = { text = list:str() } end
local function apply(write)
  if not write.offset then
    stream = write.text
    return
  end
  local before = stream:sub(1, write.offset)
  before = before .. ("\0"):rep(write.offset - #before)
  stream = before .. write.text .. stream:sub(write.offset + #write.text + 1)
end
function objclass.register(method) registered[method] = true end
function objclass.map_get_val(key)
  if not map[key] then
    error({ errno = -2 })
  end
  return list_of(map[key])
end
function objclass.map_set_val(key, value)
  assert(not key:find("\0"), "a key would be cut off at a zero byte")
  written[key] = value:str()
end
function objclass.map_remove_key(key) written[key] = false end
-- The first keys after one, in order.
local function keys_after(after, prefix, most)
  local keys = {}
  for key in next, map do
    if key > after and key:sub(1, #prefix) == prefix then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys)
  return { table.unpack(keys, 1, math.min(#keys, most)) }
end
function objclass.map_get_keys(after, most)
  local found = {}
  for _, key in next, keys_after(after, "", most) do
    found[key] = true
  end
  return found
end
function objclass.map_get_vals(after, prefix, most)
  local values = {}
  for _, key in next, keys_after(after, prefix, most) do
    values[key] = list_of(map[key])
  end
  return values
end

local function call(name, input)
  local output = bufferlist.new()
  written, registered, set_attributes, writes = {}, {}, {}, {}
  -- Each call has globals of its own.
  local globals = setmetatable({}, { __index = _G })
  globals._G = globals
  assert(loadfile(arg[1], "t", globals))()
  assert(registered[globals[name]], "the method is not registered")
  local status = globals[name](list_of(input), output)
  if status >= 0 then
    for key, value in next, written do
      map[key] = value or nil
    end
    for name, value in next, set_attributes do
      attributes[name] = value
    end
    for _, write in ipairs(writes) do
      apply(write)
    end
  end
  return status, status >= 0 and output:str() or ""
end

for line in io.lines() do
  local method, digits = line:match("^(%S+) (%S*)$")
  local input = digits:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)
  local done, status, output = raw_pcall(call, method, input)
  if not done then
    -- What is no status of an operation is one of the class.
    status, output = -5, ""
  end
  print(status, (output:gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
end
