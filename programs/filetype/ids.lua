-- An allocator of numbers: each is handed out once, in order.
--
--   next count    the first of `count` numbers that follow each other; one if nothing is said
--   peek          the number that is next
--
-- A client that takes many at a time and uses some leaves gaps, as a client does that dies.

local MAX_COUNT = 1000000

function init()
  return { next = 1 }
end

filetype.write("next", function(state, count)
  count = count or 1
  if type(count) ~= "number" or count % 1 ~= 0 or not (count >= 1 and count <= MAX_COUNT) then
    filetype.invalid("say how many, from 1 to " .. MAX_COUNT)
  end
  if state.next + count > 2^53 then
    filetype.conflict("all numbers are handed out")
  end
  local first = state.next
  state.next += count
  return first
end)

filetype.read("peek", function(state)
  return state.next
end)
