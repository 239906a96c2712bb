-- Migrates an object between two layouts. A class has its present layout, number 1, and knows former layouts,
-- numbered from 2 on; N is one of these. An object is always in one of the states below. It stores its state and the
-- digits of a layout, but not the layout's number. So a class that numbers the layouts differently can continue a
-- migration.
--
--   state     `@brados`          fields of `object`   where rows are         where requests put rows
--   new       missing            is_new               nowhere                in layout 1
--   settled   `b`, digits of 1   from = nil           in layout 1            in layout 1
--   former    `b`, digits of N   from = N, old        in layout N            in the map
--   leaving   `m`, digits of N   from = N             in layout N or map     in the map
--   entering  `m`, digits of 1   from = 1             in layout 1 or map     in layout 1
--   held      `b`, digits of N   from = N, is_held    in the map             in the map
--
-- The transitions:
--
--   new -> settled               the first request that writes (`save_object`)
--   former -> leaving            any request that writes (`save_between`)
--   former, leaving -> settled   `migrate_at_once`: moves all rows if none was moved yet and they are few
--   leaving -> entering          the `migrate_step` that moves the last row into the map; if layout 1 keeps all
--                                rows in the map, the object is settled at once (`enter`)
--   entering -> settled          the `migrate_step` that moves the last row out of the map
--
-- If an object is in the state `former` and all its rows are in the map, it is loaded as `entering` or `settled`. The
-- next write stores that state (`adopt`). There is one exception: if layout 1 needs the byte stream and another
-- writer has used the stream, the object is `held`. A held object stays in layout N, and a migration of it fails.
--
-- `cursor` says in which direction rows move, in which table, and after which key to continue. A request may add a
-- row whose key is before the cursor; it stores the row in the location to which rows move.
--
-- Invariants. Each row is stored only once, so a look-up tries both locations. Two layouts never use the stream
-- at the same time: all rows of N leave the stream before layout 1 puts a row there. The transaction that moves
-- the last row also changes `@brados`, and deletes a header that is outside the map (`old.clear`).
--
-- The generated class sets (`header.rs`) `MOVING`, the tables that some layout keeps outside the map;
-- `PROGRAM_FIELDS`, the number of header fields that all layouts share; `new_object`; and `LAYOUTS`, with these
-- fields for each layout:
--
--   digits                 the digits of the layout in `@brados`
--   format                 the format of its header: the shared fields, then its own
--   first, count           the position of its own fields in `object`, and their number
--   has_rows, has_stream   whether it has rows outside the map; whether it uses the stream
--   heap                   its heap, if it has one
--   refresh                computes stored greatest and least keys anew, if its tables are in the map
--   load, clear            load and delete the header, if the header is not in the map
--   save                   stores the header of an object that is held

--- mixed: chain

-- Deletes the header of a former layout, if it is stored outside the map. This must happen before another header or
-- row is stored in its location, and before a class of the former layout looks for a header there.
local function clear_old_header(object)
  if object.old and object.old.clear then
    object.old.clear()
  end
  object.old = nil
end
-- Makes a place that stores values in `into`, and finds values in both places.
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
-- Adds fields to `moving`, the description of a table: how its rows are packed, its place in each layout, and its
-- places while rows move between a layout and the map.
local function add_places(moving, format, map, places)
  moving.format = format
  moving.map, moving.places, moving.between = map, places, { mixed(places[1], map) }
  for number = 2, #places do
    moving.between[number] = mixed(map, places[number])
  end
end
-- The place of a table in the present state of the object.
local function place_of(object, moving)
  local from = object.from
  if not from then
    return moving.places[1]
  end
  return object.is_held and moving.map or moving.between[from]
end

--- adopt: mixed get set stream_size names
local LAYOUTS, MOVING, PROGRAM_FIELDS, new_object
-- The first character of a cursor: whether rows move into the layout or out of it.
local function way_of(number)
  return number == 1 and "i" or "o"
end
local function settle_all(object)
  object.from, object.is_new = nil, true
end
-- Called when the migration has moved all rows into the map. If the present layout (number 1) keeps some rows outside
-- the map, they are moved there next; otherwise the migration is finished.
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
      -- Also between layouts: the class that wrote the object may have kept no ends of tables.
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
      -- If rows moved in the other direction before, there may be new rows before the cursor.
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

-- Does one step of a migration: moves a bounded number of rows, and reads a bounded number of bytes, empty slots
-- included. The object's cursor says in which table and after which key to continue.
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
-- A stored row without the unused bytes at the end of its slot. The map and narrower slots have no space for these
-- bytes.
local function without_rest(moving, value)
  local found = { unpack(moving.format, value) }
  return sub(value, 1, found[#found] - 1)
end
-- The next rows to move, from the cursor on: from a former layout into the map or, if `from` is 1, from the map into
-- the present layout. Also returns the cursor for the next step, or nil if these rows are the last.
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
-- Moves all rows of an object in one request, if one step can read them all. Otherwise moves none and returns nil.
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
