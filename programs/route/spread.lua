-- Spreads objects over the targets below by a hash of their names: all writes of one object go to one target.
--
-- For objects whose names hold one {tag}, which placement keeps on one target, when that target has become too busy. Put
-- the names of your targets into the list.
--
-- Not for objects that placement spreads already: their requests only take one hop more. Not to free a target for good:
-- what lies elsewhere comes home when the rule ends.
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
