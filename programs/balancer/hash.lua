-- Every unit (directory, sequencer or the like) has a home: the rank that its name hashes to. Each rank sends every
-- unit whose home is another rank to that rank.
--
-- For: very many units of about the same load. It needs no measurement, and a client can compute where a unit is.
-- Not for: units of different load, because the busiest may have the same home. Not for a number of ranks that
-- changes, because then most units move.
-- Source: hash-based distribution, as Mantle (SC'15), section 2, describes it.

local function home_of(unit)
  local hash = 5381
  for at = 1, #unit.name do
    hash = (hash * 33 + string.byte(unit.name, at)) % 4294967296
  end
  return hash % #MDSs + 1
end

function metaload()
  return IRD + IWR + READDIR
end

function mdsload(i)
  return MDSs[i].auth
end

function when()
  for _, unit in ipairs(units) do
    if unit.load > 0 and home_of(unit) ~= whoami then return true end
  end
  return false
end

function where()
  for _, unit in ipairs(units) do
    local home = home_of(unit)
    if home ~= whoami then
      targets[home] = (targets[home] or 0) + unit.load
    end
  end
end

howmuch = {
  function(candidates, _, rank)
    local chosen = {}
    for at, unit in ipairs(candidates) do
      if home_of(unit) == rank then chosen[#chosen + 1] = at end
    end
    return chosen
  end,
}
