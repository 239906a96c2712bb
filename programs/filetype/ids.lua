-- An allocator of numbers: gives out each number once, in order.
--
--   next count    the first of `count` consecutive numbers; without `count`, one number
--   peek          the number that comes next
--
-- A client that takes several numbers and does not use all of them, for example because it dies, leaves gaps.

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
