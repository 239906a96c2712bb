-- A sequencer: hands out positions from 0 on, none of them twice.
--
--   next count    the tail, which then advances by `count`; by one if nothing is said
--   read          the tail: the position that is next
--
-- The state is recovered: positions are answered without being stored. All that are handed out lie below `reserved`,
-- which is stored before the first of them is answered. After a crash the tail continues at `reserved`; the positions
-- in between stay unused. A call that is asked again after a crash gets positions of its own.
--
-- A client that is alone holds the exclusive capability and hands out positions itself.

local RESERVE = 1000000
local MAX_COUNT = 1000000

function init()
  return { tail = 0, reserved = 0 }
end

filetype.capability("exclusive")

filetype.recovered(function(state)
  state.tail = state.reserved
end)

filetype.write("next", function(state, count)
  count = count or 1
  if type(count) ~= "number" or count % 1 ~= 0 or not (count >= 1 and count <= MAX_COUNT) then
    filetype.invalid("say how many, from 1 to " .. MAX_COUNT)
  end
  local first = state.tail
  if first + count + RESERVE > 2^53 then
    filetype.conflict("all positions are handed out")
  end
  state.tail = first + count
  if state.tail > state.reserved then
    state.reserved = state.tail + RESERVE
    filetype.store()
  end
  return first
end)

filetype.read("read", function(state)
  return state.tail
end)
