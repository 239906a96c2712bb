-- Weighted fair: each tenant gets work in proportion to its weight, whether it has a promise or not.
--
-- Use it on machines without latency promises, where no tenant may crowd out the others. `nacre slo weight TENANT W`
-- sets the weight. A tenant with a promise has weight 1, unless WEIGHT says otherwise. A tenant that was idle gets no
-- extra work for that time.
--
-- Do not use it for promises: a tenant with a small burst waits for its turn like all others. Token buckets have
-- no effect.

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
