-- Fair: next comes the tenant that has done the fewest operations under earlier grants.
--
-- Each grant lasts HOLD seconds at most, so every tenant gets its turn. Operations are counted from when the
-- present authority took the resource over.
--
-- Do not use it if some tenants must not wait; use `priority` for those.

local HOLD = 0.05

function grant(ask)
  return { hold = HOLD }
end

function turn(waiting)
  local least = 1
  for place, ask in waiting do
    if ask.operations < waiting[least].operations then
      least = place
    end
  end
  return least
end
