-- Sends an object to another target from the first write that reaches past LIMIT bytes. The program then inserts
-- a rule that sends all further writes of the object there, so it is asked only once for each object.
--
-- Use it if most objects stay small and some grow large, and their names do not tell which. Set LIMIT and the
-- target.
--
-- It does not keep a target below a size, because the first bytes stay home until they are written again. A node
-- that restarts, or gets another version of this program, loses its rules and decides anew. No data is lost then.
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
