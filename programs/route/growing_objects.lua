-- Sends an object elsewhere from the first write that reaches past LIMIT bytes, and asks about it no more: the program
-- inserts a rule, by which all further writes of the object go to the same place.
--
-- For objects of which most stay small and some grow large, when it cannot be told from their names which. Set LIMIT and
-- the target.
--
-- Not to keep a target below a size: the first bytes stay at home until they are written again. A node that restarts, or
-- gets another version of this program, forgets its rules and decides anew; no byte is lost by that.
--
--   * w data/* -> program growing_objects follow

local LIMIT = 1024 * 1024
local AWAY = "target storage.1"

destinations = { "home", AWAY }

function route(io)
  if io.offset + io.length <= LIMIT then
    return "home"
  end
  insert(io.rule, AWAY)
  return AWAY
end
