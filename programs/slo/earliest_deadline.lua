-- Earliest deadline first: next comes the request whose promised latency ends soonest, whatever its tenant's
-- token buckets say.
--
-- Use it if all tenants have promises and together never ask for more than the device can do. Then it misses no
-- deadline that any order could meet. Requests without a promise come only when no request with a promise waits;
-- their tenants share by weight.
--
-- Do not use it if a tenant may ask for more than it was promised: its overdue requests come first, and all
-- tenants miss their deadlines. The latencies of `nacre slo admit` are computed for nacre's built-in order, and
-- do not hold for this one.

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
