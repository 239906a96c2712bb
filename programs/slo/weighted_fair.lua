-- Weighted fair: each tenant gets work in proportion to its weight, whether it has a promise or not.
--
-- For machines on which nobody is promised a latency that matters, and nobody may crowd out others. `nacre slo weight
-- TENANT W` sets the weight; a tenant with a promise counts 1, unless WEIGHT says otherwise. A tenant that had nothing to do
-- gets no more for it.
--
-- Not for promises: a tenant with a small burst waits for its turn like all others. Token buckets mean nothing.

local WEIGHT = {}

local function share(entry)
  return entry.share * entry.weight / (WEIGHT[entry.tenant] or entry.weight)
end

function choose(waiting)
  local first = 1
  for place, entry in waiting do
    local own, least = share(entry), share(waiting[first])
    if own < least or (own == least and entry.turn < waiting[first].turn) then
      first = place
    end
  end
  return first
end
