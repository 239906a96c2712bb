-- Fair: the tenant that has done least by earlier grants is served next.
--
-- Each grant is for HOLD seconds at most, so every tenant has its turn. The operations of a tenant are counted since the
-- resource was last taken over by a node.
--
-- Not for a mix of tenants some of which must not wait: see `priority`.

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
