-- Earliest deadline first: the request goes next whose promised latency ends soonest, whatever its tenant's buckets say.
--
-- For tenants that all have promises and together never ask for more than the device does: then it misses no deadline
-- that any order keeps. A request without a promise goes when none with a promise waits, by weight.
--
-- Not where a tenant may ask for more than it was promised: its overdue requests precede everybody's, and all tenants
-- miss. Not for bounds: what `nacre slo admit` promises is computed for the native order.

local function deadline(entry)
  return entry.slo and entry.slo - entry.waited or math.huge
end

function choose(waiting)
  local first = 1
  for place, entry in waiting do
    local own, best = deadline(entry), deadline(waiting[first])
    if own < best or (own == best and entry.share < waiting[first].share) then
      first = place
    end
  end
  return first
end
