-- Stores rows of tables outside the map, in the byte stream of the object.
--
-- A place is a key–value store within the object, in which a table keeps its rows. The class has it as a Lua table of
-- these functions:
--
--   find(object, key)               the value, or nil if there is none
--   keep(object, key, value)        stores the value; nil removes it
--   page(object, beginning, after)  values by key, whose keys begin with `beginning`; and the cursor for the
--                                   next page, or nil at the end
--   own(object, after)              like `page`, with smaller pages, but only values outside the map; and the
--                                   number of bytes read, including empty slots
--                                   (a last argument to an index's `page` and `own` bounds the number of keys)
--   drop(object, key)               like keep(object, key, nil), when the whole place is about to be emptied
--   forget(object, key)             treats the key as missing, even if a read still returns its old value
--   has_overflow                    whether `page` also returns values from the map
--
-- There are three kinds of place. `in_map` stores values in entries of the map. `in_slots` computes an offset of
-- the byte stream from the key; a value that does not fit is stored in the map. `appended` stores values at the
-- end of the stream, in a heap (`heap_at`), and finds them by an index, which is a place of one of the other
-- kinds.
--
-- A value that is read from a slot ends in the unused bytes of the slot. Code that decodes a row ignores these bytes;
-- a migration cuts them off.
--
-- On some stores a read sees earlier writes of the same request; on stock OSDs it does not. So a place remembers in
-- `object` what it wrote and needs later: states of slots, index entries, free blocks of the heap.
--
-- The first byte of a slot is its state:
--
--   EMPTY       no value; so is a slot past the end of the stream
--   FULL        the value follows
--   ELSEWHERE   the value is too long for the slot, and is in the map
--
-- Only `keep` changes the state. The map has an entry under a slot's key if and only if the state is ELSEWHERE. While
-- the object migrates between two layouts, this need not hold.
--
-- A block of the heap holds one value, or is free and on the free list of its size. A request that replaces or
-- removes a value frees its block. Blocks are never split or merged.

--- is_foreign: fail
local function is_foreign()
  fail(-22, "the object was written by a program with other tables, aggregates or layout")
end

--- attribute: names

-- The bytes of an attribute, nil if there are none.
local function attribute(name)
  local found, value = pcall(objclass.getxattr, name)
  if found then
    return #value > 0 and value:str() or nil
  elseif value ~= -objclass.ENOENT and value ~= -61 then
    error("getxattr failed with " .. tostring(value))
  end
end

--- set_attribute: names
local function set_attribute(name, text)
  local list = bufferlist.new()
  list:append(text)
  objclass.setxattr(name, list)
end

--- read: names

-- Bytes of the stream, fewer at its end.
local function read(offset, length)
  return objclass.read(offset, length):str()
end

--- write: names
local function write(offset, text)
  local list = bufferlist.new()
  list:append(text)
  objclass.write(offset, #text, list)
end

--- stream_size: names
local function stream_size()
  local found, size = pcall(objclass.stat)
  if found then
    return size
  elseif size ~= -objclass.ENOENT then
    error("stat failed with " .. tostring(size))
  end
  return 0
end

--- own_stream: stream_size fail

-- The byte stream of a new object must be empty. If it is not, another writer uses the stream, and this class must
-- not overwrite the data.
local function own_stream()
  if stream_size() > 0 then
    fail(-22, "the program keeps rows in the byte stream, and this object's holds something else")
  end
end

--- memory: names

-- What a place remembers during the request.
local function memory(object, place)
  local known = object[place]
  if not known then
    known = {}
    object[place] = known
  end
  return known
end

--- in_map: get set page

-- Values in entries of the map.
local OWN_PAGE, OWN_BYTES = 64, 1048576
local function in_map(prefix)
  local place = {}
  function place.find(_, key)
    return get(prefix .. key)
  end
  function place.keep(_, key, value)
    if value then
      set(prefix .. key, value)
    else
      objclass.map_remove_key(prefix .. key)
    end
  end
  local function without_prefix(values, rest)
    local found, bytes = {}, 0
    for key, value in next, values do
      local text = value:str()
      found[sub(key, #prefix + 1)] = text
      bytes = bytes + #text
    end
    return found, rest, bytes
  end
  function place.page(_, beginning, after, most)
    return without_prefix(page(prefix .. beginning, after, most))
  end
  function place.own(_, after, most)
    return without_prefix(page(prefix, after, most or OWN_PAGE, OWN_BYTES))
  end
  function place.drop(_, key)
    objclass.map_remove_key(prefix .. key)
  end
  function place.forget() end
  return place
end

--- chain: names

-- Returns a function that pages through one place and then another.
local function chain(first, second)
  return function(object, beginning, after, most)
    local values, rest, bytes
    if sub(after, 1, 1) ~= "2" then
      values, rest, bytes = first(object, beginning, sub(after, 2), most)
      return values, rest and "1" .. rest or "2", bytes
    end
    values, rest, bytes = second(object, beginning, sub(after, 2), most)
    return values, rest and "2" .. rest, bytes
  end
end

--- in_slots: in_map chain memory key_int column_int read write

-- Stores values in slots of `width` bytes. Slot 0 begins at offset `base`. Each key is a number, and successive
-- numbers have successive slots, at most `limit` in all. A value that is too long, or whose number has no slot, is
-- stored in the map. `object[at]` is the number that has slot 0. `object[at + 1]` is how many slots may have values;
-- later slots are not read.
local EMPTY, FULL, ELSEWHERE = 0, 1, 2
local SLOT_GROUP, SLOT_CHUNK = 64, 65536
local function in_slots(prefix, at, base, width, limit)
  local place, overflow = {}, in_map(prefix)
  local group, chunk = math.min(SLOT_GROUP, limit), math.max(1, math.min(SLOT_CHUNK // width, 512))
  local function slot_of(object, key)
    local slot = column_int(key, 1) - object[at]
    return slot >= 0 and slot < limit and slot or nil
  end
  function place.find(object, key)
    local used = object[at + 1]
    local slot = used > 0 and slot_of(object, key)
    if used > 0 and not slot then
      return overflow.find(object, key)
    elseif not slot or slot >= used then
      return nil
    end
    local stored = read(base + slot * width, width)
    local state = stored:byte(1) or EMPTY
    memory(object, place)[key] = state
    if state == FULL then
      return sub(stored, 2)
    end
    return state == ELSEWHERE and overflow.find(object, key) or nil
  end
  -- Returns the state of a slot. If a value is to be stored past the slots in use, first extends the slots in use, so
  -- that they include this one.
  local function state_of(object, key, slot, value)
    local states = memory(object, place)
    if slot >= object[at + 1] then
      if value then
        object[at + 1] = math.min(slot - slot % group + group, limit)
        object.is_changed = true
      end
      return EMPTY
    end
    return states[key] or read(base + slot * width, 1):byte(1) or EMPTY
  end
  function place.keep(object, key, value)
    if object[at + 1] == 0 and value then
      local number = column_int(key, 1)
      object[at] = number - number % group
    end
    local slot = slot_of(object, key)
    if not slot then
      return overflow.keep(object, key, value)
    end
    local old = state_of(object, key, slot, value)
    local new = not value and EMPTY or #value < width and FULL or ELSEWHERE
    if old == ELSEWHERE and new ~= ELSEWHERE then
      overflow.keep(object, key, nil)
    end
    if new == FULL then
      write(base + slot * width, "\1" .. value)
    elseif new ~= old then
      write(base + slot * width, string.char(new))
    end
    if new == ELSEWHERE then
      overflow.keep(object, key, value)
    end
    memory(object, place)[key] = new
  end
  function place.own(object, after, most)
    local first, used = after == "" and 0 or tonumber(after), object[at + 1]
    local values, upto = {}, math.min(first + math.min(chunk, most or chunk), used)
    if first >= upto then
      return values, nil, 0
    end
    local stored = read(base + first * width, (upto - first) * width)
    for slot = first, upto - 1 do
      local start = (slot - first) * width + 1
      if stored:byte(start) == FULL then
        values[key_int(object[at] + slot)] = sub(stored, start + 1, start + width - 1)
      end
    end
    return values, upto < used and tostring(upto) or nil, #stored
  end
  place.page = chain(function(object, _, after, most)
    return place.own(object, after, most)
  end, overflow.page)
  place.has_overflow = true
  function place.drop(object, key)
    place.keep(object, key, nil)
  end
  function place.forget(object, key)
    memory(object, place)[key] = EMPTY
  end
  return place
end

--- heap_at: memory read write stream_size

-- Stores values in blocks at the end of the stream. Blocks have fixed sizes from 16 bytes on, four sizes for each
-- doubling. A freed block is used for the next value of its size. So there are never more blocks of a size than there
-- once were values of that size at the same time. `object[at]` lists the first free block of each size (`BI6`: the
-- size, its offset plus one). A free block begins with the offset of the next free block plus one, or 0 if it is the
-- last. `put` returns the index entry of a value: "\1", offset, length of the value and length of the block. If the
-- stream is full, the entry is "\2" and the value itself. A value that is never freed gets a block of exactly its
-- length.
local HEAP_LEAST, STREAM_END = 16, 134217728
local function size_of(length)
  local least, size = HEAP_LEAST, 0
  while length > 2 * least do
    least, size = 2 * least, size + 4
  end
  local quarters = math.max(0, (length - least + least // 4 - 1) // (least // 4))
  return size + quarters, least + quarters * (least // 4)
end
local function heap_at(base, at)
  local heap = {}
  -- What this request knows of the free lists: the first free block of each size (`firsts`), the next free block
  -- after each block that this request freed (`nexts`), and the end of the stream (`stop`).
  local function known_of(object)
    local known = memory(object, heap)
    if not known.firsts then
      known.firsts, known.nexts = {}, {}
      for start = 1, #object[at], 7 do
        local size, first = unpack("<BI6", object[at], start)
        known.firsts[size] = first
      end
    end
    return known
  end
  local function set_first(object, size, first)
    local firsts, parts = known_of(object).firsts, {}
    firsts[size] = first > 0 and first or nil
    for known, offset in next, firsts do
      parts[#parts + 1] = pack("<BI6", known, offset)
    end
    object[at] = table.concat(parts)
    object.is_changed = true
  end
  local function take(object, size, room)
    local known = known_of(object)
    local offset = (known.firsts[size] or 0) - 1
    if offset >= 0 then
      set_first(object, size, known.nexts[offset] or unpack("<I6", read(base + offset, 6)))
      return offset
    end
    offset = known.stop or math.max(stream_size() - base, 0)
    if base + offset + room > STREAM_END then
      return nil
    end
    known.stop = offset + room
    return offset
  end
  local function free(object, offset, room)
    local size, least = size_of(room)
    if least > room then
      -- The block was made for a value that is never freed, so it has no standard size.
      size = size - 1
    end
    local known = known_of(object)
    known.nexts[offset] = known.firsts[size] or 0
    write(base + offset, pack("<I6", known.nexts[offset]))
    set_first(object, size, offset + 1)
  end
  function heap.length(noted)
    if noted:byte(1) == 2 then
      return #noted - 1
    end
    local _, length = unpack("<I6I4", noted, 2)
    return length
  end
  function heap.value(noted)
    if noted:byte(1) == 2 then
      return sub(noted, 2)
    end
    local offset, length = unpack("<I6I4", noted, 2)
    return read(base + offset, length)
  end
  function heap.put(object, value, noted, is_final)
    local offset, room, size, wanted, _
    if noted and noted:byte(1) == 1 then
      offset, _, room = unpack("<I6I4I4", noted, 2)
    end
    if value then
      size, wanted = size_of(#value)
    end
    if offset and wanted ~= room then
      free(object, offset, room)
      offset = nil
    end
    if not value then
      return nil
    elseif not offset then
      room = is_final and math.max(#value, HEAP_LEAST) or wanted
      offset = take(object, size, room)
    end
    if not offset then
      return "\2" .. value
    end
    -- Write the block to its full length, because the next new block is placed at the end of the stream.
    write(base + offset, value .. string.rep("\0", room - #value))
    return "\1" .. pack("<I6I4I4", offset, #value, room)
  end
  function heap.empty(object)
    object[heap] = { firsts = {}, nexts = {}, stop = 0 }
  end
  return heap
end

--- appended: heap_at in_map

-- Makes a place that stores values in a heap, and their index entries in the place `index`. `is_final` says that
-- values are never replaced or removed, so that blocks need no spare bytes.
local function appended(index, heap, is_final)
  local place = {}
  local function note_of(object, key)
    local noted = memory(object, place)
    local note = noted[key]
    if note == nil then
      note = index.find(object, key) or false
      noted[key] = note
    end
    return note
  end
  local function length_of(notes)
    local count, length = 0, 0
    for _, note in next, notes do
      count = count + 1
      length = length + heap.length(note)
    end
    return count, length
  end
  -- Returns the values for one page of the index. If the values together are too long, reads a shorter page.
  local function values_of(page_of, most_bytes)
    local notes, rest, bytes = page_of()
    local count, length = length_of(notes)
    while count > 1 and length > most_bytes do
      notes, rest, bytes = page_of(math.max(1, count * most_bytes // length))
      count, length = length_of(notes)
    end
    for key, note in next, notes do
      notes[key] = heap.value(note)
    end
    return notes, rest, bytes + length
  end
  function place.find(object, key)
    local note = note_of(object, key)
    return note and heap.value(note) or nil
  end
  function place.keep(object, key, value)
    local note = heap.put(object, value, note_of(object, key), is_final)
    index.keep(object, key, note)
    memory(object, place)[key] = note or false
  end
  function place.page(object, beginning, after)
    return values_of(function(most)
      return index.page(object, beginning, after, most)
    end, PAGE_BYTES)
  end
  function place.own(object, after)
    return values_of(function(most)
      if index.has_overflow then
        return index.page(object, "", after, most)
      end
      return index.own(object, after, most)
    end, OWN_BYTES)
  end
  function place.drop(object, key)
    index.drop(object, key)
    memory(object, place)[key] = false
  end
  function place.forget(object, key)
    index.forget(object, key)
    memory(object, place)[key] = false
  end
  return place
end
