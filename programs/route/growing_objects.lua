-- Sends an object to another target from the first write that reaches past LIMIT bytes. The program then inserts a
-- rule that sends all further writes of the object there. So nacre calls the program only until an object has grown.
--
-- Use it if most objects stay small and some grow large, and their names do not tell which. Set LIMIT and the
-- target.
--
-- The bytes below LIMIT stay on the object's first target (`home`) until they are written again. So this program does
-- not limit how much data that target stores. A node that restarts, or gets another version of this program, loses
-- the inserted rules, and the program inserts them again. No data is lost.
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
