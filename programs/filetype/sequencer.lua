-- A sequencer: gives out positions from 0 on, each once.
--
--   next count    the tail; then advances the tail by `count`, or by one without `count`
--   read          the tail, which is the position that comes next
--
-- The sequencer replies without storing each position. Before it gives out the first of many positions, it stores
-- their upper bound, `reserved`. After a crash the tail continues at `reserved`, so the positions in between stay
-- unused. A call that is repeated after a crash gets new positions.
--
-- A client that is alone holds the exclusive capability and gives out positions itself.

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
