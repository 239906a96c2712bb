-- The storage interface of the shared log: the methods of the objects that store a log's entries.
--
-- crates/log/src/storage/mod.rs describes the methods, their inputs and the stored data. The native class
-- log_native does the same in Rust, and each class can use objects of the other.
--
-- The code is in the common subset of Luau and Lua 5.3. The functions under "the map" also work where objclass
-- lacks nacre's additions, as in a stock OSD.

local EINVAL, EIO, ENOENT = objclass.EINVAL, objclass.EIO, objclass.ENOENT
local EROFS, ERANGE, ESPIPE = objclass.EROFS, objclass.ERANGE, objclass.ESPIPE
local ENODATA = 61 -- not among the constants of stock cls_lua

-- Numbers are doubles: epochs end here, positions one earlier, so that "one past" is exact too.
local EPOCH_END = 2 ^ 53
local POSITION_END = 2 ^ 53 - 1
-- Entries of one batch.
local MAX_BATCH_ENTRIES = 1024
-- Data of one entry: with its kind it is one value of a map.
local MAX_ENTRY_BYTES = 1024 * 1024 - 1
-- Entries one call removes at most, so that a trim of a million takes many short calls.
local RECLAIM_ENTRIES = 256

local pack, unpack, byte, sub = string.pack, string.unpack, string.byte, string.sub

---------------------------------------------------------------------------------------- the map --

local KEY_PREFIX = "e"
local KEY_FORMAT = ">c1I8"
local KEY_BYTES = 9

local function key_of(position)
  return pack(KEY_FORMAT, KEY_PREFIX, position)
end

-- The position of a key, nil for what is no key of ours.
local function position_of(key)
  if #key ~= KEY_BYTES or sub(key, 1, 1) ~= KEY_PREFIX then
    return nil
  end
  local _, position = unpack(KEY_FORMAT, key)
  if position < 0 or position >= POSITION_END then
    return nil
  end
  return position
end

local function exists()
  if objclass.exists then
    return objclass.exists()
  end
  return (pcall(objclass.stat))
end

-- The value of a key as a string, nil if it is not there.
local map_get
if objclass.map_get then
  function map_get(key)
    local value = objclass.map_get(key)
    return value and value:str()
  end
else
  function map_get(key)
    local found, value = pcall(objclass.map_get_val, key)
    if found then
      return value:str()
    elseif value ~= -ENOENT then
      error("map_get_val failed with " .. tostring(value))
    end
  end
end

local map_set = objclass.map_set
  or function(key, value)
    local list = bufferlist.new()
    list:append(value)
    objclass.map_set_val(key, list)
  end

-- The first key after a position, of this class or of another; nil if there is none.
local function key_after(position)
  return (next(objclass.map_get_keys(key_of(position), 1)))
end

-- The last position in the map. nil if there is none; false if the last key is malformed.
local function last_position()
  if objclass.map_last then
    local key = objclass.map_last(KEY_PREFIX)
    return key and (position_of(key) or false)
  end
  -- A stock OSD can only search keys forwards, so this binary search takes some fifty steps. That is no problem,
  -- because only recovery calls this method.
  local last = next(objclass.map_get_keys(KEY_PREFIX, 1))
  if not last or sub(last, 1, 1) ~= KEY_PREFIX then
    return nil
  end
  local low, high = position_of(last), POSITION_END - 1
  while low and low < high do
    local middle = low + (high - low) // 2
    local key = key_after(middle)
    if key and sub(key, 1, 1) == KEY_PREFIX then
      low = position_of(key)
    else
      high = middle
    end
  end
  return low or false
end

------------------------------------------------------------------------------------- the header --

local MAGIC = "NLOG"
local FORMAT = 1
local HEADER_FORMAT = "<c4I4I8I8I8I4"
local HEADER_BYTES = 36
local CHECKSUM_PRIME = 4294967291 -- the greatest below 2^32

local function checksum(epoch, trim_end, reclaim_end)
  local sum = FORMAT
  sum = (sum * 31 + epoch % CHECKSUM_PRIME) % CHECKSUM_PRIME
  sum = (sum * 31 + trim_end % CHECKSUM_PRIME) % CHECKSUM_PRIME
  return (sum * 31 + reclaim_end % CHECKSUM_PRIME) % CHECKSUM_PRIME
end

local function is_number(number, limit)
  return number >= 0 and number < limit
end

-- Status, epoch, trim end and reclaim end of the object.
local function read_header()
  local header = objclass.map_read_header():str()
  if #header ~= HEADER_BYTES then
    return (#header > 0 or exists()) and -EIO or -ENOENT
  end
  local magic, format, epoch, trim_end, reclaim_end, sum = unpack(HEADER_FORMAT, header)
  if
    magic ~= MAGIC
    or format ~= FORMAT
    or not is_number(epoch, EPOCH_END)
    or not is_number(trim_end, EPOCH_END)
    or not is_number(reclaim_end, EPOCH_END)
    or sum ~= checksum(epoch, trim_end, reclaim_end)
  then
    return -EIO
  end
  return 0, epoch, trim_end, reclaim_end
end

local function write_header(epoch, trim_end, reclaim_end)
  local header = bufferlist.new()
  local sum = checksum(epoch, trim_end, reclaim_end)
  header:append(pack(HEADER_FORMAT, MAGIC, FORMAT, epoch, trim_end, reclaim_end, sum))
  objclass.map_write_header(header)
end

-- As read_header, if the epoch of the operation passes the object's.
local function guard(epoch)
  if epoch == 0 then
    return -EINVAL
  end
  local status, sealed, trim_end, reclaim_end = read_header()
  if status == 0 and epoch < sealed then
    return -ESPIPE
  end
  return status, sealed, trim_end, reclaim_end
end

------------------------------------------------------------------------------------- the inputs --

-- The epoch; nil if the input makes no sense, here and below.
local function decode_epoch(input)
  local text = input:str()
  if #text ~= 8 then
    return nil
  end
  local epoch = unpack("<I8", text)
  return is_number(epoch, EPOCH_END) and epoch or nil
end

-- Epoch, position, and the input as a string; something may follow.
local function decode_start(input)
  local text = input:str()
  if #text < 16 then
    return nil
  end
  local epoch, position = unpack("<I8I8", text)
  if not is_number(epoch, EPOCH_END) or not is_number(position, POSITION_END) then
    return nil
  end
  return epoch, position, text
end

-- Epoch and position, and nothing else.
local function decode_position(input)
  local epoch, position, text = decode_start(input)
  if epoch and #text == 16 then
    return epoch, position
  end
end

-- A count and so many positions, from an offset to the end.
local function decode_positions(text, offset)
  local count = unpack("<I4", text, offset)
  if count > MAX_BATCH_ENTRIES or #text ~= offset + 3 + 8 * count then
    return nil
  end
  local positions = {}
  for index = 1, count do
    local position = unpack("<I8", text, offset + 4 + 8 * (index - 1))
    if not is_number(position, POSITION_END) then
      return nil
    end
    positions[index] = position
  end
  return positions
end

-- Epoch and positions.
local function decode_fill_batch(input)
  local text = input:str()
  if #text < 12 then
    return nil
  end
  local epoch = unpack("<I8", text)
  if is_number(epoch, EPOCH_END) then
    return epoch, decode_positions(text, 9)
  end
end

-- Epoch, positions, and after how many bytes to stop.
local function decode_read_batch(input)
  local text = input:str()
  if #text < 16 then
    return nil
  end
  local epoch, byte_limit = unpack("<I8I4", text)
  if is_number(epoch, EPOCH_END) then
    return epoch, decode_positions(text, 13), byte_limit
  end
end

-- Epoch, positions, and where in the text the data of each begins and ends.
local function decode_write_batch(input)
  local text = input:str()
  if #text < 12 then
    return nil
  end
  local epoch, count, offset = unpack("<I8I4", text)
  if not is_number(epoch, EPOCH_END) or count > MAX_BATCH_ENTRIES then
    return nil
  end
  local positions, first, last = {}, {}, {}
  for index = 1, count do
    if offset + 11 > #text then
      return nil
    end
    local position, length
    position, length, offset = unpack("<I8I4", text, offset)
    if not is_number(position, POSITION_END) or offset + length - 1 > #text then
      return nil
    end
    positions[index], first[index], last[index] = position, offset, offset + length - 1
    offset = offset + length
  end
  if offset ~= #text + 1 then
    return nil
  end
  return epoch, positions, text, first, last
end

------------------------------------------------------------------------------------ the entries --

local DATA, FILLED, TRIMMED = byte("D"), byte("F"), byte("T")
local UNWRITTEN, DAMAGED = byte("U"), byte("X")

-- What a position holds, and the value that says so.
local function state_of(position, trim_end)
  if position < trim_end then
    return TRIMMED
  end
  local value = map_get(key_of(position))
  if not value then
    return UNWRITTEN
  end
  local kind = byte(value)
  if kind == DATA or ((kind == FILLED or kind == TRIMMED) and #value == 1) then
    return kind, value
  end
  return DAMAGED
end

local function write_entry(position, data, trim_end)
  if #data > MAX_ENTRY_BYTES then
    return -EINVAL
  end
  local key = key_of(position)
  if position < trim_end or map_get(key) then
    return -EROFS
  end
  map_set(key, "D" .. data)
  return 0
end

local function fill_entry(position, trim_end)
  local kind = state_of(position, trim_end)
  if kind == UNWRITTEN then
    map_set(key_of(position), "F")
  elseif kind == DATA then
    return -EROFS
  elseif kind == DAMAGED then
    return -EIO
  end
  return 0
end

-- Removes a bounded number of the entries below the trim limit. Returns the position up to which all entries are
-- removed then.
local function reclaim(epoch, trim_end, reclaim_end)
  if reclaim_end >= trim_end then
    return reclaim_end
  end
  local after = reclaim_end == 0 and KEY_PREFIX or key_of(reclaim_end - 1)
  local positions = {}
  for key in pairs(objclass.map_get_keys(after, RECLAIM_ENTRIES + 1)) do
    local position = position_of(key)
    if position then
      positions[#positions + 1] = position
    end
  end
  table.sort(positions)
  reclaim_end = trim_end
  for index = 1, math.min(#positions, RECLAIM_ENTRIES) do
    local position = positions[index]
    if position >= trim_end then
      reclaim_end = trim_end
      break
    end
    objclass.map_remove_key(key_of(position))
    if #positions > RECLAIM_ENTRIES then
      reclaim_end = position + 1
    end
  end
  write_header(epoch, trim_end, reclaim_end)
  return reclaim_end
end

-- Status and maximum position, nil if there is none.
local function maximum(trim_end)
  local last = last_position()
  if last == false then
    return -EIO
  end
  local limit = trim_end > 0 and trim_end - 1 or nil
  if last and limit then
    return 0, math.max(last, limit)
  end
  return 0, last or limit
end

local function append_maximum(output, position)
  output:append(pack("<I1I8", position and 1 or 0, position or 0))
end

------------------------------------------------------------------------------------ the methods --

function seal(input, output)
  local epoch = decode_epoch(input)
  if not epoch or epoch == 0 then
    return -EINVAL
  end
  local status, sealed, trim_end, reclaim_end = read_header()
  if status == -ENOENT then
    sealed, trim_end, reclaim_end = 0, 0, 0
  elseif status ~= 0 then
    return status
  elseif epoch <= sealed then
    return -ESPIPE
  end
  write_header(epoch, trim_end, reclaim_end)
  local found, position = maximum(trim_end)
  if found ~= 0 then
    return found
  end
  append_maximum(output, position)
  reclaim(epoch, trim_end, reclaim_end)
  return 0
end

function max_position(input, output)
  if #input > 0 then
    return -EINVAL
  end
  local status, _, trim_end = read_header()
  if status ~= 0 then
    return status
  end
  local found, position = maximum(trim_end)
  if found == 0 then
    append_maximum(output, position)
  end
  return found
end

function read(input, output)
  local epoch, position = decode_position(input)
  if not epoch then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  local kind, value = state_of(position, trim_end)
  if kind == DATA then
    output:append(sub(value, 2))
    return 0
  elseif kind == UNWRITTEN then
    return -ERANGE
  elseif kind == DAMAGED then
    return -EIO
  end
  return -ENODATA
end

function read_batch(input, output)
  local epoch, positions, byte_limit = decode_read_batch(input)
  if not positions then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  local bytes = 0
  for _, position in ipairs(positions) do
    local kind, value = state_of(position, trim_end)
    local state = string.char(kind)
    if kind == DATA then
      state = pack("<I1s4", kind, sub(value, 2))
    end
    output:append(state)
    bytes = bytes + #state
    if bytes >= byte_limit then
      break
    end
  end
  return 0
end

function write(input)
  local epoch, position, text = decode_start(input)
  if not epoch then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  return write_entry(position, sub(text, 17), trim_end)
end

-- Appends the statuses of a batch to the reply, or nothing if all requests succeeded. An OSD returns a
-- reply to a write only if the reply is short, as this one is.
local function append_statuses(output, statuses)
  for _, status in ipairs(statuses) do
    if status ~= 0 then
      for _, each in ipairs(statuses) do
        output:append(pack("<i4", each))
      end
      return
    end
  end
end

function write_batch(input, output)
  local epoch, positions, text, first, last = decode_write_batch(input)
  if not positions then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  local statuses = {}
  for index, position in ipairs(positions) do
    local data = sub(text, first[index], last[index])
    statuses[index] = write_entry(position, data, trim_end)
  end
  append_statuses(output, statuses)
  return 0
end

function fill(input)
  local epoch, position = decode_position(input)
  if not epoch then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  return fill_entry(position, trim_end)
end

function fill_batch(input, output)
  local epoch, positions = decode_fill_batch(input)
  if not positions then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  local statuses = {}
  for index, position in ipairs(positions) do
    statuses[index] = fill_entry(position, trim_end)
  end
  append_statuses(output, statuses)
  return 0
end

function trim(input)
  local epoch, position = decode_position(input)
  if not epoch then
    return -EINVAL
  end
  local status, _, trim_end = guard(epoch)
  if status == 0 and position >= trim_end then
    map_set(key_of(position), "T")
  end
  return status
end

function trim_to(input, output)
  local epoch, position = decode_position(input)
  if not epoch then
    return -EINVAL
  end
  local status, sealed, trim_end, reclaim_end = guard(epoch)
  if status ~= 0 then
    return status
  end
  if position >= trim_end then
    trim_end = position + 1
    write_header(sealed, trim_end, reclaim_end)
  end
  reclaim_end = reclaim(sealed, trim_end, reclaim_end)
  output:append(string.char(reclaim_end < trim_end and 1 or 0))
  return 0
end

objclass.register(seal)
objclass.register(write)
objclass.register(write_batch)
objclass.register(fill)
objclass.register(fill_batch)
objclass.register(trim)
objclass.register(trim_to)
objclass.register(max_position, "readonly")
objclass.register(read, "readonly")
objclass.register(read_batch, "readonly")
