-- Between two layouts. A class has its present layout, number 1, and knows former ones, from number 2 on;
-- N is one of these. Each request finds the object in one of these states, which is all that is stored of a
-- migration, so a class that knows the layout by another number goes on from there:
--
--   state     `@brados`          `object`             rows lie               requests put rows
--   new       is not there       is_new               nowhere                where layout 1 says
--   settled   `b`, digits of 1   from = nil           where layout 1 says    where layout 1 says
--   former    `b`, digits of N   from = N, old        where N says           into the map
--   leaving   `m`, digits of N   from = N             there, or in the map   into the map
--   entering  `m`, digits of 1   from = 1             where layout 1 says,   where layout 1 says
--                                                     or in the map
--   held      `b`, digits of N   from = N, is_held    in the map             into the map
--
-- Who moves it on:
--
--   new -> settled               the first request that writes (`save_object`)
--   former -> leaving            any request that writes (`save_between`)
--   former, leaving -> settled   `migrate_at_once`, where no row was moved yet and the rows are few, and soon found
--   leaving -> entering          the `migrate_step` that moves the last row into the map; the object is settled
--                                at once where layout 1 keeps all rows in the map (`enter`)
--   entering -> settled          the `migrate_step` that moves the last row out of the map
--
-- A former object whose rows all lie in the map is loaded as one that is entering, or settled, and stored so when
-- it is written (`adopt`). It is held instead while layout 1 wants the byte stream and somebody else wrote to
-- that: all stays as N has it, and to migrate it fails.
--
-- `cursor` says which way rows move, in which table, and after which key. Requests may put rows before it, but
-- only where they are to go.
--
-- Invariants. A row lies in one place only, so to find it is to look into both. N's rows have left the stream before
-- layout 1 has one there: no two layouts ever divide one stream. What `@brados` says changes in the transaction that
-- makes it true, and a header that is elsewhere (`old.clear`) goes in the same.
--
-- The class fills (`header.rs`) `MOVING`, the tables that a layout has elsewhere than in the map; `PROGRAM_FIELDS`,
-- how many fields of the header every layout has; `new_object`; and `LAYOUTS`, of each layout:
--
--   digits                 by which `@brados` names it
--   format                 of its header: the program's fields, then its own
--   first, count           where its own are in `object`, and how many
--   has_rows, has_stream   whether it has rows elsewhere than in the map, and anything in the stream
--   heap                   its heap, if it has one
--   refresh                finds ends of tables anew that are kept, where its tables are in the map
--   load, clear            the header, where that is not in the map
--   save                   the header, of an object that is held

--- mixed: chain
-- The header of a former layout must be gone before its class looks for it again, and before something
-- else is where it was.
local function clear_old_header(object)
  if object.old and object.old.clear then
    object.old.clear()
  end
  object.old = nil
end
-- What is kept now goes into one place, and is found there or in another.
local function mixed(into, from)
  local place = { forget = into.forget }
  if into == from then
    return into
  end
  function place.find(object, key)
    return into.find(object, key) or from.find(object, key)
  end
  function place.keep(object, key, value)
    clear_old_header(object)
    from.drop(object, key)
    into.keep(object, key, value)
    object.is_changed = true
  end
  place.page = chain(into.page, from.page)
  if into.has_overflow or from.has_overflow then
    -- Slots go over the map as well.
    place.page = into.has_overflow and into.page or from.page
  end
  return place
end
-- How a table's rows are packed, its place in each layout, and those between a layout and the map.
local function add_places(moving, format, map, places)
  moving.format = format
  moving.map, moving.places, moving.between = map, places, { mixed(places[1], map) }
  for number = 2, #places do
    moving.between[number] = mixed(map, places[number])
  end
end
-- The place in force.
local function place_of(object, moving)
  local from = object.from
  if not from then
    return moving.places[1]
  end
  return object.is_held and moving.map or moving.between[from]
end

--- adopt: mixed get set stream_size names
local LAYOUTS, MOVING, PROGRAM_FIELDS, new_object
-- The cursor of a migration begins with whether rows move into the layout or out of it.
local function way_of(number)
  return number == 1 and "i" or "o"
end
local function settle_all(object)
  object.from, object.is_new = nil, true
end
-- All rows are in the map: what is left is to put them where they belong, if that is elsewhere.
local function enter(object)
  object.cursor = ""
  if LAYOUTS[1].has_rows then
    object.from = 1
  else
    settle_all(object)
  end
end
local function hold(object, number)
  object.from, object.old, object.is_held = number, nil, true
end
local function fields_of(layout, stored)
  if sub(stored, 1, 1) == "m" then
    local cursor, at = unpack("<s4", stored, 17)
    return { unpack(layout.format, stored, at) }, cursor
  end
  if layout.load then
    stored = layout.load()
    if not stored or sub(stored, 1, 16) ~= "b" .. layout.digits then
      return nil
    end
  end
  return { unpack(layout.format, stored, 17) }, ""
end
local function adopt(stored)
  for number, layout in next, LAYOUTS do
    if sub(stored, 2, 16) == layout.digits then
      local fields, cursor = fields_of(layout, stored)
      if not fields then
        return nil
      end
      local object = new_object()
      for field = 1, PROGRAM_FIELDS do
        object[field] = fields[field]
      end
      for field = 1, layout.count do
        object[layout.first + field - 1] = fields[PROGRAM_FIELDS + field]
      end
      object.old = sub(stored, 1, 1) == "b" and layout or nil
      -- Between layouts, too: who wrote it may have known no layout in which they are kept.
      if layout.refresh then
        layout.refresh(object)
      end
      if not layout.has_stream and LAYOUTS[1].has_stream and stream_size() > 0 then
        hold(object, number)
        return object
      elseif not layout.has_rows then
        enter(object)
        return object
      end
      object.from = number
      -- Where rows moved the other way, those that came since may lie before the cursor.
      object.cursor = sub(cursor, 1, 1) == way_of(number) and cursor or ""
      return object
    end
  end
end
local function save_between(object)
  local layout, fields = LAYOUTS[object.from], {}
  for field = 1, PROGRAM_FIELDS do
    fields[field] = object[field]
  end
  for field = 1, layout.count do
    fields[PROGRAM_FIELDS + field] = object[layout.first + field - 1]
  end
  if object.is_held then
    return layout.save("b" .. layout.digits .. pack(layout.format, table.unpack(fields)))
  end
  clear_old_header(object)
  set("@brados", "m" .. layout.digits .. pack("<s4", object.cursor)
    .. pack(layout.format, table.unpack(fields)))
end

--- migrate: adopt own_stream
-- Moves rows, so many a request, and reads so many bytes for them, be there rows in them or not. The cursor says
-- in which table, and after what in it.
local STEP_ROWS, STEP_BYTES = 512, 1048576
local function place_of_cursor(cursor)
  if cursor ~= "" then
    local name, after = unpack("<s1s4", cursor, 2)
    for number, moving in next, MOVING do
      if moving.name == name then
        return number, after
      end
    end
  end
  return 1, ""
end
local function source_of(moving, number)
  return number == 1 and moving.map or moving.places[number]
end
-- A stored row without what else was in its slot, which a place in the map, or narrower slots, would keep.
local function without_rest(moving, value)
  local found = { unpack(moving.format, value) }
  return sub(value, 1, found[#found] - 1)
end
-- Rows in a former layout's places, or in the map if it is the present one, from the cursor on; and
-- where to go on, nil at the end.
local function rows_to_move(object, from, cursor)
  local rows, bytes = {}, 0
  local number, after = place_of_cursor(cursor)
  while MOVING[number] do
    local moving = MOVING[number]
    if #rows >= STEP_ROWS or bytes >= STEP_BYTES then
      return rows, way_of(from) .. pack("<s1s4", moving.name, after)
    end
    local source = source_of(moving, from)
    local values, rest, read = source.own(object, after)
    bytes = bytes + read
    for key, value in next, values do
      value = without_rest(moving, value)
      rows[#rows + 1] = { moving = moving, source = source, key = key, value = value }
    end
    number, after = rest and number or number + 1, rest or ""
  end
  return rows, nil
end
local function empty_stream(object, layout)
  if layout.has_stream then
    objclass.write_full(bufferlist.new())
    if LAYOUTS[1].heap then
      LAYOUTS[1].heap.empty(object)
    end
  end
end
-- All rows in one request, where they are few and found soon; nil if they are not.
local function migrate_at_once(object)
  local former = LAYOUTS[object.from]
  local rows, rest = rows_to_move(object, object.from, "")
  if rest then
    return nil
  end
  local others, more = rows_to_move(object, 1, "")
  if more then
    return nil
  end
  for _, row in next, others do
    rows[#rows + 1] = row
  end
  for _, row in next, rows do
    row.source.drop(object, row.key)
  end
  clear_old_header(object)
  empty_stream(object, former)
  settle_all(object)
  for _, row in next, rows do
    local place = row.moving.places[1]
    place.forget(object, row.key)
    place.keep(object, row.key, row.value)
  end
  return #rows
end
local function migrate_step(object)
  local former = object.from
  local rows, rest = rows_to_move(object, former, object.cursor)
  for _, row in next, rows do
    place_of(object, row.moving).keep(object, row.key, row.value)
  end
  object.cursor, object.is_changed = rest or "", true
  if not rest and former == 1 then
    settle_all(object)
  elseif not rest then
    clear_old_header(object)
    empty_stream(object, LAYOUTS[former])
    enter(object)
  end
  return #rows
end
local function migrate(object, output)
  local moved = 0
  if object.is_held then
    own_stream()
  end
  if object.from then
    local is_start = object.from ~= 1 and object.cursor == ""
    moved = is_start and migrate_at_once(object) or migrate_step(object)
  end
  local state = object.from and "moving" or "settled"
  output:append(pack("<s1I1I4c1s4c1i8", "layout", 2, 1, "s", state, "i", moved))
  -- An object that there was nothing of stays so.
  return object.cursor ~= nil
end
