-- Code that generated classes share. The file has sections; a class contains the sections that it uses, and the
-- sections that these use. The code is in the common subset of Luau and Lua 5.3. It uses the functions of stock
-- `cls_lua`, and nacre's additions to `objclass` where they exist. A section begins with three dashes and its
-- name. After a colon follow the names of the sections that it uses. Text before the first section of a file,
-- like this one, is in no class.
--
-- `object` is the state of the object during a request:
--
--   [1], [2], …              the fields of the header (`layout/header.rs`), then the fields of each layout
--   is_new                   nothing is stored yet, or nothing in the present layout
--   is_changed               some field differs from the stored one
--   known                    rows and keys that were looked up, by key
-- NAME the changed states of the aggregate NAME, by group (`view_changes.rs`)
--   PLACE                    what a place remembers, by the place (`layout.lua`)
--   from, cursor, old, is_held   the state of a migration (`migrate.lua`)
--
-- A set of rows in memory (`new_set`) has the rows and keys in the order in which they were added (`rows`,
-- `keys`), their number (`count`), and the rows by key (`by`). In a recursion the rows from `new` to `upto` are
-- those that the last round added.

--- names

-- Methods are globals whose names the program chooses. So everything that the class itself uses is local.
local _G, objclass, bufferlist, table, math = _G, objclass, bufferlist, table, math
local next, pcall, error, type, tostring = next, pcall, error, type, tostring
local pack, unpack = string.pack, string.unpack
local sub, find, gsub = string.sub, string.find, string.gsub

--- fail

-- Ends the request with a status and nothing changed.
local fail = objclass.fail or function(status, message)
  error({ status = status, message = message }, 0)
end

--- protect: fail

-- On a store without `objclass.fail`, wraps a method so that its status is returned.
local function protect(method)
  return function(input, output)
    local returned = { pcall(method, input, output) }
    if returned[1] then
      return returned[2]
    elseif type(returned[2]) == "table" then
      return returned[2].status
    elseif type(returned[2]) == "number" then
      return returned[2]
    end
    error(returned[2], 0)
  end
end

--- whole: fail

-- Numbers are exact below 2^53; from there on a result is refused rather than rounded.
local END = 9007199254740992
local function whole(number)
  if number > -END and number < END then
    return number
  end
  error("a number past 2^53")
end

--- shift

-- Adds a number to a sum. Since numbers come in any order, a partial sum may exceed 2^53 although the total does not.
-- So the sum is kept in two parts, until `total` joins them after the last number.
local PART = 67108864
local function shift(state, at, number)
  local high = state[-at]
  if not high then
    high = state[at] // PART
    state[at] = state[at] % PART
  end
  state[-at] = high + number // PART
  state[at] = state[at] + number % PART
end

--- total: whole shift

-- The sum that this leaves.
local function total(state, at)
  local high = state[-at]
  if high then
    state[at], state[-at] = whole(high * PART + state[at]), nil
  end
end

--- times: whole
local function times(a, b)
  whole(a * 1.0 * b)
  return a * b
end

--- modulo

-- The remainder, with the sign of the divisor. Luau's operator would round large numbers; `math.fmod` is exact.
local function modulo(a, b)
  if b == 0 then
    error("division by zero")
  end
  local rest = math.fmod(a, b)
  if rest ~= 0 and (rest < 0) ~= (b < 0) then
    rest = rest + b
  end
  return rest
end

--- divide

-- Divides and rounds down. Takes the remainder with the sign of the dividend and corrects the quotient afterwards:
-- subtracting `modulo(a, b)` from `a` instead could exceed 2^53, beyond which numbers are not exact.
local function divide(a, b)
  if b == 0 then
    error("division by zero")
  end
  local rest = math.fmod(a, b)
  local quotient = (a - rest) // b
  if rest ~= 0 and (rest < 0) ~= (b < 0) then
    quotient = quotient - 1
  end
  return quotient
end

--- hex_key

-- Hexadecimal digits of a number behind what goes before it.
local hex_key = objclass.hex_key or function(prefix, number)
  return string.format("%s%014x", prefix, number)
end

--- key_int: hex_key

-- The key of a number: its sign, then hexadecimal digits, fifteen bytes in all. Keys sort like their numbers, and
-- have no zero byte, because stock `cls_lua` would cut a key there.
local function key_int(number)
  if number >= 0 then
    return hex_key("p", number)
  end
  return hex_key("m", number + 9007199254740992)
end

--- number_key: key_int

-- The key of a row whose key is a number, made once in a request.
local function number_key(object, number)
  local known = object.known
  local key = known[number]
  if not key then
    key = key_int(number)
    known[number] = key
  end
  return key
end

--- column_int: names
local function column_int(key, at)
  local number = tonumber(sub(key, at + 1, at + 14), 16)
  if sub(key, at, at) == "m" then
    number = number - 9007199254740992
  end
  return number, at + 15
end

--- key_text: names

-- The key of a string that is not the last column. It ends in the byte 1, and escapes the bytes 0, 1 and 2 within the
-- string.
local INNER_ESCAPES = { ["\0"] = "\2\3", ["\1"] = "\2\4", ["\2"] = "\2\5" }
local function key_text(text)
  if find(text, "[\0\1\2]") then
    text = gsub(text, "[\0\1\2]", INNER_ESCAPES)
  end
  return text .. "\1"
end

--- column_text: names
local INNER_UNESCAPES = { ["\2\3"] = "\0", ["\2\4"] = "\1", ["\2\5"] = "\2" }
local function column_text(key, at)
  local stop = find(key, "\1", at, true)
  local text = sub(key, at, stop - 1)
  if find(text, "\2", 1, true) then
    text = gsub(text, "\2[\3\4\5]", INNER_UNESCAPES)
  end
  return text, stop + 1
end

--- key_last: names

-- A text that nothing follows needs no end.
local LAST_ESCAPES = { ["\0"] = "\1\1", ["\1"] = "\1\2" }
local function key_last(text)
  if find(text, "[\0\1]") then
    text = gsub(text, "[\0\1]", LAST_ESCAPES)
  end
  return text
end

--- column_last: names
local LAST_UNESCAPES = { ["\1\1"] = "\0", ["\1\2"] = "\1" }
local function column_last(key, at)
  local text = sub(key, at)
  if find(text, "\1", 1, true) then
    text = gsub(text, "\1[\1\2]", LAST_UNESCAPES)
  end
  return text, #key + 1
end

--- key_bool
local function key_bool(value)
  return value and "t" or "f"
end

--- column_bool: names
local function column_bool(key, at)
  return sub(key, at, at) == "t", at + 1
end

--- key_nil

-- Nil sorts before every value.
local function key_nil(value, encode)
  if value == nil then
    return "\1"
  end
  return "\2" .. encode(value)
end

--- column_nil: names
local function column_nil(key, at, decode)
  if sub(key, at, at) == "\1" then
    return nil, at + 1
  end
  return decode(key, at + 1)
end

--- new_set

-- Rows in the order they came, and by their key.
local function new_set()
  return { rows = {}, keys = {}, by = {}, count = 0 }
end

--- same
local function same(a, b, first, last)
  for column = first, last do
    if a[column] ~= b[column] then
      return false
    end
  end
  return true
end

--- shown

-- Columns of a row for people. What is long is cut.
local function shown(row, first, last)
  local columns = {}
  for column = first, last do
    local value = row[column]
    if type(value) == "string" then
      value = "'" .. string.gsub(string.sub(value, 1, 64), "%c", "?") .. "'"
    end
    columns[#columns + 1] = tostring(value)
  end
  return "(" .. table.concat(columns, ", ") .. ")"
end

--- conflict: fail shown

-- Fails the request because two different rows have the same key. The columns from `first` to `last` are not in
-- the key.
local function conflict(name, known, row, first, last)
  local key, values = shown(row, 1, first - 1), shown(known, first, last)
  fail(-125, "two rows of " .. name .. " have the key " .. key .. ": " .. values .. " and "
    .. shown(row, first, last))
end

--- add: same conflict

-- Adds a row to a set. The columns from `first` to `last` are not in the key.
local function add(set, key, row, first, last, name)
  local known = set.by[key]
  if known == nil then
    local count = set.count + 1
    set.count = count
    set.rows[count] = row
    set.keys[count] = key
    set.by[key] = row
  elseif not same(known, row, first, last) then
    conflict(name, known, row, first, last)
  end
end

--- add_few: same conflict

-- Adds a row to a list of few rows, which is searched from the beginning. The key is the first `key_width`
-- columns.
local function add_few(list, row, key_width, width, name)
  for at = 1, #list do
    local known = list[at]
    if same(known, row, 1, key_width) then
      if not same(known, row, key_width + 1, width) then
        conflict(name, known, row, key_width + 1, width)
      end
      return
    end
  end
  list[#list + 1] = row
end

--- has_few: same

-- Whether a row of a list begins with these columns.
local function has_few(list, wanted, width)
  for at = 1, #list do
    if same(list[at], wanted, 1, width) then
      return true
    end
  end
  return false
end

--- index

-- Returns an index of the rows of a set, by the result of `key_of`. First adds the rows that the set got since the
-- last call.
local function index(set, name, key_of)
  local known = set[name]
  if not known then
    known = { upto = 0, groups = {} }
    set[name] = known
  end
  for at = known.upto + 1, set.count do
    local row = set.rows[at]
    local key = key_of(row)
    local group = known.groups[key]
    if group then
      group[#group + 1] = row
    else
      known.groups[key] = { row }
    end
  end
  known.upto = set.count
  return known.groups
end

--- freeze

-- What a class defines never changes; where that can be enforced it is.
local freeze = table.freeze or function() end

--- NOTHING: freeze
local NOTHING = {}
freeze(NOTHING)

--- get

-- The stored value of a key, nil if there is none.
local get = objclass.map_get_str or function(key)
  local found, value = pcall(objclass.map_get_val, key)
  if found then
    return value:str()
  elseif value ~= -objclass.ENOENT then
    error("map_get_val failed with " .. tostring(value))
  end
end

--- set
local set = objclass.map_set or function(key, value)
  local list = bufferlist.new()
  list:append(value)
  objclass.map_set_val(key, list)
end

--- set_parts: set

-- Stores a value of two parts.
local set_parts = objclass.map_set_parts or function(key, first, second)
  set(key, first .. second)
end

--- set_rest: names set

-- Stores a value of two parts: `first`, then all bytes of the request from byte `from` on.
local set_rest = objclass.map_set_rest or function(key, first, from, input)
  set(key, first .. sub(input:str(), from))
end

--- get_int: get key_int

-- The stored value of a number's key behind a prefix.
local get_int = objclass.map_get_int or function(prefix, number)
  return get(prefix .. key_int(number))
end

--- set_int: set key_int
local set_int = objclass.map_set_int or function(prefix, number, value)
  set(prefix .. key_int(number), value)
end

--- set_int_rest: names set_int

-- Stores a value of three parts: `first`, the number of bytes of the request from byte `from` on, and these bytes.
local set_int_rest = objclass.map_set_int_rest or function(prefix, number, first, from, input)
  set_int(prefix, number, first .. pack("<s4", sub(input:str(), from)))
end

--- page: names

-- How many entries of a range one call fetches, and how many bytes of values. A run's memory limit is several times
-- as many bytes. A stock OSD has no such limit, so there only the number of entries is bounded.
local PAGE, PAGE_BYTES = 512, 4194304
-- Some stored entries under a prefix, and the key to go on after, nil at the end.
local page = objclass.map_page and function(prefix, after, most, bytes)
  return objclass.map_page(after, prefix, most or PAGE, bytes or PAGE_BYTES)
end or function(prefix, after, most)
  most = most or PAGE
  local values = objclass.map_get_vals(after, prefix, most)
  local last, count = after, 0
  for key in next, values do
    count = count + 1
    if key > last then
      last = key
    end
  end
  return values, count == most and last or nil
end

--- first_number: names column_int

-- The number of the first key under a prefix, nil if there is none.
local function first_number(prefix)
  local key = next(objclass.map_get_vals("", prefix, 1))
  return key and (column_int(key, #prefix + 1))
end

--- last_number: key_int column_int first_number

-- The number in the last key under a prefix, or nil if there is no key. A stock OSD can only search keys forwards, so
-- on it this takes a binary search of some fifty steps.
local last_number = objclass.map_last and function(prefix)
  local key = objclass.map_last(prefix)
  return key and (column_int(key, #prefix + 1))
end or function(prefix)
  local low, high = first_number(prefix), 9007199254740991
  while low and low < high do
    local middle = low + (high - low) // 2
    local key = next(objclass.map_get_vals(prefix .. key_int(middle), prefix, 1))
    if key then
      low = column_int(key, #prefix + 1)
    else
      high = middle
    end
  end
  return low
end

--- pend: same conflict

-- Records a change of the row with this key. The method makes the recorded changes at the end of the request.
local function pend(pending, table, what, key, row)
  local entry = pending[key]
  if not entry then
    entry = {}
    pending[key] = entry
  end
  if what == "delete" then
    local gone = entry.delete or {}
    gone[#gone + 1] = row
    entry.delete = gone
    return
  end
  local other = entry[what]
  if other and not same(other, row, table.first, table.last) then
    conflict(table.name, other, row, table.first, table.last)
  end
  entry[what] = row
end

--- settle: same conflict

-- What becomes of each key: deletions first, then insertions. Nothing is written yet.
local function settle(object, pending, table)
  local changes = {}
  for key, entry in next, pending do
    local old = table.get(object, key) or nil
    local row = entry.now or old
    for _, gone in next, entry.delete or {} do
      if row and same(row, gone, table.first, table.last) then
        row = nil
      end
    end
    local insert, replace = entry.insert, entry.replace
    local other = replace or row
    if insert and other and not same(insert, other, table.first, table.last) then
      conflict(table.name, other, insert, table.first, table.last)
    end
    row = replace or insert or row
    local is_change = row ~= old
    if row and old then
      is_change = not same(row, old, table.first, table.last)
    end
    if is_change then
      changes[#changes + 1] = { key = key, old = old, row = row }
    end
  end
  return changes
end

--- bool_or_nil
local function bool_or_nil(slot)
  if slot == 2 then
    return nil
  end
  return slot == 1
end

--- holds: same

-- Whether there is a row whose columns from `first` to `last` are those of `wanted`.
local function holds(row, wanted, first, last)
  return row and same(row, wanted, first, last) or false
end

--- take: names

-- Decodes the value at an offset of a request. Returns the value and the offset after it, or no offset if the
-- value is malformed.
local function take(text, at, tag)
  if not at or sub(text, at, at) ~= tag then
    return nil, nil
  end
  if tag == "i" then
    if at + 8 > #text then
      return nil, nil
    end
    local number = unpack("<i8", text, at + 1)
    if number <= -9007199254740992 or number >= 9007199254740992 then
      return nil, nil
    end
    return number, at + 9
  elseif at + 4 > #text then
    return nil, nil
  end
  local length = unpack("<I4", text, at + 1)
  if at + 4 + length > #text then
    return nil, nil
  end
  return sub(text, at + 5, at + 4 + length), at + 5 + length
end

--- take_bool: names
local function take_bool(text, at)
  local tag = at and sub(text, at, at)
  if tag == "t" or tag == "f" then
    return tag == "t", at + 1
  end
  return nil, nil
end

--- take_nil: names

-- Nil, or what `take` reads there.
local function take_nil(take, text, at, tag)
  if at and sub(text, at, at) == "n" then
    return nil, at + 1
  end
  return take(text, at, tag)
end

--- say_nil: names
local function say_nil(value, format, tag)
  if value == nil then
    return "n"
  end
  return pack(format, tag, value)
end

--- say_bool
local function say_bool(value)
  if value == nil then
    return "n"
  end
  return value and "t" or "f"
end

--- say_set: names

-- Appends an output to the reply: its name, the number of its rows, and the rows in the order of their keys.
local function say_set(output, name, width, set, encode)
  if set.count == 0 then
    return
  end
  output:append(pack("<s1I1I4", name, width, set.count))
  table.sort(set.keys)
  for at = 1, set.count do
    output:append(encode(set.by[set.keys[at]]))
  end
end
