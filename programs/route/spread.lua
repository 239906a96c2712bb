-- Spreads objects over the targets below by a hash of their names. All writes of one object go to one target.
--
-- Use it for objects whose names contain the same {tag} if their target has become too busy: placement keeps objects
-- with the same tag on one target. Put the names of your targets into the list.
--
-- Do not use it for objects that placement already spreads, because the rule would only add a hop to their requests.
-- Do not use it to free a target for good: when the rule ends, the objects move back to the target that placement
-- chose.
--
--   * w data/{batch}* -> program spread follow

destinations = { "target storage.0", "target storage.1", "target storage.2" }

local function hash(text)
  local sum = 0
  for place = 1, #text do
    sum = (sum * 31 + string.byte(text, place)) % 4294967296
  end
  return sum
end

function route(io)
  return destinations[hash(io.name) % #destinations + 1]
end
